"""What the page's script reads is what the view says: unpacked here by other means."""

from __future__ import annotations

import base64
import json
import zlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lowtide
from lowtide.report.page import pack as pack_module
from lowtide.report.page.pack import encoded, pack, varint
from lowtide.report.view import PlanView


def _numbers(data: bytes, at: int, count: int) -> tuple[list[int], int]:
    values = []
    for _ in range(count):
        value = shift = 0
        while True:
            value |= (data[at] & 127) << shift
            shift += 7
            at += 1
            if data[at - 1] < 128:
                break
        values.append(value)
    return values, at


def _decoded(data: bytes, at: int, count: int) -> tuple[list[int], int]:
    steps, at = _numbers(data, at, count)
    column, value = [], 0
    for step in steps:
        value += -(step + 1) // 2 if step % 2 else step // 2
        column.append(value)
    return column, at


def _unpacked(text: str, deflated: bool) -> tuple[dict[str, Any], dict[str, list[int]]]:
    data = base64.b64decode(text)
    data = zlib.decompress(data) if deflated else data
    (length,), at = _numbers(data, 0, 1)
    head = json.loads(data[at : at + length])
    at += length
    columns = {}
    for name, count in head["columns"]:
        columns[name], at = _decoded(data, at, count)
    assert at == len(data)
    return head, columns


@given(st.lists(st.integers(-(2**52), 2**52)))
def test_columns_come_back(column: list[int]):
    """Whatever the numbers."""
    assert _decoded(encoded(column), 0, len(column)) == (column, len(encoded(column)))


@given(st.integers(0, 2**60))
def test_varints_come_back(value: int):
    """Seven bits a byte."""
    assert _numbers(varint(value), 0, 1) == ([value], len(varint(value)))


@pytest.mark.parametrize(("model", "deflated"), [("zoo:nasnet_a_cifar:n=1", True), ("zoo:swiftnet_cell_a", False)])
def test_a_view_comes_back(model: str, deflated: bool, monkeypatch: pytest.MonkeyPatch):
    """Every column and every name; small data is stored as it is."""
    if not deflated:
        monkeypatch.setattr(pack_module, "SMALL_BYTES", 10**6)
    view = PlanView.of(lowtide.research.plan(model))
    packed = pack([view], ["a title"])
    assert packed.deflated == deflated
    head, columns = _unpacked(packed.text, packed.deflated)
    told = head["views"][0]
    assert told["ops"] == [op.name for op in view.ops]
    assert told["names"] == [r.name for r in view.rectangles]
    assert columns["0.live"] == list(view.live_bytes)
    assert columns["0.own"] == list(view.own_order_bytes)
    for kind, column in view.kinds.items():
        assert columns[f"0.kind {kind}"] == list(column)
    for i, r in enumerate(view.rectangles):
        start = columns["0.start"][i]
        assert (start, start + columns["0.length"][i], columns["0.size"][i]) == (r.start, r.end, r.size)
        assert columns["0.offset"][i] == (-1 if r.offset is None else r.offset)
        assert columns["0.over"][i] == (-1 if r.over is None else r.over)
        assert told["kinds"][columns["0.kind"][i]] == r.kind
        assert told["types"] == sorted({op.type for op in view.ops})
        assert 0 <= columns["0.module"][i] < len(told["modules"]) <= 8
