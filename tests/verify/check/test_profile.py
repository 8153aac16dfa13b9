"""A plan's profile that does not agree with its order is noticed, whatever of it is wrong."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

import lowtide
from lowtide.errors import VerificationError
from lowtide.plan import Plan
from lowtide.verify.check.plan import verify_plan

MODEL = "zoo:swiftnet_cell_a"


@pytest.fixture(scope="module")
def plan() -> Plan:
    """A plan with a workspace would be rarer: this one has storages that live longer than they are used."""
    return lowtide.research.plan(MODEL, target="generic")


def _with(plan: Plan, **changes: Any) -> Plan:
    assert plan.profile is not None
    return msgspec.structs.replace(plan, profile=msgspec.structs.replace(plan.profile, **changes))


def _check(plan: Plan) -> None:
    verify_plan(lowtide.load(MODEL), plan, lowtide.research.target("generic"))


def _other(values: list[int]) -> list[int]:
    return [values[0] + 1, *values[1:]]


@pytest.mark.parametrize("column", ["own_order_bytes", "bytes", "starts", "ends"])
def test_a_wrong_number_is_noticed(plan: Plan, column: str):
    """In any of the columns."""
    with pytest.raises(VerificationError, match="profile"):
        _check(_with(plan, **{column: _other(getattr(plan.profile, column))}))


def test_columns_that_are_too_short_are_noticed(plan: Plan):
    """One by one, and all of them alike."""
    assert plan.profile is not None
    for names in (["bytes"], ["own_order_bytes"], ["starts"], ["starts", "ends", "storages"]):
        with pytest.raises(VerificationError, match="profile"):
            _check(_with(plan, **{name: getattr(plan.profile, name)[:-1] for name in names}))


def test_a_storage_twice_is_noticed(plan: Plan):
    """In the place of another one."""
    assert plan.profile is not None
    with pytest.raises(VerificationError, match="twice"):
        _check(_with(plan, storages=[plan.profile.storages[1], *plan.profile.storages[1:]]))


@pytest.mark.parametrize("column", ["sizes", "workspaces", "used"])
def test_a_wrong_entry_is_noticed(plan: Plan, column: str):
    """One that is too many, of an id that there is."""
    value = (0, 0) if column == "used" else 5
    key = str(plan.tensors[5].id) if column == "sizes" else str(plan.order[3])
    with pytest.raises(VerificationError, match=column):
        _check(_with(plan, **{column: getattr(plan.profile, column) | {key: value}}))


def test_a_plan_without_one_holds(plan: Plan):
    """As those of earlier versions."""
    _check(msgspec.structs.replace(plan, profile=None))


def test_a_wrong_shape_or_type_is_noticed(plan: Plan):
    """They are the graph's."""
    at = next(i for i, t in enumerate(plan.tensors) if t.shape)
    for change in ({"shape": "1x2"}, {"dtype": "int3"}):
        tensors = [*plan.tensors]
        tensors[at] = msgspec.structs.replace(tensors[at], **change)
        with pytest.raises(VerificationError, match=next(iter(change))):
            _check(msgspec.structs.replace(plan, tensors=tensors))


def test_moves_and_lives_exclude_each_other():
    """With moves residency says what is where."""
    plan = lowtide.research.plan(MODEL, target="strict", memories=["fast=190KiB"], time=2)
    with pytest.raises(VerificationError, match="residency"):
        verify_plan(lowtide.load(MODEL), _with(plan, bytes=[1]), lowtide.research.target("strict"))
