"""Rows through views: some rows of a tensor, seen as all of it is, against these rows of what is seen."""

from __future__ import annotations

from contextlib import suppress
from importlib import import_module
from math import prod
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowtide.read.aten.trace import Ref
from lowtide.torch.along import Along, Seen, back, forth, part_seen
from lowtide.torch.generate import expression
from lowtide.torch.program import Call

torch: Any = None
with suppress(ImportError):
    torch = import_module("torch")

pytestmark = pytest.mark.skipif(torch is None, reason="needs the extra torch")


def run(value: Any, tensor: Any) -> Any:
    """A view of a tensor named x."""
    return eval(expression(value), {"aten": torch.ops.aten, "x": tensor})


@st.composite
def chains(draw: st.DrawFn) -> tuple[tuple[int, ...], list[Seen]]:
    """A shape, and views of it one behind another."""
    shape = tuple(draw(st.lists(st.integers(1, 4), min_size=2, max_size=4)))
    tensor, value, chain = torch.arange(prod(shape)).reshape(shape), Ref("x"), []
    for _ in range(draw(st.integers(1, 4))):
        before = tuple(tensor.shape)
        rank = len(before)
        kind = draw(st.sampled_from(["view", "transpose", "permute", "expand", "split", "select", "unsqueeze"]))
        first, second = draw(st.integers(0, rank - 1)), draw(st.integers(0, rank - 1))
        if kind == "view":
            sizes = [*before[:first], prod(before[first : second + 1]), *before[second + 1 :]]
            if first > second:
                n = before[first]
                sizes = [*before[:first], *((2, n // 2) if n % 2 == 0 else (1, n)), *before[first + 1 :]]
            call = Call("aten.view.default", (value, tuple(sizes)))
        elif kind == "transpose":
            call = Call("aten.transpose.int", (value, first, second - rank))
        elif kind == "permute":
            call = Call("aten.permute.default", (value, tuple(draw(st.permutations(range(rank))))))
        elif kind == "expand":
            call = Call(
                "aten.expand.default", (value, (draw(st.integers(1, 2)), *[3 if n == 1 else n for n in before]))
            )
        elif kind == "split":
            call = Call("aten.split.Tensor", (value, max(1, before[first] - 1), first), pick=0)
        elif kind == "select":
            call = Call("aten.select.int", (value, first, before[first] - 1))
        else:
            call = Call("aten.unsqueeze.default", (value, first))
        if rank < 2 and kind == "select":
            continue
        try:
            after = run(Call(call.target, (Ref("x"), *call.args[1:]), pick=call.pick), tensor)
        except RuntimeError:  # no view of what lies apart
            continue
        chain.append(Seen(call, before, tuple(after.shape)))
        tensor, value = after, call
    return shape, chain


@given(chains(), st.data())
def test_rows_of_a_view_are_views_of_rows(drawn: tuple[tuple[int, ...], list[Seen]], data: st.DataObject) -> None:
    """Wherever rows keep a place of their own; and the way back leads to where they came from."""
    shape, chain = drawn
    dim = data.draw(st.integers(0, len(shape) - 1))
    each = data.draw(st.sampled_from([n for n in range(1, shape[dim] + 1) if shape[dim] % n == 0]))
    rows = shape[dim] // each
    place = forth(chain, Along(dim, each))
    if place is None or rows < 2:
        return
    tensor = torch.arange(prod(shape)).reshape(shape)
    seen = run(chain[-1].call, tensor) if chain else tensor
    assert back(chain, place) == Along(dim, each)
    first = data.draw(st.integers(0, rows - 1))
    end = data.draw(st.integers(first + 1, rows))
    expected = seen.narrow(place.dim, first * place.each, (end - first) * place.each)
    part = tensor.narrow(dim, first * each, (end - first) * each).contiguous()
    assert torch.equal(run(part_seen(Ref("x"), chain, Along(dim, each)), part), expected)


def test_heads_beside_the_batch_are_no_place_of_the_batch_alone() -> None:
    """Of ``(batch * heads, n)`` seen as ``(batch, heads, n)`` a row of the batch is `heads` entries; a head of each of
    the batch is in no one place."""
    view = [Seen(Call("aten.view.default", (Ref("x"), (2, 3, 5))), (6, 5), (2, 3, 5))]
    assert back(view, Along(0)) == Along(0, 3)
    assert forth(view, Along(0, 3)) == Along(0)
    assert back(view, Along(1)) is None
    assert forth(view, Along(0)) is None
