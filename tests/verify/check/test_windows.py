"""Parts of .tflite models are checked with code of their own: padding that is missing, doubled or moved is seen."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from lowtide.certificates import NoCertificate
from lowtide.errors import VerificationError
from lowtide.ops.tflite import part as tflite_part
from lowtide.plan import Plan
from lowtide.target import BUILT_IN
from lowtide.transform.cut import Cutter
from lowtide.verify.check.part_rows import windows_differ
from lowtide.verify.check.parts import parted

pytest.importorskip("ai_edge_litert", reason="networks are built with its schema, which is not installed")
from lowtide.api.answer import Answer, assemble
from lowtide.api.moves.decisions import as_rewrites
from lowtide.api.problem import Problem, Rules
from lowtide.graph import Graph
from lowtide.transform.parts import PartGraph, apply
from support.tflite_builder import SAME, VALID, Net
from support.tflite_nets import graph_with_file, random_tflite, regions


def _plan(graph: Graph, parts: PartGraph) -> Plan:
    """A plan of a part graph in its own order, with nothing but that."""
    problem = Problem.of(parts.graph, BUILT_IN["strict"])
    keys: Any = {
        "status": "ok", "stopped": "proof", "peak_bytes": 0, "lower_bound_bytes": 0, "optimal": False,
        "certificate": NoCertificate(), "in_place": [], "required_bytes": 0, "rewrites": as_rewrites(parts),
    }  # fmt: skip
    order = tuple(range(len(parts.graph.ops)))
    return assemble(Answer(problem, order, keys, "own", parts=parts), Rules("strict"))


def _net(height: int = 9) -> Graph:
    net = Net()
    x = net.tensor((1, height, 6, 2), zero=3)
    a = net.conv(x, 4, (3, 3), (1, 1), SAME)
    b = net.conv(a, 1, (3, 3), (2, 2), SAME, depthwise=True)
    net.ends([x], [net.pool(b, "MAX_POOL_2D", (1, 1), (1, 1), VALID)])
    return graph_with_file(net.bytes())


def _cut(graph: Graph, stripes: int = 3) -> PartGraph:
    cutter = Cutter(graph)
    return apply(cutter, [max(regions(cutter, stripes), key=lambda r: (r.cuts[0].axis == 1, len(r.cuts)))])


@pytest.mark.slow
def test_parts_follow() -> None:
    """Every cut of random networks is put together again from what its plan lists: the same ops and tensors."""
    checked = 0
    for seed in range(15):
        rng = random.Random(seed)
        graph = graph_with_file(random_tflite(rng.choice, 4).bytes())
        cutter = Cutter(graph)
        for region in list(regions(cutter, 3))[:6]:
            parts = apply(cutter, [region])
            again = parted(graph, _plan(graph, parts))
            assert [(op.id, op.type, dict(op.attributes)) for op in again.ops] == [
                (op.id, op.type, dict(op.attributes)) for op in parts.graph.ops
            ]
            sizes = {t.id: (t.size, t.shape, t.dtype, t.quant) for t in parts.graph.tensors}
            assert all(sizes[t.id][0] == t.size and sizes[t.id][2:] == (t.dtype, t.quant) for t in again.tensors)
            checked += 1
    assert checked > 40


def _less(around: Callable[..., tuple[int, int]]) -> Callable[..., tuple[int, int]]:
    return lambda *given: (max(0, around(*given)[0] - 1), around(*given)[1])


def _moved(around: Callable[..., tuple[int, int]]) -> Callable[..., tuple[int, int]]:
    def other(*given: Any) -> tuple[int, int]:
        before, behind = around(*given)
        return (before - 1, behind + 1) if before else (before, behind)

    return other


@pytest.mark.parametrize("change", [_less, _moved])
def test_padding_of_a_wrong_size_is_seen(change: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The checker does not believe the adapter, though it asks it."""
    monkeypatch.setattr(tflite_part, "_around", change(tflite_part._around))
    graph = _net()
    with pytest.raises(VerificationError, match=r"sees row|rows of dimension|reads|padding where"):
        parted(graph, _plan(graph, _cut(graph)))


def _first(changed: dict[str, Any], role: str) -> dict[str, Any]:
    return next(op for op in changed["ops"] if op.get("part", {}).get("role") == role)


def _piece(changed: dict[str, Any], tensor: int) -> dict[str, Any]:
    return next(t for t in changed["tensors"] if t["id"] == tensor)


def _padding_inside(changed: dict[str, Any]) -> None:
    pad = _first(changed, "pad")["part"]
    box = _piece(changed, pad["outputs"][0])["piece"]["box"]
    box[1][1] += 1  # rows that the tensor has


