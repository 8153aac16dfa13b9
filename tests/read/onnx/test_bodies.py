"""If, Loop and Scan: one op, with captured inputs, and its bodies as graphs that are measured under the target."""

import pytest
from onnx import TensorProto

from lowtide.analyse.storage import memory_model
from lowtide.errors import InputError
from lowtide.read.onnx.reader import read_onnx
from lowtide.target import BUILT_IN
from lowtide.verify.check.memory import work_out
from support.onnx_builder import constant, graph, model, node, saved, value

INT64, BOOL = TensorProto.INT64, TensorProto.BOOL


def _read(model, tmp_path):
    return read_onnx(saved(model, tmp_path))


def _names(read, ids):
    return [read.tensor_by_id[t].name for t in ids]


def _inside(read, target="strict"):
    """Bytes that the bodies of the first op need, as the planner and as the checker work them out."""
    rules = BUILT_IN[target]
    assert read.ops[0].workspace == 0
    planned = memory_model(read, rules).workspace[0]
    assert planned == work_out(read, rules).workspace[read.ops[0].id]
    return planned


def _if(then, other, outputs=None, inputs=(), constants=(), before=()):
    return model(
        [*before, node("If", "c", "z", then_branch=then, else_branch=other)],
        [value("c", (), BOOL), value("x", (8,)), *inputs],
        outputs or [value("z", (8,))],
        constants,
    )


def test_if_captures_tensors_and_costs_its_worst_branch(tmp_path):
    """Captured tensors become inputs and are not counted again; the larger branch counts."""
    then = graph([node("Neg", "x", "a"), node("Exp", "a", "b"), node("Add", "a b", "t")], [], [value("t", (8,))])
    other = graph([node("Add", "x y", "e")], [], [value("e", (8,))])
    read = _read(_if(then, other, inputs=[value("y", (8,))]), tmp_path)
    assert _names(read, read.ops[0].inputs) == ["c", "x", "y"]
    assert _inside(read) == 3 * 32
    assert read.tensors[-1].size == 32


def test_captured_constants_fold_what_reads_them(tmp_path):
    """In a body, an op that reads captured constants only costs nothing."""
    then = graph([node("Neg", "w", "n"), node("Add", "x n", "t")], [], [value("t", (8,))])
    other = graph([node("Add", "x w", "e")], [], [value("e", (8,))])
    read = _read(_if(then, other, constants=[constant("w", [1.0] * 8)]), tmp_path)
    assert _names(read, read.ops[0].inputs) == ["c", "x", "w"]
    assert _inside(read) == 32


def test_nested_bodies_capture_through_the_body_between(tmp_path):
    """A tensor that only the innermost body reads is an input of the outermost op, and counts once."""
    inner_then = graph([node("Exp", "x", "p"), node("Neg", "p", "q")], [], [value("q", (8,))])
    inner_else = graph([node("Neg", "y", "r")], [], [value("r", (8,))])
    then = graph([node("If", "c", "t", then_branch=inner_then, else_branch=inner_else)], [], [value("t", (8,))])
    other = graph([node("Neg", "x", "e")], [], [value("e", (8,))])
    read = _read(_if(then, other, inputs=[value("y", (8,))]), tmp_path)
    assert _names(read, read.ops[0].inputs) == ["c", "x", "y"]
    assert _inside(read) == 32 + 64  # the inner If's output, and its own worst body


def test_a_random_body_is_not_folded(tmp_path):
    """An If over constants that draws random numbers is run every time."""
    then = graph([node("RandomNormal", "", "t", shape=[8])], [], [value("t", (8,))])
    other = graph([node("Neg", "w", "e")], [], [value("e", (8,))])
    made = model(
        [node("If", "yes", "u", then_branch=then, else_branch=other), node("Add", "x u", "z")],
        [value("x", (8,))],
        [value("z", (8,))],
        [constant("yes", [1], (), BOOL), constant("w", [1.0] * 8)],
    )
    read = _read(made, tmp_path)
    assert [op.type for op in read.ops] == ["If", "Add"]
    assert not read.folded


def _loop(body_input, body_output, out_shape=None):
    body = graph(
        [node("Identity", "go", "go2"), node("Exp", "v", "a"), node("Add", "a x", body_output)],
        [value("i", (), INT64), value("go", (), BOOL), body_input],
        [value("go2", (), BOOL), value(body_output, None)],
    )
    return model(
        [node("Loop", "n _ x", "y", body=body), node("Relu", "y", "z")],
        [value("n", (), INT64), value("x", (8,))],
        [value("z", out_shape)],
    )


def test_loop_counts_its_body_inputs(tmp_path):
    """Body inputs that are no captures count: the trip number, the condition and what is carried."""
    read = _read(_loop(value("v", (8,)), "v2"), tmp_path)
    assert _names(read, read.ops[0].inputs) == ["n", "x"]
    # At Exp: v, go2 and a. `i` is read by nobody, `go` dies at Identity. At Add: go2, a and v2.
    assert _inside(read) == 1 + 32 + 32
    assert read.tensor_by_id[read.ops[0].outputs[0]].size == 32


def test_loop_types_flow_into_an_undeclared_body(tmp_path):
    """A carried tensor without a shape has the one that the loop is given, if the body keeps it."""
    read = _read(_loop(value("v", None), "v2"), tmp_path)
    assert _inside(read) == 65
    assert [t.size for t in read.tensors[-2:]] == [32, 32]


