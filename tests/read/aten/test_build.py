"""The builder of ATen graphs on a trace that no file held."""

from __future__ import annotations

from lowtide.graph import Kind
from lowtide.read.aten.build import build
from lowtide.read.aten.trace import Call, Form, Ref, Trace


def _form(*shape: int) -> Form:
    strides = [1]
    for n in reversed(shape[1:]):
        strides.insert(0, strides[0] * n)
    return Form(shape, tuple(strides), 0, "float32", 4, ("cpu", None))


def test_a_trace_becomes_a_graph() -> None:
    """Inputs first, weights as constants, views as aliases, arguments by the schema's names."""
    calls = (
        Call("torch.ops.aten.mm.default", (("self", Ref("x")), ("mat2", Ref("w"))), ("y",)),
        Call("torch.ops.aten.view.default", (("self", Ref("y")), ("size", (8,))), ("v",)),
        Call("torch.ops.aten.relu_.default", (("self", Ref("v")),), ("r",)),
    )
    forms = {"x": _form(2, 3), "w": _form(3, 4), "y": _form(2, 4), "v": _form(8), "r": _form(8)}
    graph = build(Trace("g", ("x", "w"), ("r",), calls, forms), {"w"}, "memory")
    assert [(t.name, t.size, t.kind, t.alias_of) for t in graph.tensors] == [
        ("x", 24, Kind.INPUT, None),
        ("w", 48, Kind.CONSTANT, None),
        ("y", 32, Kind.ACTIVATION, None),
        ("v", 32, Kind.ACTIVATION, 2),
        ("r", 32, Kind.OUTPUT, 2),
    ]
    assert [(op.type, op.operands, dict(op.attributes)) for op in graph.ops] == [
        ("aten.mm.default", (0, 1), {"operand_names": ("self", "mat2")}),
        ("aten.view.default", (2,), {"size": (8,), "operand_names": ("self",)}),
        ("aten.relu_.default", (3,), {"operand_names": ("self",)}),
    ]
    assert (graph.dialect, graph.ops[2].after) == ("aten", (0, 1))
