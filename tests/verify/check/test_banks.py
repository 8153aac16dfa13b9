from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lowtide
from lowtide.allocate.banks.orders import best_in_banks
from lowtide.allocate.banks.places import find_banks
from lowtide.analyse.storage import memory_model
from lowtide.errors import InputError, VerificationError
from lowtide.graph import Graph, Kind, Op, Tensor
from lowtide.plan import Plan
from lowtide.spill_plan import PlanMemory, Residency
from lowtide.stop import Limits
from lowtide.target import BUILT_IN
from lowtide.verify.check.banks import never_fits
from lowtide.verify.check.memory import work_out
from lowtide.verify.check.plan import verify_plan
from support.random_graphs import random_graph

STRICT = BUILT_IN["strict"]


def chain(sizes: list[int], workspace: int = 0) -> Graph:
    """A graph in which each op reads the tensor before; the first tensor is an input, the last an output."""
    last = len(sizes) - 1
    kinds = [Kind.INPUT, *[Kind.ACTIVATION] * (last - 1), Kind.OUTPUT]
    tensors = tuple(Tensor(i, size, kinds[i], f"t{i}") for i, size in enumerate(sizes))
    return Graph("chain", tensors, tuple(Op(i, (i,), (i + 1,), f"op{i}", "Conv", workspace) for i in range(last)))


def example() -> tuple[Graph, Plan]:
    """Three tensors of 8 bytes and two memories of 16 and 8: what lies in the fast one is t0, t1 and t2 in turn."""
    graph = chain([8, 8, 8], workspace=2)
    return graph, lowtide.research.plan(graph, target="strict", banks=["fast=16", "slow=8"])


def failure_of(graph: Graph, plan: Plan) -> str:
    """Name of the check that fails, or nothing."""
    try:
        verify_plan(graph, plan, STRICT)
    except VerificationError as error:
        return error.failure
    return ""


def moved(plan: Plan, tensor: int, /, **changes: Any) -> Plan:
    """The plan with another residency of one tensor."""
    rows = [msgspec.structs.replace(r, **changes) if r.tensor == tensor else r for r in plan.residency or []]
    return msgspec.structs.replace(plan, residency=rows)


def test_what_a_plan_with_memories_says():
    """The contract's keys: memories with capacities, a residency per tensor, half-open, and no offsets."""
    graph, plan = example()
    assert plan.offsets is None
    assert plan.memories == [
        PlanMemory(name="fast", capacity_bytes=16, size_bytes=16),
        PlanMemory(name="slow", capacity_bytes=8, size_bytes=2),
    ]
    assert plan.residency is not None
    assert [(r.tensor, r.memory, r.start, r.end) for r in plan.residency] == [
        (0, "fast", 0, 1), (1, "fast", 0, 2), (2, "fast", 1, 2),
    ]  # fmt: skip
    assert plan.workspace_memories == {"0": "slow", "1": "slow"}
    assert (plan.arena_bytes, plan.required_bytes, plan.status) == (18, 18, "ok")
    assert failure_of(graph, plan) == ""


