"""TFLM's arena as we work it out, against what TFLM itself measures: head, tail, smallest arena."""

from __future__ import annotations

import random
import re
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lowtide
from lowtide.cli import main
from lowtide.graph import Graph
from lowtide.read.tflite.model import TfliteModel, parse_tflite
from lowtide.read.tflite.reader import graph_of, read_tflite
from lowtide.run.tflite import ask
from lowtide.runtimes.tflm.persistent import arena_parts
from lowtide.runtimes.tflm.planner import tflm_head
from lowtide.write.tflite import planned_bytes
from support.tflite_builder import SAME, Net, branches, residual, s

pytest.importorskip("tflite_micro", reason="pip install '.[tflite]'")
MODELS = Path("../shared/models/tflite")


def read(data: bytes) -> tuple[TfliteModel, Graph]:
    """Structure and graph of a file's bytes."""
    model = parse_tflite(data, "m")
    return model, graph_of(model, [], "m", "")


def measured(folder: Path, data: bytes) -> dict[str, int]:
    """What TFLM says of a file."""
    path = folder / "m.tflite"
    path.write_bytes(data)
    answer = ask("tflm", [str(path)], 0, 2, [()])
    assert "error" not in answer, answer
    return answer["measured"][0]


def unary_chain(seed: int) -> Net:
    """Float operators of one input, at random, on a tensor large enough to decide the arena."""
    draw = random.Random(seed)
    net = Net(seed)
    x = y = net.tensor((1, 16, 16, 8), "float32")
    kinds = ["RELU", "RELU6", "LOGISTIC", "TANH", "ABS", "NEG", "SQUARE", "FLOOR", "SIN", "ELU", "HARD_SWISH"]
    for _ in range(draw.randrange(1, 6)):
        y = net.unary(draw.choice(kinds), y)
    net.ends([x], [y])
    return net


def mixed(seed: int) -> Net:
    """Convolutions, poolings, additions and reshapes at random, with branches."""
    draw = random.Random(seed)
    net = Net(seed)
    x = net.tensor((1, 12, 12, 4))
    made = [x]
    for _ in range(draw.randrange(3, 9)):
        y = draw.choice(made[-3:])
        kind = draw.randrange(5)
        if kind == 0:
            y = net.conv(y, draw.choice([4, 8]))
        elif kind == 1:
            y = net.conv(y, 1, depthwise=True)
        elif kind == 2:
            y = net.pool(y, draw.choice(["AVERAGE_POOL_2D", "MAX_POOL_2D"]), (2, 2), (1, 1), SAME)
        elif kind == 3:
            y = net.add(y, y)
        else:
            y = net.unary("RELU", y)
        made.append(y)
    net.ends([x], [made[-1]])
    return net


def lstm_like(_: int) -> Net:
    """A mean, which asks for three scratch buffers, between convolutions; and a variable that nobody reads."""
    net = Net()
    x = net.tensor((1, 8, 8, 4))
    y = net.conv(x, 8)
    axes = net.tensor((2,), "int32", [1, 2], scale=0.0)
    o = s.ReducerOptionsT()
    o.keepDims = True
    mean = net.like(y, (1, 1, 1, 8))
    net.op("MEAN", [y, axes], [mean], o)
    net.tensor((40,), "int8", variable=True)
    idle = net.tensor((1, 300), "int8")
    assert idle
    net.ends([x], [net.conv(mean, 8, (1, 1))])
    return net


def branching(_: int) -> Net:
    """An IF whose two subgraphs have operators of their own, placed in scopes of their own."""
    net = Net()
    condition, x = net.tensor((1,), "bool"), net.tensor((1, 8, 8, 4), "float32")
    a, y = net.unary("RELU", x), net.tensor((1, 8, 8, 4), "float32")
    o = s.IfOptionsT()
    o.thenSubgraphIndex, o.elseSubgraphIndex = 1, 2
    net.op("IF", [condition, a], [y], o)
    net.ends([condition, x], [net.unary("ABS", y)])
    for kinds in (("SQUARE", "FLOOR"), ("NEG",)):
        net.subgraph()
        given = made = net.tensor((1, 8, 8, 4), "float32")
        for kind in kinds:
            made = net.unary(kind, made)
        net.ends([given], [made])
    return net