def _other_padding(changed: dict[str, Any]) -> None:
    pad = _first(changed, "pad")["part"]
    numbers = _piece(changed, pad["inputs"][1])["numbers"]
    numbers[2] += 1


def _no_padding(changed: dict[str, Any]) -> None:
    pad = _first(changed, "pad")["part"]
    for op in changed["ops"]:
        inputs = op.get("part", {}).get("inputs", [])
        op.get("part", {})["inputs"] = [pad["inputs"][0] if t == pad["outputs"][0] else t for t in inputs]


def _other_slice(changed: dict[str, Any]) -> None:
    numbers = _piece(changed, _first(changed, "slice")["part"]["inputs"][1])["numbers"]
    numbers[1] += 1


@pytest.mark.parametrize("change", [_padding_inside, _other_padding, _no_padding, _other_slice])
def test_what_a_plan_says_of_padding_is_checked(change: Callable[[dict[str, Any]], None]) -> None:
    """Padding in a tensor, of other sizes than its numbers, left out; a slice of other rows."""
    graph = _net()
    plan = _plan(graph, _cut(graph))
    changed = msgspec.json.decode(plan.to_json())
    change(changed)
    with pytest.raises(VerificationError):
        parted(graph, msgspec.convert(changed, Plan))


def test_too_many_are_not_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    """More operands than TFLM's operator has are no join."""
    graph = _net(12)
    monkeypatch.setattr(tflite_part, "MOST_OPERANDS", 0)
    cutter = Cutter(graph)
    region = next(r for r in regions(cutter, 12) if len(r.cuts) == 1 and r.cuts[0].op == 0 and r.cuts[0].axis == 1)
    plan = _plan(graph, apply(cutter, [region]))
    monkeypatch.setattr(tflite_part, "MOST_OPERANDS", 10)
    with pytest.raises(VerificationError, match="at most 10"):
        parted(graph, plan)


def test_windows_are_compared_tap_by_tap() -> None:
    """A part's own word, its operand's rows, options: each change of one is seen."""
    graph = _net()
    op = graph.ops[0]
    assert (
        windows_differ(graph, op, op.attributes, ((0, 1), (0, 9), (0, 6), (0, 2)), ((0, 1), (0, 9), (0, 6), (0, 4)))
        is None
    )
    valid = {**op.attributes, "padding": VALID}
    middle = ((0, 1), (3, 6), (0, 6), (0, 4))
    padded = ((0, 1), (2, 7), (-1, 7), (0, 2))
    assert windows_differ(graph, op, valid, padded, middle) is None
    for given, made in (
        (((0, 1), (1, 7), (-1, 7), (0, 2)), middle),
        (((0, 1), (2, 7), (0, 6), (0, 2)), middle),
        (((0, 1), (2, 7), (-2, 6), (0, 2)), middle),
        (padded, ((0, 1), (2, 5), (0, 6), (0, 4))),
    ):
        assert windows_differ(graph, op, valid, given, made)
    assert windows_differ(graph, op, {**valid, "stride_h": 2}, padded, middle)
    row, same = ((0, 1), (3, 4), (0, 6), (0, 4)), {**op.attributes, "stride_h": 3}
    assert windows_differ(graph, op, same, ((0, 1), (2, 5), (0, 6), (0, 2)), row) is None
    for options, given, made in (
        (same, ((0, 1), (2, 4), (0, 6), (0, 2)), row),
        ({**same, "stride_h": 2}, ((0, 1), (2, 5), (0, 6), (0, 2)), row),
        ({**same, "stride_h": 0}, ((0, 1), (2, 5), (0, 6), (0, 2)), row),
        ({**same, "stride_w": 2}, ((0, 1), (2, 5), (0, 6), (0, 2)), row),
        (same, ((0, 1), (2, 8), (0, 6), (0, 2)), ((0, 1), (3, 5), (0, 6), (0, 4))),
        (same, ((0, 1), (0, 2), (0, 6), (0, 2)), ((0, 1), (0, 1), (0, 6), (0, 4))),  # the odd row is behind
    ):
        assert windows_differ(graph, op, options, given, made)
    pool = graph.ops[2]
    assert windows_differ(graph, pool, {**pool.attributes, "stride_h": 3}, *[((0, 1), (3, 4), (0, 3), (0, 1))] * 2)
    assert windows_differ(
        graph, pool, pool.attributes, ((0, 1), (-1, 2), (0, 3), (0, 4)), ((0, 1), (0, 3), (0, 3), (0, 4))
    )
