"""Inductor's fused graphs in."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import lowtide
from lowtide.errors import InputError
from lowtide.graph import Kind
from lowtide.read.inductor import is_inductor, parse_inductor


def buffer(name: str, alloc: int, free: int, *deps: str, given: bool = False, kept: bool = False) -> dict[str, Any]:
    """An entry as torch writes it."""
    return {
        "name": name, "size_alloc": alloc, "size_free": free, "size": free, "is_input": given, "is_output": kept,
        "deps": list(deps), "unmet_deps": [],
    }  # fmt: skip


def document() -> dict[str, Any]:
    """Two wide branches that are narrowed in turn, and a kernel with two results."""
    return {
        "nodes": [{"name": n, "buffer_names": b} for n, b in (
            ("op0", ["wide0"]), ("op1", ["wide1"]), ("op2", ["thin0"]), ("op3", ["thin1"]), ("op4", ["both"]),
            ("op5", ["first"]), ("op6", ["second"]), ("op7", ["out"]),
        )],
        "buffers": [
            buffer("saved", 64, 64, given=True), buffer("wide0", 1000, 1000, "saved", "weight"),
            buffer("wide1", 1000, 1000, "saved"), buffer("thin0", 8, 8, "wide0"), buffer("thin1", 8, 8, "wide1"),
            buffer("both", 32, 0, "thin0", "thin1"), buffer("first", 0, 16, "both"), buffer("second", 0, 16, "both"),
            buffer("out", 4, 4, "first", "second", kept=True),
        ],
    }  # fmt: skip


def test_nodes_are_ops_and_parts_lie_in_their_whole(tmp_path: Path) -> None:
    """What nothing here makes costs nothing; the least order runs one branch after the other."""
    data = json.dumps(document(), indent=2).encode()
    assert is_inductor(data)
    assert not is_inductor(b'{"name": "g", "tensors": []}')
    graph = parse_inductor(data, "model_fused.json")
    assert (graph.name, [op.name for op in graph.ops][:2], graph.ops[0].inputs) == ("model_fused", ["op0", "op1"], (0,))
    by_name = {t.name: t for t in graph.tensors}
    assert (by_name["saved"].kind, by_name["out"].kind) == (Kind.INPUT, Kind.OUTPUT)
    rooms = [by_name[f"room of {n}"] for n in ("first", "second")]
    assert [by_name[n].alias_of for n in ("first", "second")] == [room.id for room in rooms]
    assert (by_name["both"].size, [room.size for room in rooms]) == (0, [16, 16])
    file = tmp_path / "model_fused.json"
    file.write_bytes(data)
    plan = lowtide.research.plan(file, target="strict")
    assert (plan.own_order_peak_bytes, plan.peak_bytes, plan.optimal) == (2064, 64 + 1000 + 8, True)
    lowtide.verify(file, plan)


def test_parts_are_freed_one_by_one(tmp_path: Path) -> None:
    """A part that dies gives its bytes back while others are there; what is not all parts stays as long as they do."""
    for first, own in ((700, 1000), (699, 1400)):
        document = {
            "nodes": [{"name": f"op{k}", "buffer_names": [b]} for k, b in enumerate(
                ("both", "first", "between", "second", "a", "b", "out"))],
            "buffers": [
                buffer("both", 1000, 0), buffer("first", 0, first, "both"), buffer("between", 0, 0, "both"),
                buffer("second", 0, 300, "between"), buffer("a", 0, 0, "first"), buffer("b", 400, 400, "a"),
                buffer("out", 0, 0, "b", "second", kept=True),
            ],
        }  # fmt: skip
        file = tmp_path / "parts.json"
        file.write_text(json.dumps(document, indent=2))
        plan = lowtide.research.plan(file, target="strict")
        assert plan.own_order_peak_bytes == own
        lowtide.verify(file, plan)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda d: d.pop("buffers"), "buffers"),
        (lambda d: d["buffers"][0].update(size_alloc=-1), ">= 0"),
        (lambda d: d["buffers"][0].pop("deps"), "deps"),
        (lambda d: d["buffers"][0].update(name="out"), "same name"),
        (lambda d: d["nodes"][0].update(buffer_names=["none"]), "which is no buffer"),
        (lambda d: d["nodes"].reverse(), "before"),
        (lambda d: d["nodes"][1].update(buffer_names=["wide0"]), "made by"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(change: Callable[[Any], Any], says: str) -> None:
    """With the file."""
    changed = document()
    change(changed)
    with pytest.raises(InputError, match=says) as caught:
        parse_inductor(json.dumps(changed).encode(), "f.json")
    assert str(caught.value).startswith("f.json: ")


def test_damaged_files_are_graphs_or_refused() -> None:
    """Never another error."""
    data, draw = json.dumps(document()), random.Random(7)
    for size in range(0, len(data), 9):
        with pytest.raises(InputError):
            parse_inductor(data[:size].encode())
    for _ in range(500):
        at = draw.randrange(len(data))
        with suppress(InputError):
            parse_inductor((data[:at] + draw.choice('0-9{}[]",x') + data[at + 1 :]).encode())
    for text in (b"[" * 100_000, b"\xff", b"[]"):
        with pytest.raises(InputError):
            parse_inductor(text)
