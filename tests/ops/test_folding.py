"""What reads constants only is computed beforehand, or on every run where the runtime folds nothing."""

from __future__ import annotations

from dataclasses import replace

from lowtide.graph import Graph, Kind, Op, Tensor
from lowtide.ops.folding import fold_constants, run_folded

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