MUTATIONS = {
    "a memory named twice": ("memories", lambda p: _memories(p, p.memories[0], p.memories[0])),
    "no memories": ("memories", lambda p: msgspec.structs.replace(p, memories=[])),
    "a memory named host": ("memories", lambda p: _memories(p, *p.memories, PlanMemory(name="host", capacity_bytes=1))),
    "a memory without room": ("memories", lambda p: _second(p, capacity_bytes=0)),
    "offsets as well": ("residency", lambda p: msgspec.structs.replace(p, offsets={"0": 0})),
    "an arena that is no sum": ("arena", lambda p: msgspec.structs.replace(p, arena_bytes=19, required_bytes=19)),
    "a tensor in no memory": ("residency", lambda p: moved(p, 1, memory="rom")),
    "a tensor beyond the memory": ("residency", lambda p: moved(p, 1, offset=9)),
    "a tensor below the memory": ("residency", lambda p: moved(p, 1, offset=-1)),
    "a tensor that is not there": ("residency", lambda p: moved(p, 1, tensor=7)),
    "a tensor without a residency": ("residency", lambda p: msgspec.structs.replace(p, residency=p.residency[1:])),
    "a tensor with two": ("residency", lambda p: msgspec.structs.replace(p, residency=[*p.residency, p.residency[0]])),
    "a tensor that leaves early": ("residency", lambda p: moved(p, 1, end=1)),
    "a tensor that comes late": ("residency", lambda p: moved(p, 1, start=1)),
    "a tensor after the end": ("residency", lambda p: moved(p, 2, end=3)),
    "two tensors in one place": ("overlap", lambda p: moved(moved(p, 1, offset=0), 0, offset=0)),
    "two tensors over each other": ("overlap", lambda p: moved(p, 1, offset=4)),
    "a workspace in no memory": ("residency", lambda p: _workspaces(p, {"0": "slow"})),
    "a workspace over a tensor": ("overlap", lambda p: _workspaces(p, {"0": "fast", "1": "slow"})),
    "a memory that holds more than is said": ("memories", lambda p: msgspec.structs.replace(
        _second(p, size_bytes=1), arena_bytes=17, required_bytes=17)),
    "more than the capacity, and ok": ("status", lambda p: _second(p, capacity_bytes=1)),
    "within the capacities, and over budget": ("status", lambda p: msgspec.structs.replace(p, status="over_budget")),
}  # fmt: skip


def _second(plan: Plan, **changes: int) -> Plan:
    """The plan with another second memory."""
    first, second = plan.memories or []
    return _memories(plan, first, msgspec.structs.replace(second, **changes))


def _workspaces(plan: Plan, memories: dict[str, str]) -> Plan:
    return msgspec.structs.replace(plan, workspace_memories=memories)


def _memories(plan: Plan, *memories: PlanMemory) -> Plan:
    return msgspec.structs.replace(plan, memories=list(memories))


@pytest.mark.parametrize("name", list(MUTATIONS))
def test_a_wrong_plan_is_named(name: str):
    """Each of these is found, under its own name."""
    graph, plan = example()
    failure, mutate = MUTATIONS[name]
    assert failure_of(graph, mutate(plan)) == failure


def test_what_shares_a_storage_lies_together():
    """A view that is said to lie elsewhere than what it views."""
    tensors = (Tensor(0, 8, Kind.INPUT), Tensor(1, 8), Tensor(2, 4, Kind.OUTPUT, alias_of=1, alias_offset=4))
    graph = Graph("views", tensors, (Op(0, (0,), (1,)), Op(1, (1,), (2,))))
    plan = lowtide.research.plan(graph, target="strict", banks=["fast=16", "slow=16"])
    rows = {r.tensor: r for r in plan.residency or []}
    assert rows[2].offset == rows[1].offset + 4
    assert failure_of(graph, moved(plan, 2, offset=rows[2].offset - 4)) == "residency"
    assert failure_of(graph, moved(plan, 2, memory="slow")) == "residency"


def test_over_budget_and_impossible():
    """A tensor too many is over budget; one that no memory holds, in any order, is impossible; both hold."""
    graph = chain([8, 8, 8])
    over = lowtide.research.plan(graph, target="strict", banks=["fast=8", "slow=7"])
    assert (over.status, over.exit_status) == ("impossible", 4)
    assert failure_of(graph, over) == ""
    assert failure_of(graph, msgspec.structs.replace(over, status="over_budget")) == ""
    # The own order has 6, 12 and 12 bytes live at once, more than there are; no op alone needs more than 24.
    tensors = (Tensor(0, 6, Kind.INPUT), Tensor(1, 12), Tensor(2, 12), Tensor(3, 6), Tensor(4, 6, Kind.OUTPUT))
    ops = (Op(0, (0,), (1,)), Op(1, (0,), (2,)), Op(2, (1,), (3,)), Op(3, (2, 3), (4,)))
    wide = Graph("wide", tensors, ops)
    assert lowtide.research.plan(wide, target="strict", banks=["fast=13", "slow=13"]).status == "ok"
    plan = lowtide.research.plan(wide, target="strict", method="own", banks=["fast=13", "slow=13"])
    assert (plan.status, plan.exit_status) == ("over_budget", 3)
    assert failure_of(wide, plan) == ""
    assert failure_of(wide, msgspec.structs.replace(plan, status="impossible")) == "status"