def body_with_scratch(count: int) -> Net:
    """An IF whose first body takes means, `count` of them, each with scratch of its own, over an image as large as
    all the rest; the other one is one operator. (TFLM crashes where a subgraph that nothing runs asks for scratch.)"""
    net = Net(count)
    condition, x = net.tensor((1,), "bool"), net.tensor((1, 8, 8, 4), "float32")
    y = net.tensor((1, 8, 8, 4), "float32")
    o = s.IfOptionsT()
    o.thenSubgraphIndex, o.elseSubgraphIndex = 1, 2
    net.op("IF", [condition, net.unary("RELU", x)], [y], o)
    net.ends([condition, x], [net.unary("ABS", y)])
    for means in (count, 0):
        net.subgraph()
        given = made = net.tensor((1, 8, 8, 4), "float32")
        for _ in range(means):
            axes = net.tensor((2,), "int32", np.array([1, 2], np.int32))
            o = s.ReducerOptionsT()
            o.keepDims = True
            mean = net.tensor((1, 1, 1, 4), "float32")
            net.op("MEAN", [made, axes], [mean], o)
            made = net.add(made, made)
        net.ends([given], [net.unary("NEG", made)])
    return net


NETS: list[Any] = [
    pytest.param(residual, 8, id="residual"),
    pytest.param(branches, 3, id="branches"),
    *(pytest.param(unary_chain, k, id=f"unary{k}") for k in range(3)),
    *(pytest.param(mixed, k, id=f"mixed{k}") for k in range(6)),
    pytest.param(lstm_like, 0, id="scratch"),
    pytest.param(branching, 0, id="subgraphs"),
    *(pytest.param(body_with_scratch, k, id=f"scratch in a body {k}") for k in (1, 2, 5)),
]


@pytest.mark.slow
@pytest.mark.parametrize(("make", "argument"), NETS)
def test_the_parts_are_those_that_tflm_reports(tmp_path: Path, make: Any, argument: int):
    """Head, tail and smallest arena of the unmodified file, to the byte where it is said to be exact."""
    data = make(argument).bytes()
    model, graph = read(data)
    seen = measured(tmp_path, data)
    head = tflm_head(model, graph, graph.own_order)
    parts = arena_parts(model, graph, graph.own_order)
    assert head is not None
    assert head.bytes == seen["head_bytes"]
    assert parts.persistent_bytes == seen["tail_bytes"]
    assert parts.exact or parts.optional_bytes
    off = parts.smallest_arena(head.bytes) - seen["smallest_arena_bytes"]
    assert off == 0 if parts.exact_for(head.bytes) else 0 <= off <= 32


@pytest.mark.slow
def test_what_bodies_take_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """In the plan, its arena and in what inspect says: the arenas are equal, and above the peak."""
    path = tmp_path / "m.tflite"
    path.write_bytes(body_with_scratch(2).bytes())
    plan = lowtide.research.plan(path, target="tflm,pointer=32")
    assert plan.runtime_parts is not None
    body = plan.runtime_parts.bodies["1"]
    image = 8 * 8 * 4 * 4
    assert 2 * image <= body <= 4 * image
    seen = lowtide.inspect(path, target="tflm,pointer=32")
    assert seen.arena_bytes == plan.arena_bytes
    assert plan.arena_bytes is not None
    assert plan.arena_bytes >= plan.peak_bytes + image
    words = rf"\(IF\) runs a subgraph of {body:,} B, which TFLM places itself"
    for command in (["research", "plan"], ["inspect"]):
        assert main([*command, str(path), "--set", "pointer=32"]) == 0
        assert re.search(words, capsys.readouterr().out)
    plain = tmp_path / "p.tflite"
    plain.write_bytes(residual().bytes())
    assert not lowtide.inspect(plain).bodies


