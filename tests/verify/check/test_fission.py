"""Plans whose ops run in parts: every claim that is changed is refused by its name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import msgspec
import pytest

import lowtide
from lowtide.errors import VerificationError
from lowtide.plan import Plan
from support.decisions import drawn_plan
from support.steps import labelled_graph, random_step

GRAPH = random_step(7, batch=6)


@pytest.fixture(scope="module")
def plan() -> Plan:
    """Of three parts."""
    return lowtide.research.plan(
        GRAPH, allow="recompute,tile", method="microbatch", options={"parts": "3"}, max_overhead=900, time=2
    )


def _part(**changes: Any) -> Callable[[dict[str, Any]], None]:
    def change(claim: dict[str, Any]) -> None:
        part = claim["parts"][0]
        for key, value in changes.items():
            part[key] = value(part[key])

    return change


def _body(key: str, value: Callable[[Any], Any]) -> Callable[[dict[str, Any]], None]:
    def change(claim: dict[str, Any]) -> None:
        body = claim["parts"][0]["body"]
        body[key] = value(body[key])

    return change


def _set(key: str, value: Callable[[Any], Any]) -> Callable[[dict[str, Any]], None]:
    def change(claim: dict[str, Any]) -> None:
        claim[key] = value(claim[key])

    return change


def _slower(families: dict[str, Any], **times: Any) -> dict[str, Any]:
    """With a family that no op of the step is of: no figure of the plan follows from it."""
    return {**families, "unused": {**families["other"], **times}}


CHANGES = {
    "an end too many": _part(ends=lambda ends: [*ends, ends[-1] + 1]),
    "unequal ends": _part(ends=lambda ends: [1, 2, 6]),
    "an op less": _part(ops=lambda ops: ops[1:]),
    "another word": _part(ops=lambda ops: [[ops[0][0], "d"], *ops[1:]]),
    "another id": _part(op=lambda op: op + 1),
    "a smaller body": _body("required_bytes", lambda size: size - 64),
    "a lower peak": _body("peak_bytes", lambda size: size - 4),
    "another order": _body("order", lambda order: order[::-1]),
    "an op forgotten": _body("order", lambda order: order[1:]),
    "less time": _set("predicted_seconds", lambda s: s * 0.99),
    "less overhead": _set("overhead", lambda s: s - 0.01),
    "a longer step": _set("uncut_seconds", lambda s: s * 1.01),
    "a higher floor": _set("floor_bytes", lambda size: size + 1),
    "no families": _set("families", lambda families: {"other": families["other"]}),
    "a body of another version": _body("version", lambda version: version + 98),
    "a launch below 0": _set("families", lambda families: _slower(families, launch_seconds=-1e-9)),
    "a rate below 0": _set("families", lambda families: _slower(families, seconds_per_byte=-1e-12)),
    "sizes that fall": _set("families", lambda families: _slower(families, by_flops=[(2.0, 1.0), (1.0, 2.0)])),
    "two regions": _set("parts", lambda parts: parts * 2),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_claim_is_refused(plan: Plan, change: str) -> None:
    """Whatever of the parts is not as it was."""
    assert plan.fission is not None
    claim = msgspec.to_builtins(plan.fission)
    CHANGES[change](claim)
    changed = msgspec.structs.replace(plan, fission=msgspec.convert(claim, type(plan.fission)))
    with pytest.raises(VerificationError):
        lowtide.verify(GRAPH, changed)


def test_the_plan_itself_holds(plan: Plan) -> None:
    """With the rules of parts and of the body among those that held."""
    names = [rule.name for rule in lowtide.verify(GRAPH, plan).checks]
    assert {"body order", "body arena", "parts", "fission", "arena"} <= set(names)


def test_a_smaller_workspace_is_refused(plan: Plan) -> None:
    """What the body needs is what the op around it has."""
    lower = msgspec.structs.replace(plan, peak_bytes=plan.peak_bytes - 64)
    with pytest.raises(VerificationError, match="peak"):
        lowtide.verify(GRAPH, lower)


@pytest.mark.slow
@pytest.mark.parametrize(("labels", "shape"), [("n -> n", (6, 4)), ("n d -> n d", None)])
def test_labels_of_another_shape_have_no_rows(labels: str, shape: tuple[int, ...] | None) -> None:
    """The op runs whole, and bounds hold of the step all the same."""
    graph = labelled_graph([("relu", ["x"], "a", "n d -> n d"), ("relu", ["a"], "b", labels)],
                           dict.fromkeys("xab", (6, 4)))  # fmt: skip
    tensors = [replace(t, shape=shape) if t.name == "b" else t for t in graph.tensors]
    graph = replace(graph, tensors=tuple(tensors))
    made = lowtide.research.plan(graph, allow="recompute,tile", max_overhead=2, time=1)
    assert made.fission is not None
    assert made.fission.least_peak_bytes is not None
    assert "fission" in [rule.name for rule in lowtide.verify(graph, made).checks]


@pytest.fixture(scope="module")
def moving() -> Plan:
    """Whose parts are not alike, and whose tensors leave memory while they run."""
    for seed in range(1, 200, 2):
        plan = drawn_plan(GRAPH, seed)
        parts = [] if plan.fission is None else plan.fission.parts
        unequal = any(len({b - a for a, b in pairwise((0, *part.ends))}) > 1 for part in parts)
        if unequal and any(part.body["swapping"]["stored_bytes"] for part in parts):
            return plan
    pytest.fail("no such decision is drawn")


MOVES: dict[str, Callable[[dict[str, Any]], None]] = {
    "faster ops": lambda swapping: swapping.update(op_nanoseconds=[n - 1 for n in swapping["op_nanoseconds"]]),
    "a time too many": lambda swapping: swapping["op_nanoseconds"].append(1),
    "a faster way out": lambda swapping: swapping.update(to_host=1e15),
    "fewer bytes": lambda swapping: swapping.update(stored_bytes=swapping["stored_bytes"] - 8),
    "less waiting": lambda swapping: swapping.update(waiting_nanoseconds=swapping["waiting_nanoseconds"] - 1),
}


@pytest.mark.parametrize("change", MOVES)
def test_a_changed_claim_about_transfers_is_refused(moving: Plan, change: str) -> None:
    """Whatever they are reckoned with, and what they come to."""
    claim = msgspec.to_builtins(moving.fission)
    MOVES[change](claim["parts"][0]["body"]["swapping"])
    changed = msgspec.structs.replace(moving, fission=msgspec.convert(claim, type(moving.fission)))
    with pytest.raises(VerificationError):
        lowtide.verify(GRAPH, changed)


def test_transfers_that_a_plan_does_not_allow_are_refused(moving: Plan) -> None:
    """And the plan as it is holds, its parts timed one after the other by a clock played op by op."""
    lowtide.verify(GRAPH, moving)
    with pytest.raises(VerificationError, match="does not allow"):
        lowtide.verify(GRAPH, msgspec.structs.replace(moving, allow=["recompute", "tile"]))
