"""Where ops go in a file: folded ones keep their place, and whatever comes out is topological."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pytest

import lowtide
from lowtide.api.models import load
from lowtide.errors import InputError
from lowtide.graph import Op
from lowtide.write.graph_json import write_graph_json
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


def test_a_folded_op_waits_for_what_it_has_to_run_after() -> None:
    """f keeps its slot unless a now comes later; what reads f after that comes later too."""
    ops = [Op(0, (), (0,)), Op(1, (), (1,), after=(0,)), Op(2, (), (2,)), Op(3, (0, 1, 2), (3,))]
    assert fill_slots(ops, {1}, (0, 2, 3), "m") == [0, 1, 2, 3]
    assert fill_slots(ops, {1}, (2, 0, 3), "m") == [2, 0, 1, 3]
    with pytest.raises(InputError, match="puts op 1 before op 0, which it needs"):
        fill_slots([*ops, Op(4, (1,), (4,))], {1}, (4, 2, 0, 3), "m")


def test_folded_ops_that_wait_for_each_other_come_in_turn() -> None:
    """One that waits for an op, one that waits for that one, one that nobody reads."""
    ops = [Op(0, (), (0,)), Op(1, (), (1,), after=(0,)), Op(2, (1,), (2,)), Op(3, (2,), (3,)), Op(4, (), (4,))]
    assert fill_slots(ops, {1, 2, 3}, (4, 0), "m") == [4, 0, 1, 2, 3]


def test_what_follows_from_a_folded_op_comes_after_what_that_waits_for(tmp_path: Path) -> None:
    """The file is written whatever the plan's order: 50 bytes later is better, and op 1 stands behind op 0."""
    kinds = [(9, "input"), (50, "activation"), (4, "constant"), (5, "activation"), (100, "input"), (1, "activation")]
    tensors = [{"id": i, "size": size, "kind": kind} for i, (size, kind) in enumerate([*kinds, (1, "output")])]
    ops = [
        {"id": 0, "inputs": [0], "outputs": [1]},
        {"id": 1, "inputs": [2], "outputs": [3], "after": [0]},
        {"id": 2, "inputs": [4], "outputs": [5]},
        {"id": 3, "inputs": [1, 3, 5], "outputs": [6]},
    ]
    model, out = tmp_path / "m.graph.json", tmp_path / "out.graph.json"
    model.write_text(json.dumps({"name": "m", "tensors": tensors, "ops": ops}))
    plan = lowtide.research.plan(model, target="strict")
    assert plan.order == [2, 0, 3]
    write_graph_json(model, plan.order, out)
    assert [op["id"] for op in json.loads(out.read_bytes())["ops"]] == [2, 0, 1, 3]
    assert load(out).own_order == (2, 0, 3)


def test_every_order_of_what_remains_can_be_written() -> None:
    """Random files with folded ops that wait for others: the precedences that a plan keeps are enough."""
    from lowtide.graph import Graph, Kind, Tensor
    from lowtide.ops.folding import fold_constants
    from support.random_graphs import random_order

    waiting = 0
    for seed in range(300):
        rng = Random(seed)
        tensors = [Tensor(0, 1, Kind.INPUT), Tensor(1, 1, Kind.CONSTANT)]
        ops: list[Op] = []
        for i in range(8):
            constants = [1, *(t for op in ops for t in op.outputs if set(op.inputs) == {1})]
            reads = rng.choice(constants) if rng.random() < 0.4 else rng.randrange(len(tensors))
            tensors.append(Tensor(i + 2, 1))
            ops.append(Op(i, (reads,), (i + 2,), after=tuple(rng.sample(range(i), min(i, rng.choice((0, 0, 1)))))))
        marked, remaining, folded = fold_constants(tensors, ops)
        graph = Graph("g", tuple(marked), tuple(remaining), tuple(folded))
        waiting += any(op.after for op in folded)
        sequence = fill_slots(ops, {op.id for op in folded}, random_order(rng, graph), "m")
        place = {op_id: k for k, op_id in enumerate(sequence)}
        makers = {t: op.id for op in ops for t in op.outputs}
        assert sorted(sequence) == list(range(8))
        for op in ops:
            before = {*op.after, *(makers[t] for t in op.inputs if t in makers)}
            assert all(place[o] < place[op.id] for o in before)
    assert waiting > 50