@pytest.mark.slow
def test_handles_of_variables_are_not_in_the_head(tmp_path: Path):
    """VAR_HANDLE keeps the number of its variable to itself; what TFLM keeps for variables is told, a little more."""
    net = Net()
    x = net.tensor((1, 8, 8, 4))
    handle = net.tensor((1,), "resource", scale=0.0)
    named = s.VarHandleOptionsT()
    named.sharedName, named.container = "v", ""
    net.op("VAR_HANDLE", [], [handle], named)
    before, after = net.like(x), net.like(x)
    net.op("READ_VARIABLE", [handle], [before], s.ReadVariableOptionsT())
    net.op("ASSIGN_VARIABLE", [handle, net.add(x, before)], [], s.AssignVariableOptionsT())
    net.op("READ_VARIABLE", [handle], [after], s.ReadVariableOptionsT())
    net.ends([x], [net.add(after, x)])
    data = net.bytes()
    model, graph = read(data)
    head = tflm_head(model, graph, graph.own_order)
    assert head is not None
    seen = measured(tmp_path, data)
    assert head.bytes == seen["head_bytes"] == 768
    assert handle not in head.offsets
    assert 0 <= arena_parts(model, graph, graph.own_order).persistent_bytes - seen["tail_bytes"] <= 32


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_the_head_with_an_offline_plan_for_some_tensors(tmp_path: Path, seed: int):
    """TFLM puts the others around those whose offset is given, wherever that is."""
    net = mixed(seed + 10)
    data = net.bytes()
    model, graph = read(data)
    draw = random.Random(seed)
    free = tflm_head(model, graph, graph.own_order)
    assert free is not None
    offsets = {t: at + draw.choice([0, 16, 4096]) for t, at in free.offsets.items() if draw.random() < 0.5}
    listed = [offsets.get(i, -1) for i in range(len(model.subgraphs[0].tensors))]
    head = tflm_head(model, graph, graph.own_order, listed)
    assert head is not None
    planned = planned_bytes(data, graph.own_order, offsets, "m")
    assert head.bytes == measured(tmp_path, planned)["head_bytes"]


@pytest.mark.slow
def test_idle_tensors_larger_than_the_plan_lose_their_elements(tmp_path: Path):
    """TFLM gives memory to tensors that nothing touches; smaller ones lie under the plan."""
    from lowtide import api

    net = residual(8)
    net.tensor((1, 64, 64, 16))
    net.tensor((1, 4, 4, 2))
    path, out = tmp_path / "m.tflite", tmp_path / "out.tflite"
    path.write_bytes(net.bytes())
    made = api.plan(path, target="tflm,kernels=reference")
    assert made.runtime_parts is not None
    assert made.runtime_parts.own_planned == 65536 + 32
    assert (made.arena_bytes or 0) < 4096
    made.apply(path, out)
    seen = measured(tmp_path, out.read_bytes())
    assert (seen["head_bytes"], seen["smallest_arena_bytes"]) == (made.arena_bytes, made.required_bytes)


@pytest.mark.slow
@pytest.mark.parametrize("depthwise", [False, True])
def test_8_bit_weights_of_floats_are_refused(tmp_path: Path, depthwise: bool):
    """By TFLM when it starts; here no figure is called exact, and the operator is named."""
    net = Net()
    x = net.tensor((1, 8, 8, 4), "float32")
    y = net.conv(x, 2, depthwise=depthwise)
    net.ends([x], [y])
    whole = arena_parts(*read_and_order(net.bytes()))
    assert whole.exact
    operator = net.graph.operators[0]
    old = net.graph.tensors[operator.inputs[1]]
    operator.inputs[1] = net.tensor(tuple(old.shape), "int8", [1] * prod(old.shape))
    parts = arena_parts(*read_and_order(net.bytes()))
    kind = "DEPTHWISE_CONV_2D" if depthwise else "CONV_2D"
    assert (parts.exact, parts.unknown) == (False, (f"{kind} of floats with int8 weights, which TFLM refuses",))
    path = tmp_path / "m.tflite"
    path.write_bytes(net.bytes())
    assert "error" in ask("tflm", [str(path)], 0, 2, [()])


def read_and_order(data: bytes) -> tuple[TfliteModel, Graph, tuple[int, ...]]:
    """What `arena_parts` takes, for the unmodified file."""
    model, graph = read(data)
    return model, graph, tuple(graph.own_order)


@pytest.mark.slow
@pytest.mark.skipif(not MODELS.is_dir(), reason="needs ../shared/models/tflite")
@pytest.mark.parametrize("path", sorted(MODELS.glob("*.tflite")), ids=lambda path: path.stem)
def test_the_parts_of_real_models(tmp_path: Path, path: Path):
    """Real files: all three figures to the byte."""
    data = path.read_bytes()
    model, graph = parse_tflite(data, str(path)), read_tflite(path)
    seen = measured(tmp_path, data)
    head = tflm_head(model, graph, graph.own_order)
    parts = arena_parts(model, graph, graph.own_order)
    assert head is not None
    assert (head.bytes, parts.persistent_bytes) == (seen["head_bytes"], seen["tail_bytes"]), path.name
    assert parts.exact_for(head.bytes)
    assert parts.smallest_arena(head.bytes) == seen["smallest_arena_bytes"], path.name
