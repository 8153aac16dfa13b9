"""The exact scheduler against brute force, on as many random graphs as asked for.

    python tests/stress_exact.py 100000 --seed 7

Every graph is solved with all rules, with one combination of switches after another, by search alone, and asked
about budgets around its optimum; the cut at one op is compared with the least footprint over all downsets.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import time
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from random import Random
from typing import Any

if __name__ == "__main__" and "--core" in sys.argv:  # another build of the core, before anything imports ours
    _spec = importlib.util.spec_from_file_location("lowtide._core", sys.argv[sys.argv.index("--core") + 1])
    assert _spec is not None
    assert _spec.loader is not None
    sys.modules["lowtide._core"] = importlib.util.module_from_spec(_spec)
    _spec.loader.exec_module(sys.modules["lowtide._core"])

from lowtide import _core
from lowtide.analyse.storage import memory_model
from lowtide.graph import Graph, Kind, Op, Tensor
from lowtide.schedule.exact import Exact, core_model
from lowtide.target import BUILT_IN, Target
from lowtide.verify.check.memory import work_out
from lowtide.verify.check.order import simulate
from support.brute import every_downset, must_run_before, optimum
from support.random_graphs import random_graph, random_order, with_own_order
from support.waiting_graphs import waiting_graph

SWITCHES = tuple(f.name for f in fields(Exact) if f.type == "bool")
ALL_ON = dict.fromkeys(SWITCHES, True)
TARGETS = (
    *(BUILT_IN[name] for name in ("strict", "hmcos", "generic")),
    replace(BUILT_IN["generic"], overwrite_inputs=True),
    replace(BUILT_IN["generic"], keep_inputs=True),
    replace(BUILT_IN["hmcos"], constants="always"),
)


def solve(core: _core.Model, n: int, switches: dict[str, bool] | None = None, **more: Any) -> _core.Solution:
    """Call the core, from the file order, with everything that is not given left at its default."""
    call: dict[str, Any] = {
        "start": list(range(n)),
        "switches": switches or ALL_ON,
        "seconds": 4.0,
        "memory_bytes": 1 << 30,
        "seed": 0,
        "budget": -1,
        "until_decided": False,
        "until_impossible": False,
        "first_slice": 2000,
        "report": None,
    }
    return _core.solve(core, **{**call, **more})


def combination(number: int) -> dict[str, bool]:
    """Switches by the bits of a number."""
    return {name: bool(number >> i & 1) for i, name in enumerate(SWITCHES)}


def combinations(index: int, many: int = 8) -> list[dict[str, bool]]:
    """So many, a power of two, that differ in the last switches; the graphs for all are fewer by this factor."""
    graphs = (1 << len(SWITCHES)) // many
    number = index * 1_597 & graphs - 1
    return [combination(number + k * graphs) for k in range(many)]


def can_prove(switches: dict[str, bool]) -> bool:
    """Whether at least one engine may search in at least one direction."""
    return (switches["forward"] or switches["reversed"]) and (switches["best_first"] or switches["nested"])


def scaled(graph: Graph, factor: int, *, workspaces: bool = True) -> Graph:
    """The same graph with all sizes multiplied; workspaces too, or not."""
    tensors = tuple(replace(t, size=t.size * factor, alias_offset=t.alias_offset * factor) for t in graph.tensors)
    ops = tuple(replace(op, workspace=op.workspace * factor) if workspaces else op for op in graph.ops)
    return Graph(graph.name, tensors, ops, graph.folded, "", graph.sha256)


def least_footprint(graph: Graph, target: Target, op: int) -> int:
    """Least footprint of an op over every set of ops that may have run before it, by the definition."""
    memory, needs = work_out(graph, target), must_run_before(graph)[op]
    return min(memory.footprint(op, done) for done in every_downset(graph) if op not in done and needs <= done)


def sample(seed: int, index: int) -> tuple[Random, Graph, Target]:
    """The graph and the target of one trial, and the generator they came from."""
    rng = Random(seed * 1_000_003 + index)
    graph = random_graph(rng, rng.randint(3, 11))
    if rng.random() < 0.2:
        graph = scaled(graph, 4, workspaces=False)
    return rng, graph, TARGETS[rng.randrange(len(TARGETS))]


def flaws(seed: int, index: int, many: int = 8) -> list[str]:
    """What is wrong with the answers on one graph, by so many combinations of switches."""
    rng, graph, target = sample(seed, index)
    model, n = memory_model(graph, target), len(graph.ops)
    best, core = optimum(graph, target), core_model(model)
    memory, ids = work_out(graph, target), graph.own_order
    found: list[str] = []

    def check(what: str, result: _core.Solution, proof: bool = True) -> None:
        peak, bound = result.peak, result.lower_bound
        order = result.order
        good = bound <= best <= peak and is_topological(model.graph.predecessors, order)
        good = good and simulate(graph, memory, [ids[i] for i in order]).peak == peak
        good = good and (not proof or (peak == bound and result.stopped == "proof"))
        if not good:
            found.append(f"{what}: optimum {best}, peak {peak}, bound {bound}, {result.stopped}")

    check("all rules", solve(core, n))
    for switches in combinations(index, many):
        check(f"without {_off(switches)}", solve(core, n, switches, first_slice=20), can_prove(switches))
    switches = {**combination(rng.getrandbits(len(SWITCHES))), "beams": False, "cut": False}
    switches[rng.choice(("forward", "reversed"))] = switches[rng.choice(("best_first", "nested"))] = True
    check(f"search without {_off(switches)}", solve(core, n, switches, first_slice=rng.choice((1, 2000))))
    fused = {"fuse_a", "fuse_b", "fuse_c", rng.choice(("forward", "reversed")), rng.choice(("best_first", "nested"))}
    check(f"only {sorted(fused)}", solve(core, n, {name: name in fused for name in SWITCHES}))
    slow = {**ALL_ON, "beams": False, "cut": False, "closure": False, "safe_moves": False, "fuse_b": False}
    check("propagation early", solve(core, n, slow, first_slice=1))
    bare = {rng.choice(("forward", "reversed")), "nested", "commits"} | ({"closure"} if rng.random() < 0.3 else set())
    check(f"only {sorted(bare)}", solve(core, n, {name: name in bare for name in SWITCHES}))
    for budget in (best - 1, best):
        answer = solve(core, n, budget=budget, until_decided=True, first_slice=1)
        check(f"budget {budget}", answer, proof=False)
        if (answer.peak <= budget) != (budget >= best) or (answer.lower_bound > budget) != (budget < best):
            found.append(f"budget {budget}: optimum {best}, answer {answer.peak}, {answer.lower_bound}")
    if index % 4 == 0:
        wide = core_model(memory_model(scaled(graph, 3), target))
        budget = 3 * best - rng.randint(1, 2)
        answer = solve(wide, n, {**ALL_ON, "beams": False, "cut": False}, budget=budget, until_decided=True)
        if not budget < answer.lower_bound <= 3 * best <= answer.peak:
            found.append(f"three times, budget {budget}: {3 * best}, {answer.peak}, {answer.lower_bound}")
        if n <= 8 and n:
            v = rng.randrange(n)
            value, least = _core.cut_at(core, v).value, least_footprint(graph, target, graph.ops[v].id)
            if value != least:
                found.append(f"cut at {v}: {value}, least footprint {least}")
    return [f"seed {seed} graph {index} target {target.name} ops {n}: {line}" for line in found]


def two_may_begin() -> Graph:
    """Where a safe move has to begin alone, which random graphs hardly ever show.

        zi -10-> z -10-> out    T=3 --+-> w -4-> out      and x=2 -> u
                       w2 -4----------|-> w
                                      +-> u -1-> out

    Reversed, from the outputs: u pays for T and x (+4), after which w is free and w2 falls by 4: no rise at all.
    But w and w2 without u end one lower, and only from there does z fit.
    """
    sizes = {"T": 3, "x": 2, "i": 10, "zo": 10, "c": 4, "wo": 4, "uo": 1}
    rows = ("", "i"), ("i", "zo"), ("", "c"), ("T c", "wo"), ("T x", "uo")
    return _by_hand("two_may_begin", sizes, [(read, made, 0) for read, made in rows])


def falling_first() -> Graph:
    """Where rule C must not fuse, which random graphs seldom show: u falls by 3, which w needs before v can run.

    a=4 -> u -1-> v (workspace 14) -1-> out        d=7 -> w (workspace 9) -1-> out
    """
    sizes = {"a": 4, "b": 1, "vo": 1, "d": 7, "wo": 1}
    return _by_hand("falling_first", sizes, [("a", "b", 0), ("b", "vo", 14), ("d", "wo", 9)])


def begun_already() -> Graph:
    """Where the repair of a commit goes wrong if it pays again for what is there.

    x=1 -> (32)    -2-> (32)    i=20 -> c -16-+-> 16    and -7-+-> 2    with y=3 read by both last ones
    """
    sizes = {"x": 1, "a": 2, "b": 7, "i": 20, "c": 16, "y": 3, "bo": 2, "co": 16}
    rows = [("x", "", 32), ("", "a b", 0), ("a", "", 32), ("i", "c", 0), ("b y", "bo", 0), ("y c", "co", 0)]
    return _by_hand("begun_already", sizes, rows)


def begun_between() -> Graph:
    """Where the later hill of a reversed macro is the higher one only if it begins x and y itself.

    x=1, y=1 -> u (in place over x, workspace 32) -1-> v (workspace 32)    x, y -> w
    """
    graph = _by_hand("begun_between", {"x": 1, "y": 1, "c": 1}, [("x y", "c", 32), ("x y", "", 0), ("c", "", 32)])
    ops = (replace(graph.ops[0], type="Add"), *graph.ops[1:])
    return Graph(graph.name, graph.tensors, ops)


def two_may_begin_on_demand() -> Graph:
    """Where a safe move of several ops has to end lowest, which random graphs do not show.

        p -1-> u (reads x=2, too) -3-> out    i=10 -> z -10-> out    u, w -> T=3 -> out    c=4 -> v (after w)

    p and u pay for T (+4), after which w is free and v falls by 4: no rise at all. But w and v without them end one
    lower, and only from there does z fit.
    """
    sizes = {"x": 2, "c": 4, "i": 10, "y": 1, "a": 1, "b": 2, "T": 3, "uo": 3, "zo": 10}
    rows = ("", "y"), ("y x", "a uo"), ("", "b"), ("b c", ""), ("i", "zo"), ("a b", "T")
    graph = _by_hand("two_may_begin_on_demand", sizes, [(read, written, 0) for read, written in rows])
    at = {t.name: t.id for t in graph.tensors}
    offsets = {"a": 0, "b": 1}
    tensors = (
        replace(t, alias_of=at["T"], alias_offset=offsets[t.name]) if t.name in offsets else t for t in graph.tensors
    )
    return Graph(graph.name, tuple(tensors), graph.ops)


BY_HAND = (two_may_begin, falling_first, begun_already, begun_between, two_may_begin_on_demand)


def _by_hand(name: str, sizes: dict[str, int], rows: list[tuple[str, str, int]]) -> Graph:
    at = {tensor: i for i, tensor in enumerate(sizes)}
    made = {t for _, outputs, _ in rows for t in outputs.split()}
    read = {t for inputs, _, _ in rows for t in inputs.split()}
    kinds = {t: Kind.INPUT if t not in made else Kind.ACTIVATION if t in read else Kind.OUTPUT for t in sizes}
    tensors = tuple(Tensor(at[t], size, kinds[t], t) for t, size in sizes.items())
    ops = tuple(
        Op(i, tuple(at[t] for t in row[0].split()), tuple(at[t] for t in row[1].split()), workspace=row[2])
        for i, row in enumerate(rows)
    )
    return Graph(name, tensors, ops)


def flaws_by_hand(seed: int, index: int) -> list[str]:
    """What is wrong with the answers on the graphs made for one rule, in a random file order."""
    rng, found = Random(seed * 1_000_003 + index), []
    graph = BY_HAND[index // 20 % len(BY_HAND)]()
    graph = with_own_order(graph, random_order(rng, graph))
    n, target = len(graph.ops), BUILT_IN["hmcos"]
    best, core = optimum(graph, target), core_model(memory_model(graph, target))
    for direction in ("forward", "reversed"):
        for engine in ("best_first", "nested"):
            often = {name for name in ("commits", "fuse_a", "fuse_b", "fuse_c") if rng.random() < 0.3}
            fused = {"fuse_a", "fuse_b", "fuse_c"}
            safe = {"closure", "safe_moves"}
            demand = [{*safe, "demand"}] if direction == "forward" else []
            for more in ({*safe, *often}, {"commits"}, fused, *demand):
                on = {direction, engine, *more}
                result = solve(core, n, {name: name in on for name in SWITCHES})
                if not result.peak == result.lower_bound == best:
                    figures = f"{best}, {result.peak}, {result.lower_bound}"
                    found.append(f"{graph.name} with {sorted(on)}: {figures}")
    return [f"seed {seed} graph {index}: {line}" for line in found]


def flaws_waiting(seed: int, index: int) -> list[str]:
    """What is wrong with searches on demand, where a chain wants several tensors to be gone that others read."""
    rng = Random(seed * 1_000_003 + index)
    graph, target = waiting_graph(rng), TARGETS[rng.randrange(len(TARGETS))]
    n, best, core, found = len(graph.ops), optimum(graph, target), core_model(memory_model(graph, target)), []
    for engine in ("best_first", "nested"):
        for more in ({"fuse_a", "fuse_b", "fuse_c"}, {"fuse_b"}, {"fuse_b", "closure", "safe_moves", "commits"}, set()):
            on = {"forward", "demand", engine, *more}
            result = solve(core, n, {name: name in on for name in SWITCHES})
            if not result.peak == result.lower_bound == best:
                found.append(f"waiting, {target.name}, {sorted(on)}: {best}, {result.peak}, {result.lower_bound}")
    return [f"seed {seed} graph {index}: {line}" for line in found]


def is_topological(predecessors: Sequence[Sequence[int]], order: Sequence[int]) -> bool:
    """Whether the order holds every position once, after all its predecessors."""
    step = {i: k for k, i in enumerate(order)}
    if len(step) != len(order) or sorted(step) != list(range(len(predecessors))):
        return False
    return all(step[j] < step[i] for i, before in enumerate(predecessors) for j in before)


def _off(switches: dict[str, bool]) -> str:
    return " ".join(name for name, on in switches.items() if not on)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run; the exit status is 1 if anything was wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graphs", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="number of the first graph")
    parser.add_argument("--stop", action="store_true", help="stop at the first flaw")
    parser.add_argument("--core", type=Path, help="test this build of the core")
    given = parser.parse_args(arguments)
    assert given.core is None or Path(str(_core.__file__)) == given.core
    began, bad = time.perf_counter(), 0
    for index in range(given.first, given.first + given.graphs):
        more = {0: flaws_by_hand, 10: flaws_waiting}.get(index % 20)
        for line in flaws(given.seed, index) + (more(given.seed, index) if more else []):
            print(line, flush=True)
            bad += 1
        if bad and given.stop:
            break
    print(f"{given.graphs} graphs, {bad} flaws, {time.perf_counter() - began:.1f} s")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
