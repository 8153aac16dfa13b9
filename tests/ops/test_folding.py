"""What depends on constants only is set apart, unless it has to be put anew on every run into memory that changes."""

import json
from dataclasses import replace
from random import Random

import lowtide
from lowtide.graph import Graph, Kind, Op, Tensor, alias_roots
from lowtide.ops.folding import fold_constants, run_folded
from lowtide.read.graph_json import parse_graph_json
from lowtide.write.graph_json import graph_json_bytes

X, Y, Z = Tensor(0, 8, Kind.INPUT, "x"), Tensor(1, 8, name="y"), Tensor(2, 8, Kind.OUTPUT, "z")
C, D = Tensor(3, 4, Kind.CONSTANT, "c"), Tensor(4, 4, name="d")


def test_what_reads_constants_only_is_folded():
    """Down a chain of such ops; `Constant` without inputs too, and nothing random."""
    tensors = [X, Y, replace(Z, kind=Kind.ACTIVATION), C, D]
    chain = [Op(0, (3,), (4,), type="Neg"), Op(1, (4, 3), (1,), type="Add"), Op(2, (1, 0), (2,), type="Add")]
    marked, remaining, folded = fold_constants(tensors, chain)
    assert [op.id for op in folded] == [0, 1]
    assert [op.id for op in remaining] == [2]
    assert [t.name for t in marked if t.kind is Kind.CONSTANT] == ["y", "c", "d"]
    drawn = [Op(0, (3,), (4,), type="RandomNormalLike", attributes={"random": True}), Op(1, (), (1,), type="Source")]
    assert fold_constants(tensors, drawn)[2] == []
    assert [op.id for op in fold_constants(tensors, [Op(1, (), (1,), type="Constant")])[2]] == [1]


def test_a_runtime_that_folds_nothing_runs_them_at_their_place():
    """What is made is an activation then; ops of type Constant stay folded, and the graph without others as it is."""
    tensors = (X, replace(Y, kind=Kind.CONSTANT), Z, C, replace(D, kind=Kind.CONSTANT))
    graph = Graph(
        "g", tensors, (Op(2, (0, 1), (2,), type="Add"),),
        (Op(0, (), (4,), type="Constant"), Op(1, (3, 4), (1,), type="Add")),
    )  # fmt: skip
    running = run_folded(graph)
    assert running.own_order == (1, 2)
    assert [op.id for op in running.folded] == [0]
    assert running.tensor_by_id[1].kind is Kind.ACTIVATION
    assert running.tensor_by_id[4].kind is Kind.CONSTANT
    plain = Graph("plain", (X, replace(Z, id=1)), (Op(0, (0,), (1,), type="Relu"),))
    assert run_folded(plain) is plain


def graph(tensors: list[Tensor], ops: list[Op]) -> Graph:
    """A graph as a reader makes it."""
    marked, running, folded = fold_constants(tensors, ops)
    return Graph("g", tuple(marked), tuple(running), tuple(folded))


def test_a_constant_operand_of_a_concatenation_in_place_is_copied_on_every_run() -> None:
    """What is copied into a slice of a buffer that other ops write too is no constant."""
    tensors = [
        Tensor(0, 100, Kind.INPUT),
        Tensor(1, 10, Kind.CONSTANT),
        Tensor(2, 1000),
        Tensor(3, 10, alias_of=2),
        Tensor(4, 990, alias_of=2, alias_offset=10),
        Tensor(5, 50, Kind.OUTPUT),
    ]
    ops = [Op(0, (1,), (3,)), Op(1, (0,), (4,)), Op(2, (3, 4), (2,)), Op(3, (2,), (5,))]
    folded = graph(tensors, ops)
    assert folded.own_order == (0, 1, 2, 3)
    assert folded.tensor_by_id[3].kind is Kind.ACTIVATION