def test_a_loop_that_changes_a_shape_is_refused(tmp_path):
    """What grows from one iteration to the next has no size before running."""
    body = graph(
        [node("Identity", "go", "go2"), node("Concat", "v x", "v2", axis=0)],
        [value("i", (), INT64), value("go", (), BOOL), value("v", None)],
        [value("go2", (), BOOL), value("v2", None)],
    )
    made = model(
        [node("Loop", "n _ x", "y", body=body), node("Relu", "y", "z")],
        [value("n", (), INT64), value("x", (8,))],
        [value("z", None)],
    )
    with pytest.raises(InputError, match=r"op 0 'Loop.y' \(Loop\) makes 'y', whose shape depends on data"):
        _read(made, tmp_path)


def test_scan_gives_its_body_one_slice(tmp_path):
    """A scanned input enters the body without its scanned axis."""
    body = graph(
        [node("Add", "s e", "s2"), node("Exp", "s2", "o")],
        [value("s", None), value("e", None)],
        [value("s2", None), value("o", None)],
    )
    made = model(
        [node("Scan", "x xs", "last all", body=body, num_scan_inputs=1, scan_input_axes=[1])],
        [value("x", (8,)), value("xs", (8, 5))],
        [value("last", None), value("all", None)],
    )
    read = _read(made, tmp_path)
    assert _inside(read) == 3 * 32
    assert [t.shape for t in read.tensors[-2:]] == [(8,), (5, 8)]


def test_a_body_without_shapes_is_refused_by_name_of_the_op(tmp_path):
    """The message says in which op's body the shape is missing."""
    nodes = [
        node("NonZero", "x", "k"),
        node("ReduceSum", "k", "s", keepdims=0),
        node("Cast", "s", "f", to=1),
        node("Add", "x f", "t"),
    ]
    then = graph(nodes, [], [value("t", (8,))])
    other = graph([node("Neg", "x", "e")], [], [value("e", (8,))])
    with pytest.raises(InputError, match=r"body of op 0 'If.z' \(If\): op 0 'NonZero.k' .* depends on data"):
        _read(_if(then, other), tmp_path)


def _shape_of_rank(rank):
    """Nodes that make ``c``: whether ``x``, of known shape, has so many elements."""
    return [
        node("Size", "x", "size"),
        node("Constant", "", "count", value=constant("v", [rank], (), INT64)),
        node("Equal", "size count", "c"),
    ]


def _squeezing(condition, shape, *, output=None):
    """An If as exporters of TorchScript write it: one branch takes a dimension out, the other leaves it."""
    then = graph([node("Squeeze", "x axes", "t")], [], [value("t", None)])
    other = graph([node("Identity", "x", "e")], [], [value("e", None)])
    inputs = [value("x", shape), *([] if condition else [value("c", (), BOOL)])]
    made = [*condition, node("If", "c", "z", then_branch=then, else_branch=other)]
    axes = constant("axes", [0], dtype=INT64)
    return model(made, inputs, [output or value("z", None)], [axes])


def test_an_if_makes_what_the_branch_makes_that_runs(tmp_path):
    """Where shapes say which, the other branch is none of its bodies; it need not fit."""
    read = _read(_squeezing(_shape_of_rank(8), (1, 8)), tmp_path)
    assert read.tensors[-1].shape == (8,)
    assert [body.ops[0].type for body in read.ops[-1].bodies] == ["Squeeze"]
    read = _read(_squeezing(_shape_of_rank(9), (2, 4)), tmp_path)
    assert read.tensors[-1].shape == (2, 4)
    assert [body.ops[0].type for body in read.ops[-1].bodies] == ["Identity"]


def test_an_if_makes_what_its_branches_agree_on(tmp_path):
    """Neither is declared, nor is it known which runs; where they differ a shape or other sizes are asked for."""
    then = graph([node("Neg", "x", "t")], [], [value("t", None)])
    other = graph([node("Neg", "x", "n"), node("Exp", "n", "e")], [], [value("e", None)])
    read = _read(_if(then, other, [value("z", None)]), tmp_path)
    assert read.tensors[-1].shape == (8,)
    assert len(read.ops[0].bodies) == 2
    with pytest.raises(InputError, match=r"'z', whose shape depends on which branch runs: they differ.*--shape z=A"):
        _read(_squeezing([], (1, 8)), tmp_path)
    with pytest.raises(InputError, match="whose shape depends on which branch runs"):
        _read(_squeezing([], (2, 4)), tmp_path)


def test_a_size_of_0_of_what_is_made_is_worked_out(tmp_path):
    """As some exporters write what they do not know: nothing of it is believed, and a real 0 follows from the ops."""
    read = _read(_squeezing(_shape_of_rank(8), (1, 8), output=value("z", (0,))), tmp_path)
    assert read.tensors[-1].size == 32
    empty = model([node("Relu", "x", "z")], [value("x", (0, 4))], [value("z", (0, 4))])
    assert _read(empty, tmp_path).tensors[-1].size == 0


def test_values_known_outside_decide_conditions_inside(tmp_path):
    """An If in a branch, whose condition compares what was counted outside."""
    inner = node("If", "c", "t", then_branch=graph([node("Squeeze", "x axes", "a")], [], [value("a", None)]),
                 else_branch=graph([node("Identity", "x", "b")], [], [value("b", None)]))  # fmt: skip
    then = graph([inner], [], [value("t", None)])
    other = graph([node("Flatten", "x", "f", axis=0), node("Squeeze", "f axes", "e")], [], [value("e", None)])
    made = model(
        [*_shape_of_rank(8), node("If", "d", "z", then_branch=then, else_branch=other)],
        [value("x", (1, 8)), value("d", (), BOOL)], [value("z", None)], [constant("axes", [0], dtype=INT64)],
    )  # fmt: skip
    read = _read(made, tmp_path)
    assert read.tensor_by_id[read.ops[-1].outputs[0]].shape == (8,)
    assert [len(op.bodies) for op in read.ops[-1].bodies[1].ops] == [1]
