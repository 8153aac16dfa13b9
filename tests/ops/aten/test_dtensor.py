"""PyTorch's DTensor as a second opinion on ATen's rows: what can be sharded along one dimension of a mesh.

A rule of DTensor has a placement for each result and operand: a dimension, whole, or a partial sum. An axis that we
can cut is such a rule. Where the two lists differ the reason stands here, and no op is listed that does not differ.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any

import pytest

from lowtide.graph import Graph, Op
from lowtide.ops import aten
from lowtide.ops.meaning import meaning
from lowtide.run.probe_aten import AtenRunner, arguments_of
from support.aten_rows import INSTANCES, graph_of

SINCE = (2, 15)
known = find_spec("torch") is not None and tuple(int(part) for part in version("torch").split(".")[:2]) >= SINCE
pytestmark = pytest.mark.skipif(
    not known, reason="needs torch 2.15, whose DTensor has these rules; older ones have fewer"
)

Rule = tuple[int | str, ...]
"""Of results, then of operands: a dimension, ``whole``, or how parts are put together."""

WINDOW = "a part reads rows beside its own, which DTensor has on another device"
MOVED = "rows of a part come from another one's, which DTensor has on another device"
ONCE = "an operand goes to one part of the sum alone"
UNREAD = "an operand that no number of is read: whole here, sharded there"
LEFT_OUT = "DTensor has no such rule"

OURS: dict[str, str] = {
    "convolution": f"{WINDOW}; for channels {LEFT_OUT}",
    "convolution_backward": LEFT_OUT,
    "avg_pool1d": WINDOW, "avg_pool2d": WINDOW, "avg_pool3d": WINDOW,
    "_adaptive_avg_pool2d": WINDOW, "_adaptive_avg_pool3d": WINDOW, "adaptive_avg_pool1d": WINDOW,
    "upsample_nearest1d": WINDOW, "upsample_nearest2d": WINDOW, "upsample_nearest3d": WINDOW,
    "grid_sampler_2d": LEFT_OUT, "addmm": ONCE, "baddbmm": ONCE, "triu": LEFT_OUT, "tril": LEFT_OUT,
    "_native_batch_norm_legit_no_training": LEFT_OUT,
    "cat": MOVED, "slice": MOVED, "constant_pad_nd": MOVED, "flip": MOVED,
    "any": "parts are put together by or, for which it has no partial result", "all": "by and, likewise",
}  # fmt: skip
"""Axes that we cut, and DTensor shards not."""

THEIRS: dict[str, str] = {
    "prod": "parts are multiplied, which we put together by sums and extremes alone",
    "linalg_vector_norm": "partial norms, of which a sum is none: DTensor's name for it carries the order",
}
"""Dimensions that DTensor shards, and that we do not cut."""

OTHERWISE: dict[str, str] = {
    "max_pool2d_with_indices_backward": UNREAD, "_adaptive_avg_pool2d_backward": UNREAD,
    "native_batch_norm_backward": UNREAD, "nll_loss_backward": UNREAD, "full_like": UNREAD,
    "new_zeros": "the shape asked for is the op's own: the result is sharded there as the operand is not",
    "new_full": "likewise",
    "_batch_norm_with_update_functional": "the weight is sharded here as the channels are",
    "nll_loss_forward": "the total weight, of which nothing is asked without a reduction, is a sum of parts here",
}  # fmt: skip
"""The same axis, with another placement for some tensor."""


@cache
def strategies() -> Any:
    """DTensor's rules for one dimension of a mesh, by op."""
    tensor = import_module("torch.distributed.tensor")
    return tensor.DTensor._op_dispatcher.sharding_propagator.op_single_dim_strategy_funcs


