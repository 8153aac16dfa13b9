"""What onnxruntime's Einsum takes from the arena: transposed operands, sums, and the product before it is the output.

The axes of all operands are first put into one sequence, that in which the equation names them (those of an ellipsis
first); of two operands each is then turned so that a batched matrix product can be had of them, axes of both first::

    left [both | only left | summed | only right]    right [both | summed | only right | only left]

and the product is turned into the output. A turn takes memory even where only axes of length 1 move; all of it is given
back when the kernel ends. Source: core/providers/cpu/math/einsum_utils (read), and the runtime (1.31,
`tests/rules/onnxruntime/test_scratch.py`).

What onnxruntime's LSTM, GRU and RNN take from the arena while they run, all after their outputs.

Each direction has buffers of its own: gates of all steps, a few states, biases, and, backwards, its input and output
reversed. All are given back when the kernel ends. Source: core/providers/cpu/rnn (read), and the runtime (1.31,
`tests/rules/onnxruntime/test_scratch.py`). Their turned weights are kept outside the arena.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from lowtide.graph import Tensor

Axes = Sequence[int]


def einsum_chunks(equation: str, shapes: Sequence[Axes], width: int) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Bytes of each chunk: those taken before the output, and after. `equation`: such as ``"bij,bjk->bik"``. `shapes`:
    of the operands. `width`: bytes of an element. Returns: none if it is not known: three operands or more, diagonals,
    and axes summed on one side of two."""
    left_hand, arrow, wanted = equation.replace(" ", "").partition("->")
    terms = left_hand.split(",")
    if len(terms) != len(shapes) or len(terms) > 2:
        return None
    spelt = [_spelt(term, len(shape)) for term, shape in zip(terms, shapes, strict=True)]
    named = [axes for axes in spelt if axes is not None and len(set(axes)) == len(axes)]
    if len(named) < len(terms):
        return None
    every = list(dict.fromkeys(a for axes in named for a in axes))
    every = sorted(a for a in every if a < 0) + [a for a in every if a >= 0]
    if arrow:
        hidden = [a for a in every if a < 0]
        output = [b for c in wanted.replace("...", ".") for b in (hidden if c == "." else [ord(c)])]
    else:
        times = [a for axes in named for a in axes]
        output = [a for a in every if a < 0] + sorted(a for a in every if a >= 0 and times.count(a) == 1)
    if not set(output) <= set(every):
        return None
    return _chunks(named, every, output, shapes, width)


def _spelt(term: str, rank: int) -> list[int] | None:
    """The axes of an operand: a letter's code, or from -100 on for those of an ellipsis."""
    before, dots, after = term.partition("...")
    hidden = rank - len(before) - len(after)
    if (hidden != 0 and not dots) or hidden < 0 or not (before + after).isalpha() * bool(before + after):
        return None
    return [*map(ord, before), *range(-100, -100 + hidden), *map(ord, after)]


def _chunks(
    named: Sequence[Sequence[int]], every: Sequence[int], output: Sequence[int], shapes: Sequence[Axes], width: int
) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    before: list[int] = []
    for axes, shape in zip(named, shapes, strict=True):
        if [a for a in every if a in axes] != list(axes):
            before.append(width * prod(shape))
    sizes = [
        dict.fromkeys(every, 1) | dict(zip(axes, shape, strict=True)) for axes, shape in zip(named, shapes, strict=True)
    ]
    summed = [a for a in every if a not in output]
    last = {a: max(k for k, axes in enumerate(named) if a in axes) for a in summed}
    first = [a for a in summed if last[a] == 0]
    if first:
        sizes[0] |= dict.fromkeys(first, 1)
        before.append(width * prod(sizes[0].values()))
    if len(named) == 1:
        axes = [a for a in every if a not in first]
        return tuple(before), (width * prod(sizes[0].values()),) if axes != list(output) else ()
    left, right = sizes
    inner = [a for a in summed if last[a] == 1]
    if any((left[a] > 1) != (right[a] > 1) for a in inner):
        return None
    rest = [a for a in every if a not in inner]
    both = [a for a in rest if left[a] > 1 and right[a] > 1]
    only_left = [a for a in rest if left[a] > 1 and right[a] <= 1]
    only_right = [a for a in rest if left[a] <= 1]
    if [*both, *only_left, *inner, *only_right] != list(every):
        before.append(width * prod(left.values()))
    if [*both, *inner, *only_right, *only_left] != list(every):
        before.append(width * prod(right.values()))
    product = width * prod(left[a] for a in (*both, *only_left)) * prod(right[a] for a in only_right)
    axes = [a for a in (*both, *only_left, *inner, *only_right) if a in output]
    return (*before, product), (product,) if axes != list(output) else ()


_WORD = 4


def recurrent_chunks(
    kind: str, inputs: Sequence[Tensor], outputs: Sequence[Tensor], attributes: Mapping[str, Any]
) -> tuple[int, ...]:
    """Bytes of each chunk, in the order in which they are taken; none if the layer is not one of floats in steps."""
    shapes = [t.shape or () for t in inputs]
    if len(shapes) < 3 or len(shapes[0]) != 3 or len(shapes[1]) != 3 or inputs[0].dtype != "float32":
        return ()
    steps, batch, read = shapes[0]
    directions, rows, _ = shapes[1]
    hidden = rows // {"LSTM": 4, "GRU": 3, "RNN": 1}[kind]
    state = _WORD * batch * hidden
    ranks = [len(t.shape or ()) for t in outputs]
    if kind == "RNN":
        return (steps * state, *(() if 4 in ranks else (steps * directions * state,)))
    missing = (directions * state,) * max(0, (2 if kind == "LSTM" else 1) - ranks.count(3))
    bias = any(len(s) == 2 and s[1] == 2 * rows for s in shapes[3:])
    backwards = (_WORD * steps * batch * read, steps * state)
    lengths = () if any(t.dtype == "int32" for t in inputs[3:]) else (_WORD * batch,)
    if kind == "GRU":
        linear = bool(attributes.get("linear_before_reset", 0))
        biases = (state,) * (4 if linear else 3) if bias else ()
        before = (state, state, *biases, *((state,) * linear), 3 * steps * state)
    else:
        biases = (_WORD * hidden,) * 4 if bias else ()
        before = (_WORD * hidden, _WORD * hidden, state, state, state, 4 * steps * state, *biases)
    forward, reverse = (*before, *lengths), (*before, *backwards, *lengths)
    if directions == 2:
        return (*missing, *forward, *reverse)
    return (*missing, *(reverse if attributes.get("direction") == "reverse" else forward))
