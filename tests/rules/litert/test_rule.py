"""LiteRT's memory rules, each seen in the runtime: who shares, who stays, what is unfolded, how large the arena is."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from lowtide import api
from lowtide.analyse.storage import memory_model
from lowtide.graph import Kind
from lowtide.run.tflite import ask
from lowtide.runtimes.litert import litert_arena
from lowtide.target import BUILT_IN
from support.tflite_builder import SAME, Net, branches, graph_from, residual, s

litert: Any = pytest.importorskip("ai_edge_litert.interpreter", reason="pip install '.[tflite]'")
TFLITE = BUILT_IN["tflite"]


def addresses(data: bytes) -> dict[int, int]:
    """Where LiteRT puts each tensor."""
    kind = litert.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    session = litert.Interpreter(model_content=data, experimental_op_resolver_type=kind, num_threads=1)
    session.allocate_tensors()
    found = {}
    for d in session.get_tensor_details():
        try:
            found[d["index"]] = session.tensor(d["index"])().__array_interface__["data"][0]
        except ValueError:
            continue
    return found


def between(kind: str, options: Any = None, *, inputs: int = 1, more: tuple[int, ...] = (), uses: int = 1) -> Net:
    """An operator between others, so that neither its inputs nor its output are the graph's."""
    net = Net()
    x = net.tensor((1, 6, 6, 4), "float32")
    a = [net.pool(x, "AVERAGE_POOL_2D", (1, 1), (1, 1)) for _ in range(inputs)]
    extra = [net.tensor((len(more),), "int32", more, scale=0.0)] if more else []
    b = net.like(a[0])
    net.op(kind, [*a, *extra], [b], options)
    outs = [net.unary("ABS", b)] + [net.unary("NEG", a[0]) for _ in range(uses - 1)]
    net.ends([x], outs)
    return net


def softmax() -> Any:
    """Its options."""
    o = s.SoftmaxOptionsT()
    o.beta = 1.0
    return o


CASES = {
    "ADD": between("ADD", s.AddOptionsT(), inputs=2),
    "SUB": between("SUB", s.SubOptionsT(), inputs=2),
    "MUL": between("MUL", s.MulOptionsT(), inputs=2),
    "DIV": between("DIV", s.DivOptionsT(), inputs=2),
    "SOFTMAX": between("SOFTMAX", softmax()),
    "RESHAPE": between("RESHAPE", more=(1, 6, 6, 4)),
    "ADD, input read twice": between("ADD", s.AddOptionsT(), inputs=2, uses=2),
    "SOFTMAX, input read twice": between("SOFTMAX", softmax(), uses=2),
    "RESHAPE, input read twice": between("RESHAPE", more=(1, 6, 6, 4), uses=2),
    "MAXIMUM": between("MAXIMUM", s.MaximumMinimumOptionsT(), inputs=2),
    "SQUARED_DIFFERENCE": between("SQUARED_DIFFERENCE", s.SquaredDifferenceOptionsT(), inputs=2),
    "RELU": between("RELU"),
    "LOGISTIC": between("LOGISTIC"),
    "TANH": between("TANH"),
    "ABS": between("ABS"),
    "EXP": between("EXP"),
    "TRANSPOSE": between("TRANSPOSE", more=(0, 1, 2, 3)),
}


@pytest.mark.parametrize("net", CASES.values(), ids=CASES)
def test_who_shares(net: Net):
    """An output has an input's address exactly where the rule says so."""
    data = net.bytes()
    graph, at = graph_from(data), addresses(data)
    for op in graph.ops:
        source = TFLITE.view_source(graph, op)
        shared = [
            t for t in op.inputs if graph.tensor_by_id[t].kind is not Kind.CONSTANT and at[t] == at[op.outputs[0]]
        ]
        assert shared == ([] if source is None else [source]), op


def test_graph_inputs_and_outputs_have_memory_of_their_own():
    """A reshape from the one to the other copies."""
    net = Net()
    x = net.tensor((4, 4), "float32")
    net.ends([x], [net.reshape(x, (16,))])
    data = net.bytes()
    at = addresses(data)
    graph = graph_from(data)
    assert TFLITE.view_source(graph, graph.ops[0]) is None
    assert at[graph.ops[0].outputs[0]] != at[x]


def mixed(seed: int) -> Net:
    """Operators of all kinds at random, with branches and tensors that nobody reads."""
    draw = random.Random(seed)
    net = Net(seed)
    x = net.tensor((1, 10, 10, 4), "float32")
    made = [x]
    for _ in range(draw.randrange(3, 14)):
        y = draw.choice(made[-4:])
        kind = draw.randrange(7)
        if kind == 0:
            y = net.conv(y, 4, draw.choice([(1, 1), (3, 3)]))
        elif kind == 1:
            y = net.conv(y, 1, depthwise=True)
        elif kind == 2:
            y = net.pool(y, "MAX_POOL_2D", (2, 2), (1, 1), SAME)
        elif kind == 3:
            z = draw.choice(made[-4:])
            out = net.like(y)
            net.op("ADD", [y, z], [out], s.AddOptionsT())
            y = out
        elif kind == 4:
            y = net.unary("RELU", y)
        elif kind == 5:
            y = net.reshape(y, net.shape(y))
        else:
            y = net.unary("SOFTMAX", y, softmax())
        made.append(y)
    net.ends([x], sorted({made[-1], draw.choice(made[1:])}))
    return net


@pytest.mark.slow
@pytest.mark.parametrize("net", [residual(8), branches(3), *(mixed(k) for k in range(12))], ids=lambda _: "net")
def test_the_arena_is_as_large_as_predicted(tmp_path: Path, net: Net):
    """To the byte, temporary tensors of convolutions included."""
    data = net.bytes()
    graph = graph_from(data)
    path = tmp_path / "m.tflite"
    path.write_bytes(data)
    tensors = [t.id for t in graph.tensors if t.kind is not Kind.CONSTANT]
    answer = ask("litert", [str(path)], 0, 2, [tensors])
    found = litert_arena(memory_model(graph, TFLITE), range(len(graph.ops)))
    assert found.bytes == answer["measured"][0]["arena_bytes"]


@pytest.mark.slow
def test_plans_are_measured_as_planned(tmp_path: Path):
    """`verify --run` under target tflite: LiteRT's arena is that of the plan, and not above the original's."""
    path = tmp_path / "m.tflite"
    path.write_bytes(branches().bytes())
    made = api.plan(path, target="tflite")
    seen = api.verify(path, made, run=True).run
    run: Any = seen
    assert run.litert.planned_bytes == made.runtime_arena_bytes == made.required_bytes
    assert run.litert.planned_bytes < run.litert.original_bytes
