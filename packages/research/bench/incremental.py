"""Exact search of what has changed, against exact search of the whole (MAGIS, ASPLOS 2024, section 7.3, figure 14).

    python bench/incremental.py -o results/incremental

Networks of random NASNet-like cells, each changed again and again: an op runs once more, a result is twice as large, an
op goes away. After each change the exact scheduler (`lowtide.schedule.exact`) searches the whole, and
`lowtide.schedule.incremental`, which has seen what came before, what is new. Counted are the states that the core
expands, beams included; seconds are of a machine with other work.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from random import Random
from typing import Any

from lowtide.analyse.storage import memory_model
from lowtide.graph import Graph, Kind
from lowtide.schedule.exact import Exact
from lowtide.schedule.incremental import Incremental
from lowtide.stop import Limits
from lowtide.target import BUILT_IN
from lowtide.transform.clone import Clone, apply, repeatable
from lowtide_research.bench.pages import about, document, method_of, say, script, table, write
from lowtide_research.zoo.cells import CIFAR, Genotype, build_cells

TARGET = BUILT_IN["strict"]
NETWORKS, ROUNDS, STACK, FILTERS = 10, 10, 6, 44


@dataclass
class Round:
    """One change: what the search of the whole and that of what is new found."""

    change: str
    ops: int
    full_bytes: int
    full_bound: int
    full_states: int
    full_seconds: float
    bytes: int
    bound: int
    states: int
    seconds: float
    segments: int
    searched: int
    known: int


def random_cells(seed: int) -> Graph:
    """Five sums a cell, of two operations each on any earlier state; what nobody reads is concatenated."""
    from lowtide_research.zoo import cells

    kinds, random = sorted(set(cells._OPERATIONS) - {"skip"}), Random(seed)

    def cell() -> tuple[tuple[tuple[str, int], ...], tuple[int, ...]]:
        operations = [(random.choice(kinds), random.randrange(2 + i // 2)) for i in range(10)]
        read = {at for _, at in operations}
        return tuple(operations), tuple(i for i in range(2, 7) if i not in read)

    genotype = Genotype(*cell(), *cell())
    return build_cells(f"random cells {seed}", genotype, CIFAR, STACK, FILTERS).graph()


def _chained(graph: Graph) -> list[int]:
    """Ops that can go away: of one operand that an op makes, and one result of the same size that ops read."""
    found = []
    for op in graph.ops:
        read = [t for t in op.inputs if t in graph.producer]
        if len(read) == 1 and len(op.outputs) == 1 and op.outputs[0] in graph.consumers:
            made, given = graph.tensor_by_id[op.outputs[0]], graph.tensor_by_id[read[0]]
            if made.size == given.size and made.kind is Kind.ACTIVATION and given.kind is Kind.ACTIVATION:
                found.append(op.id)
    return found


def changed(graph: Graph, random: Random) -> tuple[Graph, str]:
    """A graph with one change."""
    kind = random.choice(("again", "larger", "gone"))
    if kind == "again":
        again = sorted(repeatable(graph))
        while True:
            op = graph.op_by_id[random.choice(again)]
            readers = graph.consumers.get(op.outputs[0], ())
            if len(readers) > 1:
                clone = Clone(op.id, op.outputs[0], (random.choice(readers),))
                return apply(graph, clone).graph, f"{op.name} again"
    if kind == "gone":
        op = graph.op_by_id[random.choice(_chained(graph))]
        source = next(t for t in op.inputs if t in graph.producer)
        ops = []
        for other in graph.ops:
            if other.id != op.id:
                inputs = tuple([source if t == op.outputs[0] else t for t in other.inputs])
                ops.append(replace(other, inputs=inputs, operands=()))
        tensors = tuple([t for t in graph.tensors if t.id != op.outputs[0]])
        return replace(graph, ops=tuple(ops), tensors=tensors), f"without {op.name}"
    tensor = random.choice([t for t in graph.tensors if t.kind is Kind.ACTIVATION and t.alias_of is None])
    tensors = tuple([replace(t, size=2 * t.size, shape=None) if t is tensor else t for t in graph.tensors])
    return replace(graph, tensors=tensors), f"{tensor.name} twice as large"


def _carried(graph: Graph, before: Sequence[int]) -> list[int]:
    """An order of ids for a changed graph: as before, new ops right before who reads them."""
    place = {v: float(k) for k, v in enumerate(before)}
    for op in reversed(graph.ops):
        if op.id not in place:
            readers = [place[r] for t in op.outputs for r in graph.consumers.get(t, ()) if r in place]
            place[op.id] = min(readers, default=float(len(before))) - 0.5
    done: set[int] = set()
    order: list[int] = []

    def run(v: int) -> None:
        stack = [v]
        while stack:
            at = stack[-1]
            waits = [u for u in _before(graph, at) if u not in done]
            if waits:
                stack += waits
                continue
            stack.pop()
            if at not in done:
                done.add(at)
                order.append(at)

    for v in sorted(place, key=lambda v: place[v]):
        if v in graph.op_by_id:
            run(v)
    return order


def _before(graph: Graph, op: int) -> list[int]:
    return [graph.producer[t] for t in graph.op_by_id[op].inputs if t in graph.producer]


def rounds_of(graph: Graph, count: int, seconds: float, seed: int) -> list[Round]:
    """A graph, then so many changes of it, one after another; the first round is the graph as it is."""
    random, incremental = Random(seed), Incremental()
    found: list[Round] = []
    before: list[int] = []
    change = "none"
    for k in range(count + 1):
        if k:
            graph, change = changed(graph, random)
        model = memory_model(graph, TARGET)
        began = time.perf_counter()
        full = Exact().schedule(model, Limits(seconds))
        middle = time.perf_counter()
        positions = {op.id: i for i, op in enumerate(graph.ops)}
        start = [positions[v] for v in _carried(graph, before)] if before else list(full.order)
        again = incremental.search(model, start, Limits(seconds))
        done = time.perf_counter()
        before = [graph.ops[i].id for i in again.order]
        assert model.core.peak(again.order) == again.peak, graph.name
        states = int(full.counters["states"]) + int(full.counters["beam_states"])
        found.append(
            Round(change, len(graph.ops), model.core.peak(full.order), full.lower_bound, states, middle - began,
                  again.peak, again.lower_bound, again.states, done - middle, again.segments, again.searched,
                  again.known)
        )  # fmt: skip
    return found


def _line(name: str, rounds: list[dict[str, Any]]) -> list[str]:
    """One graph's rounds in a line; the first, in which everything is new, is left out of the sums."""
    later = rounds[1:]
    full, again = sum(r["full_states"] for r in later), sum(r["states"] for r in later)
    same = sum(r["bytes"] == r["full_bytes"] for r in later)
    lower = sum(r["bytes"] < r["full_bytes"] for r in later)
    proved = sum(r["full_bytes"] == r["full_bound"] for r in later)
    ours = sum(r["bytes"] == r["bound"] for r in later)
    bound = sum(r["bound"] / r["full_bound"] - 1 for r in later) / len(later)  # of least peaks, where one is open
    return [
        name, f"{min(r['ops'] for r in rounds):,}", f"{rounds[0]['segments']}", f"{same} of {len(later)}", f"{lower}",
        f"{proved}, {ours}", f"{100 * bound:+.1f} %", f"{full:,}", f"{again:,}", f"{rounds[0]['states']:,}",
        f"{sum(r['full_seconds'] for r in later):.1f}, {sum(r['seconds'] for r in later):.1f}",
    ]  # fmt: skip