def theirs(graph: Graph, op: Op) -> set[Rule] | None:
    """DTensor's rules by which some tensor is sharded and no operand is a partial result; None if it has none."""
    import torch
    from torch.distributed.tensor._dtensor_spec import TensorMeta

    function = AtenRunner()._function(op.type)
    strategy = strategies().get(function)
    if strategy is None:
        return None
    metas: list[Any] = []
    for t in op.operands:
        known = None if t is None else graph.tensor_by_id[t]
        if known is None:
            metas.append(None)
            continue
        like = torch.empty(known.shape or (), device="meta", dtype=getattr(torch, known.dtype))
        metas.append(TensorMeta(like.shape, like.stride(), like.dtype))
    given = arguments_of(function._schema, metas, op)
    values = [(a, given.get(a.name, a.default_value)) for a in function._schema.arguments]
    positional = tuple([value for a, value in values if not a.kwarg_only])
    found = strategy.func(function, positional, {a.name: value for a, value in values if a.kwarg_only})
    shapes = [graph.tensor_by_id[t].shape or () for t in (*op.outputs, *op.inputs)]
    rules = set[Rule]()
    for placements in found:
        rule = tuple([_placement(p) for p in placements])
        read, rows = rule[len(op.outputs) :], [p for p in rule if isinstance(p, int)]
        single = len(rule) == len(shapes) and any(
            isinstance(p, int) and s[p] < 2 for p, s in zip(rule, shapes, strict=True)
        )
        if rows and not single and all(isinstance(p, int) or p in ("whole", "none") for p in read):
            rules.add(rule)
    return rules


def _placement(placement: Any) -> int | str:
    if placement is None:
        return "none"
    if hasattr(placement, "dim"):
        return placement.dim
    return {"avg": "sum"}.get(placement.reduce_op, placement.reduce_op) if hasattr(placement, "reduce_op") else "whole"


def ours(graph: Graph, op: Op) -> set[Rule]:
    """Axes that can be cut."""
    known = meaning(graph, op)
    assert known is not None
    access, rules = known.access, set[Rule]()
    for axis in access.cuttable():
        rule: list[int | str] = []
        for along in access.outputs:
            together = access.merge if axis in access.reduce else "whole"
            rule.append(along.index(axis) if axis in along else together)
        for position, indices in enumerate(access.inputs):
            if position < len(op.operands) and op.operands[position] is None:
                continue
            found = [d for d, index in enumerate(indices or ()) if index is not None and index.axis == axis]
            rule.append(found[0] if found else "whole")
        rules.add(tuple(rule))
    return rules


def differences() -> dict[str, set[str]]:
    """Of each op that has rules the lists in which it should stand; an empty set where both say the same."""
    found: dict[str, set[str]] = {}
    for instance in INSTANCES:
        graph, op = graph_of(instance)
        other = theirs(graph, op)
        if other is None:
            continue
        own, name = ours(graph, op), aten.name_of(op.type)
        both = found.setdefault(name, set())
        more, less = own - other, other - own
        same_results = {rule[: len(op.outputs)] for rule in more} & {rule[: len(op.outputs)] for rule in less}
        if more and less and (same_results or len(more) == len(less)):
            both.add("otherwise")
        else:
            both |= {"ours"} if more else set()
            both |= {"theirs"} if less else set()
    return found


def test_dtensor_shards_what_we_cut() -> None:
    """Each difference is listed with its reason, and nothing is listed that does not differ."""
    found = differences()
    assert len(found) > 150
    for listed, kind in ((OURS, "ours"), (THEIRS, "theirs"), (OTHERWISE, "otherwise")):
        assert set(listed) == {name for name, kinds in found.items() if kind in kinds}, kind


def test_a_wrong_row_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A product whose columns are said to be whole differs."""
    from dataclasses import replace

    real = meaning

    def wrong(graph: Graph, op: Op) -> Any:
        known = real(graph, op)
        assert known is not None
        if aten.name_of(op.type) != "mm":
            return known
        return replace(known, access=replace(known.access, inputs=(known.access.inputs[0], None)))

    monkeypatch.setitem(globals(), "meaning", wrong)
    assert differences()["mm"]