def test_what_follows_from_a_copy_of_every_run_runs_too() -> None:
    """An op that reads such a slice, and only it, has to wait for the copy."""
    tensors = [
        Tensor(0, 4, Kind.INPUT),
        Tensor(1, 4, Kind.CONSTANT),
        Tensor(2, 4),
        Tensor(3, 8),
        Tensor(4, 4, alias_of=3),
        Tensor(5, 4, Kind.OUTPUT),
    ]
    ops = [Op(0, (1,), (2,)), Op(1, (2,), (4,)), Op(2, (0,), (3,)), Op(3, (4,), (5,))]
    folded = graph(tensors, ops)
    assert folded.own_order == (1, 2, 3)
    assert [op.id for op in folded.folded] == [0]


def test_a_buffer_filled_by_constants_alone_is_folded() -> None:
    """Slices and the buffer that they make up are all constant, in whatever order they are listed."""
    tensors = [
        Tensor(0, 4, Kind.CONSTANT),
        Tensor(1, 4, alias_of=3),
        Tensor(2, 4, alias_of=3, alias_offset=4),
        Tensor(3, 8),
        Tensor(4, 1, Kind.OUTPUT),
        Tensor(5, 1, Kind.INPUT),
    ]
    ops = [Op(0, (0,), (1,)), Op(1, (0,), (2,)), Op(2, (1, 2), (3,)), Op(3, (3, 5), (4,))]
    folded = graph(tensors, ops)
    assert [op.id for op in folded.folded] == [0, 1, 2]
    assert folded.tensor_by_id[3].kind is Kind.CONSTANT


def test_a_buffer_that_is_filled_from_constants_and_then_written_is_no_constant() -> None:
    """Zeros, then a slice put into them: the zeros have to be there anew for every run."""
    tensors = [
        Tensor(0, 4, Kind.INPUT),
        Tensor(1, 8, Kind.CONSTANT),
        Tensor(2, 8),
        Tensor(3, 4, alias_of=2, alias_offset=2),
        Tensor(4, 1, Kind.OUTPUT),
    ]
    ops = [Op(0, (1,), (2,)), Op(1, (0,), (3,), after=(0,)), Op(2, (2,), (4,), after=(1,))]
    assert graph(tensors, ops).folded == ()


def test_memory_that_no_op_fills_is_no_constant() -> None:
    """The root only names memory, and is not constant: what lies there runs."""
    tensors = [Tensor(0, 4, Kind.CONSTANT), Tensor(1, 8), Tensor(2, 4, alias_of=1), Tensor(3, 1, Kind.OUTPUT)]
    assert graph(tensors, [Op(0, (0,), (2,)), Op(1, (2,), (3,))]).folded == ()


def test_an_alias_of_a_constant_is_folded() -> None:
    """It costs nothing, and its maker reads constants only."""
    tensors = [
        Tensor(0, 4, Kind.CONSTANT),
        Tensor(1, 4, alias_of=0),
        Tensor(2, 1, Kind.OUTPUT),
        Tensor(3, 1, Kind.INPUT),
    ]
    assert [op.id for op in graph(tensors, [Op(0, (0,), (1,)), Op(1, (1, 3), (2,))]).folded] == [0]


def test_memory_that_constants_and_folded_ops_share_runs_as_a_whole() -> None:
    """A runtime that folds nothing runs an op of type Constant too, if it writes into what others make."""
    tensors = [
        Tensor(0, 4, Kind.CONSTANT),
        Tensor(1, 4, alias_of=3),
        Tensor(2, 4, alias_of=3, alias_offset=4),
        Tensor(3, 8),
        Tensor(4, 1, Kind.OUTPUT),
        Tensor(5, 1, Kind.INPUT),
    ]
    ops = [Op(0, (), (1,), type="Constant"), Op(1, (0,), (2,)), Op(2, (1, 2), (3,)), Op(3, (3, 5), (4,))]
    whole = graph(tensors, ops)
    assert [op.id for op in whole.folded] == [0, 1, 2]
    assert run_folded(whole).own_order == (0, 1, 2, 3)