def test_what_never_fits():
    """Three of 5 do not go into memories of 8 and 8, although 16 bytes are there; two do."""
    tensors = (Tensor(0, 5, Kind.INPUT), Tensor(1, 5, Kind.INPUT), Tensor(2, 5, Kind.OUTPUT))
    graph = Graph("g", tensors, (Op(0, (0, 1), (2,), "add", "Conv"),))
    memory = work_out(graph, STRICT)
    assert "needs 15 bytes at once" in (never_fits(graph, memory, [8, 8], 15) or "")
    assert never_fits(graph, memory, [10, 5], 15) is None
    assert "lower bound" in (never_fits(graph, memory, [10, 4], 15) or "")


def test_places_and_boards():
    """Tensors go where they are placed; a board's memories may be given another size, and others added."""
    graph = chain([8, 8, 8])
    plan = lowtide.research.plan(
        graph, target="strict", banks=["fast=64", "slow=64"], places={"t1": "slow", "t2": ["slow", "fast"]}
    )
    assert {r.tensor: r.memory for r in plan.residency or []} == {0: "fast", 1: "slow", 2: "slow"}
    board = lowtide.research.plan(graph, target="strict", board="esp32s3", banks={"sram": 8, "tcm": "4KiB"})
    assert [(m.name, m.capacity_bytes) for m in board.memories or []] == [
        ("sram", 8), ("sram2", 32768), ("psram", 8388608), ("tcm", 4096),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("settings_", "message"),
    [
        ({"banks": ["sram"]}, "memory 'sram' is not NAME=SIZE"),
        ({"banks": ["=4"]}, "memory '=4' is not NAME=SIZE"),
        ({"banks": ["a=4", "a=5"]}, "two memories are named a"),
        ({"banks": ["a=4x"]}, "size of a is '4x'"),
        ({"banks": ["a=4@3"]}, "alignment of a is 3"),
        ({"banks": ["a=4@32"], "target": "generic"}, "memory a is to be aligned to 32, and the target aligns .* to 64"),
        ({"banks": ["psram=4@8"], "board": "esp32s3"}, "psram of the board is aligned to 32, and @8 asks for less"),
        ({"banks": ["a=4"], "budget": 4}, "--budget is for one arena"),
        ({"banks": ["a=4"], "places": {"t9": "a"}}, "'t9' is no tensor of the model"),
        ({"banks": ["a=4"], "places": {"t1": "b"}}, "t1 is to be in 'b'; the memories are a"),
        ({"banks": ["a=4"], "places": {"t1": "a,a"}}, "name each memory once"),
        ({"places": {"t1": "a"}}, "in no memory"),
        ({"board": "abacus"}, "there is no board 'abacus'"),
        ({"banks": ["a=4"], "target": "onnxruntime"}, "has one arena"),
    ],
)
def test_a_wrong_call_is_refused(settings_: dict[str, Any], message: str):
    """One line that says what to write instead."""
    with pytest.raises(InputError, match=message.replace("(", r"\(")):
        lowtide.research.plan(chain([8, 8, 8]), **{"target": "strict", **settings_})


