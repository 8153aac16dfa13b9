"""onnxruntime's convolutions and pools in the blocked layout, NCHWc (``com.microsoft.nchwc``).

A tensor of theirs is declared as [N, C, H, W], C a multiple of the block b, and is in memory as [N, C/b, H, W, b].
Elementwise ops and joins along C take such tensors as they are. Rows of H are cut after a view as [N, C/b, H, W*b]
(`lowtide.write.onnx_parts`); channels and columns are never cut. Outputs that are no multiple of b are padded.
"""

from __future__ import annotations

from lowtide.graph import Graph, Op
from lowtide.ops.forms import Along, Form
from lowtide.ops.kinds import kind_of
from lowtide.ops.node import Node
from lowtide.ops.onnx import resize, windows

DOMAIN = "com.microsoft.nchwc"
ROWS_DIM = 2
"""The dimension along which a blocked tensor may be cut, and the batch's, 0."""

TO_BLOCKED, FROM_BLOCKED = f"{DOMAIN}::ReorderInput", f"{DOMAIN}::ReorderOutput"
_AS_THEY_ARE = frozenset({"Concat", "Slice", "Split", "com.microsoft::QuickGelu"})
"""Ops other than elementwise ones that take blocked tensors."""


def is_blocked(graph: Graph, tensor: int) -> bool:
    """Whether a tensor has the blocked layout: what an op of the layout makes, and what is made of that."""
    seen: set[int] = set()
    while tensor not in seen:
        seen.add(tensor)
        op = graph.producer.get(tensor)
        if op is None:
            return False
        kind = graph.op_by_id[op].type
        if kind.startswith(DOMAIN):
            return kind != FROM_BLOCKED
        table = kind_of(kind)
        if kind not in _AS_THEY_ARE and not (table is not None and table.elementwise):
            return False
        tensor = next((t for t in graph.op_by_id[op].inputs if t in graph.producer), tensor)
    return False


def touches_blocked(graph: Graph, op: Op) -> bool:
    """Whether an op reads or makes a blocked tensor."""
    return any(is_blocked(graph, t) for t in (*op.inputs, *op.outputs))


def _reorder(node: Node) -> Form:
    """All channels of a place are read for one; so are all of a part's columns, where channels come last."""
    return Along((1, 2, 3) if node.attribute("channels_last") else (1,), cost=0)


ROWS = {
    f"{DOMAIN}::Conv": windows.fused_conv,
    f"{DOMAIN}::MaxPool": windows.pool,
    f"{DOMAIN}::AveragePool": windows.pool,
    f"{DOMAIN}::Upsample": resize.upsample,
    TO_BLOCKED: _reorder,
    FROM_BLOCKED: _reorder,
}
