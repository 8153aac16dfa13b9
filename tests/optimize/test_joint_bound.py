"""Bounds on all plans with parts and runs again: no decision lies below one, and `verify` shows the same."""

from __future__ import annotations

from dataclasses import replace
from functools import cache, partial
from random import Random
from typing import Any

import msgspec
import pytest

import lowtide
from lowtide import _core
from lowtide.analyse.liveness import profile
from lowtide.analyse.storage import memory_model
from lowtide.cost.file import CostFamily, stand_in
from lowtide.cost.labelled import estimated, priced
from lowtide.errors import VerificationError
from lowtide.fission_plan import PartsCut, PlanFamily
from lowtide.graph import Graph, Kind, Op, Tensor
from lowtide.optimize import joint_bound as module
from lowtide.optimize.joint_bound import JointProblem, joint_bound, within_bytes, within_units
from lowtide.plan import Plan, from_json
from lowtide.target import BUILT_IN, resolve
from lowtide.transform.fission import Fission, Loop, body_of, outer_of, region_of
from lowtide.transform.runs import apply
from lowtide.verify.check.fission import _cost
from lowtide.verify.check.joint_bound import CheckedStep, least_bytes, least_seconds
from lowtide_research import zoo
from support.decisions import drawn_plan, drawn_several
from support.steps import STEPS

TARGET = BUILT_IN["generic"]


def random_families(seed: int) -> dict[str, CostFamily]:
    """Launches that cost much or nothing, ops that move while they compute or not, and measured tables."""
    random = Random(seed)

    def family() -> CostFamily:
        launch = random.choice((0.0, 1e-6, 5e-6))
        by_flop, by_byte = random.choice((0.0, 1e-10, 1e-9)), random.choice((0.0, 1e-10, 1e-9))
        table: list[tuple[float, float]] = []
        if random.random() < 0.25:
            seconds = sorted(random.uniform(1e-8, 1e-6) for _ in range(4))
            table = list(zip((1.0, 50.0, 1e3, 1e5), seconds, strict=True))
        flops = table if random.random() < 0.5 else []
        return CostFamily(
            launch_seconds=launch, seconds_per_flop=by_flop, seconds_per_byte=by_byte,
            overlapped=random.random() < 0.5, by_flops=flops, by_bytes=[] if flops else table,
        )  # fmt: skip

    return {name: family() for name in ("other", "slice", "join", "merge")}


def decisions(seed: int, families: dict[str, CostFamily], monkeypatch: pytest.MonkeyPatch) -> tuple[Graph, list[Plan]]:
    """A random priced step, and plans of it that no search took, none of which moves tensors or merges products."""
    monkeypatch.setattr("lowtide.cost.labelled.families_of", lambda file, place: families)
    graph, even = STEPS[seed % len(STEPS)](seed), 6 * seed
    drawn = [drawn_plan(graph, even), drawn_plan(graph, even + 6 * 10**6), drawn_several(graph, even)]
    return priced(graph, families), [plan for plan in drawn if plan is not None]


