"""What onnxruntime's Einsum takes from the arena: transposed operands, sums, and the product before it is the output.

The axes of all operands are first put into one sequence, that in which the equation names them (those of an ellipsis
first); of two operands each is then turned so that a batched matrix product can be had of them, axes of both first::

    left [both | only left | summed | only right]    right [both | summed | only right | only left]

and the product is turned into the output. A turn takes memory even where only axes of length 1 move; all of it is given
back when the kernel ends. Source: core/providers/cpu/math/einsum_utils (read), and the runtime (1.31,
`tests/rules/onnxruntime/test_scratch.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

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
