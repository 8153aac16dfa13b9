"""Exact search of what has changed, against exact search of the whole (MAGIS, ASPLOS 2024, section 7.3, figure 14).

    python bench/incremental.py -o results/incremental

Networks of random NASNet-like cells, each changed again and again: an op runs once more, a result is twice as large, an
op goes away. After each change the exact scheduler (`lowtide.schedule.exact`) searches the whole, and
`lowtide_research.schedule.incremental`, which has seen what came before, what is new. Then part graphs: a network cut
into row stripes, a few ops of which change each round. Counted are the states that the core expands, beams included;
seconds are of a machine with other work.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

from lowtide.analyse.storage import memory_model
from lowtide.api.writing import write_zoo
from lowtide.graph import Graph, Kind
from lowtide.read import read_model
from lowtide.schedule.exact import Exact
from lowtide.stop import Limits
from lowtide.target import BUILT_IN
from lowtide.transform.clone import Clone, apply, repeatable
from lowtide_research.bench.machine import machine
from lowtide_research.schedule.incremental import Incremental
from lowtide_research.zoo.cells import CIFAR, Genotype, build_cells

TARGET = BUILT_IN["strict"]
NETWORKS, ROUNDS, STACK, FILTERS = 10, 10, 6, 44
PARTS = (
    ("randwire_ws", 4), ("nasnet_a_imagenet", 5), ("nasnet_a_cifar", 6), ("pnasnet_5_imagenet", 5), ("randwire_ba", 3),
    ("randwire_er", 8), ("darts_imagenet", 20), ("hrnet_w32", 3),
)  # fmt: skip
"""Networks of the zoo, and how many times the stripes of their best cut."""

PART_ROUNDS = 4


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


def in_parts(name: str, times: int, seconds: float) -> Graph:
    """A network of the zoo with its regions of lowest peak in `times` as many stripes."""
    from lowtide.optimize.regions import best_regions
    from lowtide.transform.cut import Cutter
    from lowtide.transform.parts import apply as cut

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "model.onnx"
        write_zoo(name, file)
        graph = read_model(file)
    model, cutter = memory_model(graph, TARGET), Cutter(graph)
    way = best_regions(cutter, model, Exact().schedule(model, Limits(seconds)).order, Limits(seconds))
    regions = []
    for region in way.regions:
        ids, axes = [c.op for c in region.cuts], {c.op: c.axis for c in region.cuts}
        regions.append(cutter.region(ids, axes, times * region.stripes))
    return cut(cutter, regions, way.order).graph


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


def page(document: dict[str, Any]) -> str:
    """The results as Markdown."""
    m = document["machine"]
    head = ["graph", "ops", "segments", "equal peaks", "lower", "proved: whole, new", "bound, new over whole",
            "states, whole", "states, new", "first round", "seconds: whole, new"]  # fmt: skip
    commits = document.get("commits", {}).items()
    later = "".join(f", of {title} {str(commit)[:7]}" for title, commit in commits)
    lines = ["# Exact search of what has changed", "", *(__doc__ or "").split("\n\n")[2].splitlines(), "",
             f"lowtide {m['lowtide']}, {m['python']}, {m['system']}, {m['cpu']}, {m['cores']} cores, other work "
             f"beside it; commit {str(m['commit'])[:7]}{later}; {document['seconds']:g} s for each search, "
             f"{document.get('part_seconds', document['seconds']):g} of part graphs. Target strict.", "",
             f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}"]  # fmt: skip
    lines += [f"| {' | '.join(_line(name, rounds))} |" for name, rounds in document["graphs"].items()]
    for title, prefix in (("networks of cells", "cells"), ("part graphs", "parts")):
        later = [r for name, rounds in document["graphs"].items() if name.startswith(prefix) for r in rounds[1:]]
        if later:
            full, again = sum(r["full_states"] for r in later), sum(r["states"] for r in later)
            ratio = f"{full / again:.0f} times fewer" if 0 < 2 * again < full else "not compared where both are open"
            same = sum(r["bytes"] == r["full_bytes"] for r in later)
            above = sum(r["bytes"] > r["full_bytes"] for r in later)
            lines += ["", f"All {title}: {same} of {len(later)} rounds equal, {above} higher; {full:,} states for the "
                          f"whole, {again:,} for what is new, {ratio}."]  # fmt: skip
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure, and write the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("-o", "--out", type=Path, required=True)
    parser.add_argument("--time", type=float, default=10.0)
    parser.add_argument("--parts", action="store_true", help="part graphs alone, in a file that is there")
    parser.add_argument("--only", nargs="*", help="of part graphs those of these networks")
    parser.add_argument("--page", action="store_true", help="write the page of what there is alone")
    options = parser.parse_args()
    file = options.out.with_suffix(".json")
    if not options.page:
        document: dict[str, Any] = {"machine": asdict(machine()), "seconds": options.time, "graphs": {}}
        if options.parts:
            document = json.loads(file.read_text(encoding="utf-8")) | {"part_seconds": options.time}
        graphs = [] if options.parts else [(f"cells {k}", random_cells(k), ROUNDS) for k in range(NETWORKS)]
        for name, graph, rounds in graphs:
            document["graphs"][name] = [asdict(r) for r in rounds_of(graph, rounds, options.time, len(name))]
            print(name, _line(name, document["graphs"][name]), flush=True)
        for name, times in [(name, times) for name, times in PARTS if name in (options.only or [name])]:
            graph, title = in_parts(name, times, options.time), f"parts of {name}"
            document.setdefault("commits", {})[title] = machine().commit
            document["graphs"][title] = [asdict(r) for r in rounds_of(graph, PART_ROUNDS, options.time, times)]
            print(title, _line(title, document["graphs"][title]), flush=True)
            file.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    options.out.with_suffix(".md").write_text(page(json.loads(file.read_text(encoding="utf-8"))), encoding="utf-8")


if __name__ == "__main__":
    main()