def test_tensors_of_one_storage_are_placed_alike():
    """A tensor and its view cannot be sent to different memories; a constant to none."""
    tensors = (Tensor(0, 8, Kind.INPUT, "x"), Tensor(1, 8, name="a"), Tensor(2, 8, Kind.OUTPUT, "v", alias_of=1),
               Tensor(3, 4, Kind.CONSTANT, "w"))  # fmt: skip
    graph = Graph("views", tensors, (Op(0, (0, 3), (1,)), Op(1, (1,), (2,))))
    with pytest.raises(InputError, match="v shares its storage with a; place them alike"):
        lowtide.research.plan(graph, banks=["f=64", "s=64"], places={"a": "f", "v": "s"})
    with pytest.raises(InputError, match="'w' takes no memory"):
        lowtide.research.plan(graph, banks=["f=64", "s=64"], places={"w": "f"})


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from(["strict", "generic", "hmcos"]), st.data())
def test_random_models_in_random_memories_hold(seed: int, target: str, data: st.DataObject):
    """Whatever the memories, the plan passes every check, its status included."""
    graph = random_graph(Random(seed))
    whole = lowtide.research.plan(graph, target=target, method="greedy")
    most = max(whole.arena_bytes or 0, 64)
    sizes = [data.draw(st.integers(1, most)) for _ in range(data.draw(st.integers(1, 3)))]
    banks = [f"m{k}={size}" for k, size in enumerate(sizes)]
    plan = lowtide.research.plan(graph, target=target, method="greedy", banks=banks)
    assert {r.tensor for r in plan.residency or []} == {int(t) for t in whole.offsets or {}}
    assert all(isinstance(r, Residency) for r in plan.residency or [])
    if plan.status == "ok":
        assert all((m.size_bytes or 0) <= m.capacity_bytes for m in plan.memories or [])
    else:
        assert any((m.size_bytes or 0) > m.capacity_bytes for m in plan.memories or [])


def test_an_empty_view_at_an_offset_takes_no_place():
    """A storage whose tensors are all empty, one of them at an offset, has no residency, and needs none."""
    tensors = (Tensor(0, 0, Kind.INPUT), Tensor(1, 0, alias_of=0, alias_offset=2), Tensor(2, 4, Kind.OUTPUT))
    graph = Graph("empty", tensors, (Op(0, (0,), (1,)), Op(1, (1,), (2,))))
    for banks in (["a=4"], ["a=1"], ["a=8", "b=8"]):
        plan = lowtide.research.plan(graph, target="strict", banks=banks)
        assert {r.tensor for r in plan.residency or []} == {2}
        assert failure_of(graph, plan) == ""


def test_a_memory_with_an_alignment_of_its_own():
    """Offsets in it are multiples of that; one that is not is found."""
    graph = chain([8, 8, 8, 8])
    plan = lowtide.research.plan(graph, target="strict", banks=["fast=8@16", "slow=64@16"])
    assert [m.alignment for m in plan.memories or []] == [16, 16]
    assert all(r.offset % 16 == 0 for r in plan.residency or [])
    wrong = [msgspec.structs.replace(m, alignment=2**20) for m in plan.memories or []]
    assert failure_of(graph, msgspec.structs.replace(plan, memories=wrong)) == ""
    moved_up = next(r for r in plan.residency or [] if r.memory == "slow")
    higher = moved(plan, moved_up.tensor, offset=moved_up.offset + 4)
    bigger = [msgspec.structs.replace(m, size_bytes=(m.size_bytes or 0) + 4) for m in plan.memories or []]
    total = sum(m.size_bytes or 0 for m in bigger)
    grown = msgspec.structs.replace(higher, memories=bigger, arena_bytes=total, required_bytes=total)
    assert failure_of(graph, grown) == "residency"


@pytest.mark.slow
def test_another_order_of_the_same_peak_may_need_less_slow_memory():
    """On a real network: fewer bytes in slow memory than the first order has, at the same peak; a plan that holds."""
    graph = lowtide.load("zoo:darts_cifar:n=1")
    whole = lowtide.research.plan(graph)
    banks = {"fast": (whole.arena_bytes or 0) * 3 // 4, "slow": "64MiB"}
    model = memory_model(graph, BUILT_IN["generic"])
    order = tuple(graph.index_of[op] for op in whole.order)
    one, best = (
        best_in_banks(model, order, find_banks(banks, None), {}, Limits(), explore=explore) for explore in (False, True)
    )
    assert best.placement.slow_bytes < one.placement.slow_bytes
    assert best.layout.profile.peak == one.layout.profile.peak
    plan = lowtide.research.plan(graph, banks=banks)
    assert plan.peak_bytes == whole.peak_bytes
    assert plan.search is not None
    assert plan.search["slow_bytes"] <= best.placement.slow_bytes