def test_no_memory_is_constant_in_part() -> None:
    """After folding, all of a storage is constant with its root, or nothing is; nothing that runs writes a constant."""
    cases = 0
    for seed in range(1500):
        rng = Random(seed)
        tensors = [Tensor(0, 4, Kind.INPUT), Tensor(1, 4, Kind.CONSTANT)]
        ops: list[Op] = []
        for i in range(6):
            root = rng.choice([None, 0, *range(2, len(tensors))])
            reads = tuple(rng.sample(range(len(tensors)), rng.randint(1, min(2, len(tensors)))))
            tensors.append(Tensor(len(tensors), 4, alias_of=root))
            ops.append(Op(i, reads, (tensors[-1].id,)))
        whole = graph(tensors, ops)
        roots = alias_roots(whole.tensors)
        cases += any(roots[t] != t for op in whole.folded for t in op.outputs)
        for t in whole.tensors:
            assert (t.kind is Kind.CONSTANT) == (whole.tensor_by_id[roots[t.id]].kind is Kind.CONSTANT)
        assert all(whole.tensor_by_id[roots[t]].kind is not Kind.CONSTANT for op in whole.ops for t in op.outputs)
    assert cases > 20


def test_ops_that_are_not_folded_after_all_stand_where_the_file_has_them() -> None:
    """By their place in the file, not by their ids: 30, 20, 10."""
    data = {
        "name": "g",
        "tensors": [
            {"id": 0, "size": 5, "kind": "input"},
            {"id": 1, "size": 7, "kind": "constant"},
            {"id": 2, "size": 50, "kind": "activation"},
            {"id": 3, "size": 7, "kind": "activation"},
            {"id": 4, "size": 1, "kind": "output"},
        ],
        "ops": [
            {"id": 30, "inputs": [0], "outputs": [2]},
            {"id": 20, "inputs": [1], "outputs": [3]},
            {"id": 10, "inputs": [2, 3], "outputs": [4]},
        ],
    }
    read = parse_graph_json(json.dumps(data).encode())
    assert read.own_order == (30, 10)
    assert run_folded(read).own_order == (30, 20, 10)
    assert lowtide.research.plan(read, target="strict,folds=false").own_order_peak_bytes == 58
    ids = [op["id"] for op in json.loads(graph_json_bytes(read))["ops"]]
    assert ids == [30, 20, 10]


def test_ops_that_are_not_folded_come_before_their_readers_in_a_graph_in_another_order() -> None:
    """The graph's ops are not those of the file any more: what is read earlier comes earlier."""
    tensors = [
        Tensor(0, 1, Kind.CONSTANT),
        Tensor(1, 1),
        Tensor(2, 1),
        Tensor(3, 1, Kind.INPUT),
        Tensor(4, 1),
        Tensor(5, 1),
    ]
    ops = [Op(0, (3,), (4,)), Op(1, (0,), (1,)), Op(2, (1,), (2,)), Op(3, (3, 2), (5,))]
    read = graph(tensors, ops)
    turned = Graph("g", read.tensors, read.ops[::-1], read.folded)
    assert run_folded(turned).own_order == (1, 2, 3, 0)


def test_what_a_folded_op_waits_for_its_readers_wait_for() -> None:
    """Through another folded op, and through `after` too; a folded op itself is no step to wait for."""
    tensors = [Tensor(0, 1, Kind.INPUT), Tensor(1, 1, Kind.CONSTANT), *(Tensor(t, 1) for t in range(2, 7))]
    ops = [
        Op(0, (0,), (2,)),
        Op(1, (1,), (3,), after=(0,)),
        Op(2, (3,), (4,)),
        Op(3, (0, 4), (5,)),
        Op(4, (0,), (6,), after=(2,)),
    ]
    read = graph(tensors, ops)
    assert [op.id for op in read.folded] == [1, 2]
    assert read.predecessors == ((), (0,), (0,))
