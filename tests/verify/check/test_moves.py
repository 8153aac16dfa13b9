"""Plans with moves: a good one holds, each broken rule is refused by name, and the commands replay to the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import msgspec
import pytest

import lowtide
from lowtide.certificates import SearchCertificate
from lowtide.errors import VerificationError
from lowtide.plan import Plan, PlanConflict, from_json
from lowtide.spill_plan import PlanMemory, Residency
from lowtide.target import BUILT_IN
from lowtide.verify.check.plan import verify_plan
from lowtide.write.command_stream import command_stream, commands_json, commands_text
from support.random_graphs import random_graph
from support.spill_plans import good, skip_graph

STRICT = BUILT_IN["strict"]


def test_a_good_plan_holds_and_reads_back():
    """One spill and one fill of a, proved least; the file says the same."""
    plan = good()
    assert [(m.step, m.kind, m.tensor, m.bytes) for m in plan.moves or []] == [(2, "spill", 1, 4), (3, "fill", 1, 4)]
    assert (plan.traffic_bytes, plan.traffic_lower_bound_bytes, plan.optimal) == (8, 8, True)
    again = from_json(plan.to_json())
    assert msgspec.structs.replace(again, seconds=plan.seconds) == plan
    assert b'"from": "fast"' in plan.to_json()
    verify_plan(skip_graph(), again, STRICT)


def stay(tensor: int, start: int, end: int, offset: int = 0) -> Residency:
    """A stretch in the fast memory."""
    return Residency(tensor=tensor, memory="fast", offset=offset, start=start, end=end)


def moves(plan: Plan, kind: str, **changes: Any) -> list[Any]:
    """The moves, those of a kind changed."""
    return [msgspec.structs.replace(m, **changes) if m.kind == kind else m for m in plan.moves or []]


def stays(plan: Plan, tensor: int, **changes: Any) -> list[Residency]:
    """The residency, that of a tensor changed."""
    return [msgspec.structs.replace(r, **changes) if r.tensor == tensor else r for r in plan.residency or []]


def sized(plan: Plan, size: int) -> list[PlanMemory]:
    """The memories, the first said to be used so far."""
    first, *others = plan.memories or []
    return [msgspec.structs.replace(first, size_bytes=size), *others]


NONSENSE = PlanConflict(tensors=[99], workspaces=[], step=None, available_bytes=0, needed_bytes=-1, minimal=True)

MUTATIONS: dict[str, tuple[str, Callable[[Plan], dict[str, Any]]]] = {
    "no fill": ("moves", lambda p: {"moves": [m for m in p.moves or [] if m.kind == "spill"], "traffic_bytes": 4}),
    "no spill": ("moves", lambda p: {"moves": [m for m in p.moves or [] if m.kind == "fill"], "traffic_bytes": 4}),
    "spill too late": ("moves", lambda p: {"moves": moves(p, "spill", step=3)}),
    "fill too early": ("moves", lambda p: {"moves": moves(p, "fill", step=2)}),
    "a spill from nowhere": ("moves", lambda p: {"moves": moves(p, "spill", source="slow")}),
    "a fill the wrong way": ("moves", lambda p: {"moves": moves(p, "fill", source="fast", goal="host")}),
    "half a move": ("moves", lambda p: {"moves": moves(p, "spill", bytes=2), "traffic_bytes": 6}),
    "a move of nothing": ("moves", lambda p: {"moves": moves(p, "spill", tensor=99)}),
    "a move after the end": ("moves", lambda p: {"moves": moves(p, "fill", step=9)}),
    "gone while it is read": (
        "moves",
        lambda p: {"residency": [r for r in p.residency or [] if (r.tensor, r.start) != (1, 0)]},
    ),
    "never there": ("moves", lambda p: {"residency": [r for r in p.residency or [] if r.tensor != 2]}),
    "traffic": ("traffic", lambda p: {"traffic_bytes": 4}),
    "traffic bound": ("traffic", lambda p: {"traffic_lower_bound_bytes": 9}),
    "optimal": ("traffic", lambda p: {"optimal": False}),
    "overlap": ("overlap", lambda p: {"residency": stays(p, 2, offset=0) and stays(p, 1, offset=0)}),
    "sticks out": ("residency", lambda p: {"residency": stays(p, 2, offset=5)}),
    "no such memory": ("residency", lambda p: {"residency": stays(p, 2, memory="slow")}),
    "no such tensor": ("residency", lambda p: {"residency": [*(p.residency or []), stay(99, 0, 1)]}),
    "no step": ("residency", lambda p: {"residency": stays(p, 2, start=3, end=3)}),
    "no memories": ("memories", lambda p: {"memories": []}),
    "peak": ("peak", lambda p: {"peak_bytes": p.peak_bytes - 1}),
    "arena": ("arena", lambda p: {"arena_bytes": 11, "required_bytes": 11}),
    "arena below its end": ("arena", lambda p: {"arena_bytes": p.peak_bytes - 1, "required_bytes": p.peak_bytes - 1}),
    "required": ("arena", lambda p: {"required_bytes": p.required_bytes - 1}),
    "bound": ("bound", lambda p: {"lower_bound_bytes": 11}),
    "bound above the largest op": ("bound", lambda p: {"lower_bound_bytes": p.lower_bound_bytes + 1}),
    "size below nothing": ("memories", lambda p: {"memories": sized(p, -7)}),
    "size of one byte": ("memories", lambda p: {"memories": sized(p, 1)}),
    "size above what is used": ("memories", lambda p: {"memories": sized(p, 11)}),
    "offsets": ("offsets", lambda p: {"offsets": {"1": 0}}),
    "arena bound": ("arena", lambda p: {"arena_lower_bound_bytes": 1}),
    "arena optimal": ("arena_optimal", lambda p: {"arena_optimal": True}),
    "budget": ("status", lambda p: {"budget_bytes": 1}),
    "reserve": ("required", lambda p: {"reserve_bytes": 1}),
    "conflict": ("conflict", lambda p: {"conflict": NONSENSE}),
    "certificate": (
        "certificate",
        lambda p: {"certificate": SearchCertificate(refuted_bytes=1, direction="forward", states=1, switches={})},
    ),
    "a digit that is none of ours": ("workspace", lambda p: {"workspace_offsets": {"\u0661": 0}}),
    "a word for an op": ("workspace", lambda p: {"workspace_offsets": {"abc": 0}}),
    "workspace of no op": ("workspace", lambda p: {"workspace_offsets": {"99": 0}}),
    "status": ("status", lambda p: {"status": "unproved"}),
    "order": ("order", lambda p: {"order": [8, 7, 9, 11]}),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_each_broken_plan_fails_by_name(name: str):
    """One change to a good plan is refused with the name of the rule that it breaks."""
    failure, mutate = MUTATIONS[name]
    plan = good()
    with pytest.raises(VerificationError) as caught:
        verify_plan(skip_graph(), msgspec.structs.replace(plan, **mutate(plan)), STRICT)
    assert caught.value.failure == failure


@pytest.mark.slow
def test_random_plans_hold_under_every_target_and_rule():
    """Whatever a move costs, the checker counts what the planner counted, and its commands keep the books."""
    rng = Random(5)
    spilled = 0
    for k in range(60):
        graph = random_graph(rng, 10)
        if not graph.ops:
            continue
        target = ("strict", "hmcos", "generic")[k % 3]
        names = ("write_once", "inputs_have_copy", "outputs_written_early", "parameters")
        rules = {name: rng.choice(("true", "false")) for name in names}
        least = lowtide.research.plan(graph, target=target, memories=["fast=1000000"], moves=rules).lower_bound_bytes
        unit = BUILT_IN[target].alignment
        plan = lowtide.research.plan(graph, target=target, memories={"fast": max(1, least) * unit}, moves=rules)
        if plan.moves is None:
            assert plan.status == "impossible"
            continue
        spilled += bool(plan.moves)
        verify_plan(graph, plan, BUILT_IN[target])
        check_commands(plan)
    assert spilled > 5


def check_commands(plan: Plan) -> None:
    """Everything allocated is freed, nothing is used that is not allocated, and the traffic is that of the plan."""
    there: set[tuple[str | None, int | None]] = set()
    traffic = 0
    order = []
    for c in command_stream(plan):
        key = (c.memory, c.tensor)
        if c.action == "allocate":
            assert key not in there
            there.add(key)
        elif c.action == "free":
            there.remove(key)
        elif c.action == "run":
            order.append(c.op)
        else:
            assert key in there
            traffic += (c.bytes or 0) if c.action in ("spill", "fill") else 0
    assert not there
    assert order == plan.order
    assert traffic == plan.traffic_bytes


def test_commands_as_text_and_json():
    """A line and a row for each; transfers that any plan needs are there too."""
    plan = good()
    text = commands_text(plan).decode().splitlines()
    rows = msgspec.json.decode(commands_json(plan))
    assert len(text) == len(rows) == len(command_stream(plan))
    assert [r["action"] for r in rows if r.get("tensor") == 1] == [
        "allocate",
        "spill",
        "free",
        "allocate",
        "fill",
        "free",
    ]
    assert [r["action"] for r in rows if r.get("tensor") == 0] == ["allocate", "load", "free"]
    assert [r["action"] for r in rows if r.get("tensor") == 4] == ["allocate", "store", "free"]


def test_commands_say_where_a_workspace_lies():
    """A run of an op that has one names memory, offset and bytes, as text and as JSON; runs of others do not."""
    graph = skip_graph()
    graph = replace(graph, ops=(*graph.ops[:-1], replace(graph.ops[-1], workspace=3)))
    plan = lowtide.research.plan(graph, target="strict", memories=["fast=13"])
    assert plan.workspace_offsets is not None
    at = plan.workspace_offsets["11"]
    runs = [row for row in msgspec.json.decode(commands_json(plan)) if row["action"] == "run"]
    assert [row.get("workspace") for row in runs] == [None] * 3 + [{"memory": "fast", "offset": at, "bytes": 3}]
    lines = [line for line in commands_text(plan).decode().splitlines() if "  run  " in line]
    assert [line.partition("workspace")[2] for line in lines] == ["", "", "", f" fast+{at}  3 B"]
    (run,) = [c for c in command_stream(msgspec.structs.replace(plan, profile=None)) if c.op == 11]
    assert run.workspace is not None
    assert (run.workspace.offset, run.workspace.bytes) == (at, None)


def test_an_op_that_is_too_large_is_impossible():
    """Exit status 4, with the largest op's tensors as the conflict."""
    plan = lowtide.research.plan(skip_graph(), target="strict", memories=["fast=9"])
    assert (plan.status, plan.exit_status, plan.moves) == ("impossible", 4, None)
    assert plan.conflict is not None
    assert (set(plan.conflict.tensors), plan.conflict.needed_bytes) == ({1, 2}, 10)
    verify_plan(skip_graph(), plan, STRICT)