def below(seed: int, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Plans of a random step that lie below what is shown at some of its ops."""
    families = random_families(seed)
    graph, plans = decisions(seed, families, monkeypatch)
    problem, found = JointProblem(memory_model(graph, TARGET), families), list[str]()
    for plan in plans:
        assert plan.fission is not None
        for op in Random(seed).sample(range(len(graph.ops)), min(4, len(graph.ops))):
            least = joint_bound(problem, [op], within_units(problem, plan.fission.predicted_seconds))
            if plan.peak_bytes < least.value:
                found.append(f"{plan.peak_bytes} bytes at op {op}, at least {least}")
            taken = joint_bound(problem, [op], within_bytes(problem, plan.peak_bytes))
            if plan.fission.predicted_seconds * (1 + 1e-9) < taken.value / problem.scale:
                found.append(f"{plan.fission.predicted_seconds} s at op {op}, at least {taken}")
    return found


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(16))
def test_no_decision_lies_below(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Random regions, ends of parts, several regions, sequences with runs again, and families of ops."""
    assert not below(seed, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_verify_shows_the_same(seed: int) -> None:
    """Its networks, made from the labels by code of its own, have the flows of the planner's."""
    families = random_families(seed)
    graph = priced(STEPS[seed % len(STEPS)](seed), families)
    problem = JointProblem(memory_model(graph, TARGET), families)
    names = ("launch_seconds", "seconds_per_flop", "seconds_per_byte", "overlapped", "by_flops", "by_bytes")
    told = {kind: PlanFamily(**{name: getattr(f, name) for name in names}) for kind, f in families.items()}
    step = CheckedStep(graph, TARGET, told, partial(_cost, told))
    once = sum(op.cost or 0.0 for op in graph.ops)
    for op in Random(seed).sample(range(len(graph.ops)), 4):
        least = joint_bound(problem, [op], within_units(problem, 1.2 * once))
        assert least_bytes(step, 1.2 * once, list(least.cuts)) == least.value
        taken = joint_bound(problem, [op], within_bytes(problem, least.value))
        assert least_seconds(step, least.value, list(taken.cuts)) == taken.value / problem.scale


def test_whole_it_is_the_price_cut() -> None:
    """In one part at most the cut is that of running ops again alone, in the core."""
    graph = priced(STEPS[0](3), random_families(1))
    problem = JointProblem(memory_model(graph, TARGET), random_families(1))
    ops: list[Any] = []
    for i, before in enumerate(graph.predecessors):
        reads = [x for x, readers in enumerate(problem.readers) if i in readers]
        makes = [x for x, maker in enumerate(problem.maker) if maker == i]
        ops.append((reads, makes, list(before), problem.least[i], 0, 0, False, []))
    values = [(v.size, m, v.at_end) for v, m in zip(problem.values, problem.maker, strict=True)]
    core = _core.SequenceProblem(ops, values, [])
    for op in range(len(graph.ops)):
        touched = sum(values[x][0] for x in {*ops[op][0], *ops[op][1]}) - problem.saving(op)
        for price in (10, 1000, 100_000):
            flow = _core.price_cut(core, op, price, module._Q)[0]
            assert problem.network(op, 0, 1, 1).flow(price) == flow + price * touched


def of_rows(
    kind: str, reads: str, size: int = 4000, overwrites: tuple[int, ...] | None = None, *, kept: bool = False
) -> Graph:
    """Of few bytes many are made, and few of these again; the op in between is of this type and reads ``x``, ``a``."""
    names = {"x": 1, "a": 4}
    tensors = [
        Tensor(0, 16, Kind.INPUT, "i", (4,)), Tensor(1, size, Kind.OUTPUT if kept else Kind.ACTIVATION, "x", (4, 250)),
        Tensor(2, size, Kind.ACTIVATION, "y", (4, 250)), Tensor(3, 16, Kind.OUTPUT, "z", (4,)),
        *([Tensor(4, size, Kind.INPUT, "a", (4, 250))] if "a" in reads else []),
    ]  # fmt: skip
    labels = ["n -> n d", f"{', '.join('n d' for _ in reads)} -> n d", "n . -> n"]
    ops = [
        Op(0, (0,), (1,), "m", "make", attributes={"labels": labels[0]}),
        Op(1, tuple(names[t] for t in reads), (2,), "v", kind, attributes={"labels": labels[1]}, overwrites=overwrites),
        Op(2, (2,), (3,), "r", "reduce", attributes={"labels": labels[2]}),
    ]
    return Graph("rows", tuple(tensors), tuple(ops), sha256="0" * 64, dialect="labels")


def plain(**times: float) -> dict[str, CostFamily]:
    """All ops take as long; what puts parts together nothing."""
    none = CostFamily(launch_seconds=0.0, seconds_per_flop=0.0, seconds_per_byte=0.0)
    return {"other": msgspec.structs.replace(none, **times), "slice": none, "join": none, "merge": none}


@pytest.mark.parametrize(
    ("graph", "target", "times"),
    [
        (of_rows("Add", "xx", overwrites=()), "generic", {"launch_seconds": 1e-6}),
        (of_rows("Add", "ax"), "hmcos,overwrite_inputs=false", {"launch_seconds": 1e-6}),
        (of_rows("op", "x", size=15), "generic", {"seconds_per_byte": 1e-6}),
    ],
    ids=["a part's type decides what it overwrites", "another input is the first", "bytes are rounded down"],
)
def test_parts_may_take_less_than_the_step_says(graph: Graph, target: str, times: dict[str, float]) -> None:
    """All ops row by row, in own order."""
    families, rules = plain(**times), resolve(target)
    step = priced(graph, families)
    region = region_of(step, {op.id: 0 for op in step.ops})
    body = body_of(step, region, Fission(region.axes, (1, 2, 3, 4)).all, estimated(families)).graph
    loop = Loop(region, profile(memory_model(body, rules), range(3)).peak, sum(op.cost or 0.0 for op in body.ops))
    outer = memory_model(outer_of(step, [loop]), rules)
    problem = JointProblem(memory_model(step, rules), families)
    for op in range(3):
        least = joint_bound(problem, [op], within_units(problem, loop.cost or 0.0))
        taken = joint_bound(problem, [op], within_bytes(problem, profile(outer, [0]).peak))
        assert least.value <= profile(outer, [0]).peak
        assert taken.value / problem.scale <= (loop.cost or 0.0) * (1 + 1e-9)


def test_a_run_before_the_last_may_be_written_over() -> None:
    """A result that an op reads: what an earlier run makes of it is none, so that the op may run in place."""
    graph = of_rows("Relu", "x", kept=True)
    whole = [replace(op, attributes={"labels": ""}) for op in graph.ops]
    step, families = priced(replace(graph, ops=tuple(whole)), plain(launch_seconds=1e-6)), plain(launch_seconds=1e-6)
    runs = apply(step, [0, 1, 2, 0])
    peak = profile(memory_model(runs.graph, TARGET), [runs.graph.index_of[v] for v in runs.order]).peak
    problem = JointProblem(memory_model(step, TARGET), families)
    assert max(joint_bound(problem, [op], within_units(problem, 4e-6)).value for op in range(3)) <= peak


def test_parts_that_take_very_much_longer_overflow_nothing() -> None:
    """Sums of gradients that take more units than the core's numbers hold."""
    families = {**plain(launch_seconds=1e-9), "merge": plain(launch_seconds=1e6)["other"]}
    graph = priced(STEPS[0](3), families)
    problem = JointProblem(memory_model(graph, TARGET), families)
    assert joint_bound(problem, range(len(graph.ops)), within_units(problem, 1e-6)).value > 0


def test_results_that_share_memory_count_once() -> None:
    """A result and a view of it, which is one too: what is needed at the end is one of them."""
    x, y = (Tensor(k, 640, Kind.OUTPUT, "xy"[k - 1], (4, 40)) for k in (1, 2))
    labels = {"labels": ". . -> . ."}
    ops = (Op(0, (0,), (1,), "m", "make", attributes=labels), Op(1, (1,), (2,), "v", "Identity", attributes=labels))
    graph = Graph("seen", (Tensor(0, 64, Kind.INPUT, "i", (4, 4)), x, y), ops, sha256="0" * 64, dialect="labels")
    plan = lowtide.research.plan(graph, allow="recompute,tile", budget=800, time=2)
    assert plan.fission is not None
    assert plan.fission.floor_bytes == 640 < plan.peak_bytes == 704


BERT = "magis_bert_base:layers=2,batch=8"


@cache
def planned(model: str = BERT, **how: Any) -> tuple[Graph, Plan]:
    """A small BERT in parts, verified; planned once."""
    graph = zoo.build(model).graph()
    plan = lowtide.research.plan(graph, allow="recompute,tile", time=4, **how)
    lowtide.verify(graph, from_json(plan.to_json()))
    return graph, plan


@pytest.mark.slow
def test_plans_have_a_bound_above_the_floor_and_no_more_is_believed() -> None:
    """Within a bound on time: another byte, a number of parts left out, and a price of another cut are refused."""
    graph, plan = planned(max_overhead="10%")
    claim = plan.fission
    assert claim is not None
    assert claim.least_peak_bytes is not None
    assert claim.floor_bytes < claim.least_peak_bytes <= plan.peak_bytes
    cuts, cut = claim.cuts, claim.cuts[-1]
    wrong: list[dict[str, Any]] = [
        {"least_peak_bytes": claim.least_peak_bytes + 1},
        {"cuts": cuts[1:]},
        {"cuts": cuts[:-1]},
        {"cuts": [PartsCut(c.op, c.rows, 1, c.most, c.price) for c in cuts]},  # whole, said of all parts
        {"cuts": [*cuts[:-1], PartsCut(cut.op, cut.rows, cut.fewest, cut.most, (0, 1))]},
        {"cuts": [*cuts[:-1], PartsCut(cut.op, cut.rows, cut.most + 1, cut.fewest, cut.price)]},
        {"cuts": [*cuts[:-1], PartsCut(10**6, cut.rows, cut.fewest, cut.most, cut.price)]},
        {"max_overhead": None},
    ]
    for change in wrong:
        with pytest.raises(VerificationError):
            lowtide.verify(graph, msgspec.structs.replace(plan, fission=msgspec.structs.replace(claim, **change)))


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["dear parts", "large parts", "launches of their own"])
def test_a_bound_that_counts_too_much_is_noticed(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan lies below it: where parts cost a hundred times as much, are as large as the whole, or last."""
    graph, plan = planned("magis_bert_base:layers=2,batch=64", max_overhead="2%")
    file, _ = stand_in("rtx3090.json")
    if rule == "dear parts":
        real = JointProblem.extra
        monkeypatch.setattr(JointProblem, "extra", lambda *a: None if (e := real(*a)) is None else 100 * e)
    elif rule == "large parts":
        add = module._Network.__init__
        monkeypatch.setattr(module._Network, "__init__", lambda *a: add(*a[:5], 1))
    else:
        monkeypatch.setattr(module, "least_of_parts", lambda family, flops, own, shared, parts: 1.0 * parts)
    whole = priced(graph, file.families)
    problem = JointProblem(memory_model(whole, TARGET), file.families)
    most = 1.02 * sum(op.cost or 0.0 for op in whole.ops)
    assert joint_bound(problem, range(len(whole.ops)), within_units(problem, most)).value > plan.peak_bytes


@pytest.mark.slow
def test_within_a_budget_a_least_time_is_said() -> None:
    """It is no more than the plan takes; a longer one is refused."""
    graph, plan = planned(budget="30%")
    claim = plan.fission
    assert claim is not None
    assert claim.least_seconds is not None
    assert claim.uncut_seconds < claim.least_seconds <= claim.predicted_seconds
    longer = msgspec.structs.replace(claim, least_seconds=claim.least_seconds * 1.001)
    with pytest.raises(VerificationError):
        lowtide.verify(graph, msgspec.structs.replace(plan, fission=longer))


@pytest.mark.slow
def test_with_transfers_there_is_none() -> None:
    """What leaves memory is not counted."""
    plan = lowtide.research.plan(zoo.build(BERT).graph(), allow="recompute,tile,offload", time=1.4, max_overhead="10%")
    assert plan.fission is not None
    assert plan.fission.least_peak_bytes is None
