"""ATen's fused attention: queries can be cut unless a causal mask counts them from the first."""

from __future__ import annotations

from math import prod

from lowtide.ops.forms import Form, Labelled, Labels
from lowtide.ops.node import Node, NoForm, Row

_BATCH, _HEAD, _QUERY = 0, 1, 2


def _attention(node: Node) -> Form:
    """Operands: query (batch, heads, queries, width), key, value (batch, heads, keys, width), perhaps a mask.
    Results: data as the query; others of shape (batch, heads, queries), or any other, which is untiled."""
    if node.rank() != 4:
        raise NoForm("operands that are not (batch, heads, rows, width)")
    causal = bool(node.attribute("is_causal", False))
    shared = node.shape(0)[_HEAD] == node.shape(1)[_HEAD]
    heads = _HEAD if shared else None
    rows = None if causal else _QUERY
    query: Labels = (_BATCH, heads, rows, None)
    others: Labels = (_BATCH, heads, None, None)
    masks = tuple(_mask(shape, query) for shape in node.reads[3:])
    results = tuple(_result(shape, node.shape()[:3], query) for shape in node.writes)
    flops = 4 * prod(node.shape()) * node.shape(1)[2]
    return Labelled(
        "contraction", (query, others, others, *masks), results, exact="kernel", broadcast=True, flops=flops
    )


def _mask(shape: tuple[int, ...] | None, query: Labels) -> Labels | None:
    """Masks are broadcast: trailing dimensions are queries and keys."""
    if shape is None:
        return None
    return (*query[:2], query[2], None)[4 - len(shape) :] if len(shape) <= 4 else (None,) * len(shape)


def _result(shape: tuple[int, ...] | None, lead: tuple[int, ...], query: Labels) -> Labels:
    shape = shape or ()
    if len(shape) == 4:
        return query
    return query[:3] if shape == lead else (None,) * len(shape)


ROWS: dict[str, Row] = {
    "scaled_dot_product_attention": _attention,
    "_scaled_dot_product_flash_attention": _attention,
    "_scaled_dot_product_flash_attention_for_cpu": _attention,
    "_scaled_dot_product_efficient_attention": _attention,
}