HEAD = (
    "graph", "ops", "segments", "equal peaks", "lower", "proved: whole, new", "bound, new over whole", "states, whole",
    "states, new", "first round", "seconds: whole, new",
)  # fmt: skip


def page(results: dict[str, Any]) -> list[str]:
    """The results as Markdown."""
    later = [r for rounds in results["graphs"].values() for r in rounds[1:]]
    full, again = sum(r["full_states"] for r in later), sum(r["states"] for r in later)
    same, above = sum(r["bytes"] == r["full_bytes"] for r in later), sum(r["bytes"] > r["full_bytes"] for r in later)
    return [
        "# Exact search of what has changed", "", *method_of(__doc__),
        f"{about(results['machine'])}, {results['machine']['cores']} cores, other work on the machine; "
        f"{results['seconds']:g} s for each search. Target strict.", "",
        *table(HEAD, [_line(name, rounds) for name, rounds in results["graphs"].items()]), "",
        f"{same} of {len(later)} rounds equal, {above} higher; {full:,} states for the whole, {again:,} for what is "
        f"new, {full / again:.0f} times fewer.",
    ]  # fmt: skip


def main() -> None:
    """Measure, and write the page."""
    parser = script(__doc__)
    parser.add_argument("--time", type=float, default=10.0)
    given = parser.parse_args()
    results = document(seconds=given.time, graphs={})
    for k in range(NETWORKS):
        rounds = rounds_of(random_cells(k), ROUNDS, given.time, len(f"cells {k}"))
        results["graphs"][f"cells {k}"] = [asdict(r) for r in rounds]
        say(_line(f"cells {k}", results["graphs"][f"cells {k}"]))
        write(given.out, results, page(results))


if __name__ == "__main__":
    main()
