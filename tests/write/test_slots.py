"""Where ops go in a file: folded ones keep their place, and whatever comes out is topological."""

from __future__ import annotations

from random import Random

import pytest

from lowtide.errors import InputError
from lowtide.graph import Op
from lowtide.write.slots import fill_slots
from support.random_graphs import random_graph, random_order


def test_the_picture_in_the_docstring():
    """F1 would come after its consumer c, so it moves to just before it."""
    f0, a, b, f1, c = Op(0, (), (0,)), Op(1, (0,), (1,)), Op(2, (), (2,)), Op(3, (), (3,)), Op(4, (3,), (4,))
    assert fill_slots([f0, a, b, f1, c], {0, 3}, [4, 1, 2], "m") == [0, 3, 4, 1, 2]


def test_random_orders_are_kept_and_topological():
    """The ops that run come in the order asked for, each op once, after all that it needs; and the way back."""
    rng = Random(8)
    for _ in range(150):
        graph = random_graph(rng, 9)
        if any(op.after for op in graph.folded):  # no file has that
            continue
        ops = [*graph.folded, *graph.ops]
        folded, order = {op.id for op in graph.folded}, random_order(rng, graph)
        file = fill_slots(ops, folded, order, "m")
        assert [o for o in file if o not in folded] == list(order)
        assert sorted(file) == sorted(op.id for op in ops)
        made = {t: op.id for op in ops for t in op.outputs}
        for op in ops:
            for needed in {made[t] for t in op.inputs if t in made} | set(op.after):
                assert file.index(needed) < file.index(op.id)
        assert fill_slots(ops, folded, [op.id for op in ops], "m") == [op.id for op in ops]


@pytest.mark.parametrize(
    ("order", "words"),
    [([0], "op 1 is missing"), ([0, 1, 0], "op 0 is listed twice"), ([0, 9], "op 9 is unknown"), ([1, 0], "needs")],
)
def test_what_is_no_order_is_refused(order: list[int], words: str):
    """With the file and the op."""
    ops = [Op(0, (), (0,)), Op(1, (0,), (1,))]
    with pytest.raises(InputError, match=words):
        fill_slots(ops, set(), order, "m.onnx")
