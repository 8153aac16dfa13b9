"""Small networks whose products are read section by section, as exporters write attention and gates."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from support.small_nets import Nets, Pick

WAYS = ("split", "chunks", "gather", "heads", "slice", "columns")
"""How sections are taken out: a split, alone or behind a reshape; a gather behind transposes (torch's in-projection),
or with heads (Swin's); slices of whole sections, and of uneven columns."""


def product(nets: Nets, x: str, columns: int, kind: str) -> str:
    """A product of `x` with weights of so many columns: with a bias in it or behind it, or none."""
    rows, width = nets.shapes[x][:-1], nets.shapes[x][-1]
    if kind == "gemm":
        (flat,) = nets.node("Reshape", [x, nets.ints(-1, width)])
        (y,) = nets.node(
            "Gemm", [flat, nets.floats((columns, width), 0.5), nets.floats((columns,))], transB=1, alpha=0.5
        )
        return nets.node("Reshape", [y, nets.ints(*rows, columns)])[0]
    (y,) = nets.node("MatMul", [x, nets.floats((width, columns), 0.5)])
    return y if kind == "matmul" else nets.node("Add", [nets.floats((columns,)), y])[0]


def sections(nets: Nets, y: str, count: int, way: str) -> list[str]:
    """Sections of a tensor along its last dimension."""
    (*rows, columns) = nets.shapes[y]
    width, lead = columns // count, len(rows)
    if way == "split":
        return nets.node("Split", [y], count, axis=lead, num_outputs=count)
    if way == "columns":
        ends = [0, *(min(columns, 1 + i * width) for i in range(1, count)), columns]
        pairs = pairwise(ends)
        return [nets.node("Slice", [y, nets.ints(a), nets.ints(b), nets.ints(-1)])[0] for a, b in pairs]
    if way == "heads":
        (apart,) = nets.node("Reshape", [y, nets.ints(*rows, count, 2, width // 2)])
        order = (lead, *range(lead - 1), lead + 1, lead - 1, lead + 2)
        (front,) = nets.node("Transpose", [apart], perm=order)
        return [_row(nets, front, i) for i in range(count)]
    (apart,) = nets.node("Reshape", [y, nets.ints(*rows, count, width)])
    if way == "chunks":
        parts = nets.node("Split", [apart], count, axis=-2, num_outputs=count)
        return [nets.node("Squeeze", [part, nets.ints(lead)])[0] for part in parts]
    if way == "slice":
        return [nets.node("Slice", [apart, nets.ints(i), nets.ints(i + 1), nets.ints(lead)])[0] for i in range(count)]
    (wide,) = nets.node("Unsqueeze", [apart, nets.ints(0)])
    (front,) = nets.node("Transpose", [wide], perm=(lead + 1, *range(1, lead + 1), 0, lead + 2))
    (front,) = nets.node("Squeeze", [front, nets.ints(-2)])
    return [_row(nets, front, i) for i in range(count)]


def _row(nets: Nets, front: str, i: int) -> str:
    (taken,) = nets.node("Gather", [front, nets.ints(i)], axis=0)
    return nets.node("Reshape", [taken, nets.ints(*nets.shapes[front][1:])])[0]


def section_net(pick: Pick, rows: Sequence[int] = (2, 5), width: int = 6) -> Nets:
    """A few products by sections, one behind the other, each of which the next one reads added up."""
    nets = Nets(pick)
    x = nets.input((*rows, width))
    for _ in range(pick((1, 2, 3))):
        count, way, kind = pick((2, 3)), pick(WAYS), pick(("matmul", "bias", "gemm"))
        taken = sections(nets, product(nets, x, 4 * count, kind), count, way)
        wanted = [nets.node(pick(("Relu", "Neg", "Sigmoid")), [t])[0] for t in taken]
        flat = [nets.node("Reshape", [t, nets.ints(*rows, -1)])[0] for t in wanted]
        (joined,) = nets.node("Concat", flat, axis=-1)
        (x,) = nets.node("MatMul", [joined, nets.floats((nets.shapes[joined][-1], width), 0.5)])
    return nets


def attention(tokens: int = 12, width: int = 8, heads: int = 4, way: str = "gather") -> Nets:
    """Self-attention with one product for queries, keys and values; `way`: one of `WAYS`, or ``"swin"``, which puts the
    heads before the tokens first."""
    nets = Nets(_nothing)
    x = nets.input((tokens, 1, width))
    y, each = product(nets, x, 3 * width, "bias"), width // heads
    if way == "swin":
        (apart,) = nets.node("Reshape", [y, nets.ints(tokens, 3, heads, each)])
        (front,) = nets.node("Transpose", [apart], perm=(1, 2, 0, 3))
        q, k, v = (_row(nets, front, i) for i in range(3))
        (k,) = nets.node("Transpose", [k], perm=(0, 2, 1))
    else:
        apart = [nets.node("Reshape", [t, nets.ints(tokens, heads, each)])[0] for t in sections(nets, y, 3, way)]
        (q,), (v,) = (nets.node("Transpose", [t], perm=(1, 0, 2)) for t in (apart[0], apart[2]))
        (k,) = nets.node("Transpose", [apart[1]], perm=(1, 2, 0))
    (scores,) = nets.node("MatMul", [q, k])
    (weights,) = nets.node("Softmax", [scores], axis=-1)
    (mixed,) = nets.node("MatMul", [weights, v])
    (back,) = nets.node("Transpose", [mixed], perm=(1, 0, 2))
    (flat,) = nets.node("Reshape", [back, nets.ints(tokens, 1, width)])
    nets.node("MatMul", [flat, nets.floats((width, width), 0.5)])
    return nets


def _nothing(options: object) -> object:
    raise AssertionError("nothing is drawn")
