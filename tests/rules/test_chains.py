"""Chains of elementwise ops as one kernel: no bytes for what lies between, and the same results."""

from __future__ import annotations

from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lowtide
from lowtide.analyse.liveness import profile
from lowtide.analyse.storage import memory_model
from lowtide.errors import InputError
from lowtide.graph import Graph
from lowtide.plan import Plan
from lowtide.read import read_model
from lowtide.schedule.exact import Exact
from lowtide.stop import Limits
from lowtide.target import Target, resolve
from support.onnx_builder import constant, model, node, saved, value

APART, FUSED, PROLOGUE = (resolve(f"generic,chains={word}") for word in ("apart", "fused", "prologue"))
SHAPE = (1, 4, 2, 2)
UNARY = {"Relu": lambda a: np.maximum(a, 0), "Neg": np.negative, "Exp": np.exp, "Abs": np.abs}
BINARY = {"Add": np.add, "Mul": np.multiply, "Max": np.maximum}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the networks of all examples are written."""
    return tmp_path_factory.mktemp("chains")


def _net(folder: Path, seed: int, ops: int) -> Path:
    """A random network of elementwise ops and of products between them, all of one shape."""
    rng, made, nodes = Random(seed), ["x"], []
    for k in range(ops):
        kind = rng.choice((*UNARY, *BINARY, *BINARY, "MatMul"))
        reads = [rng.choice(made[-4:])]
        if kind in BINARY:
            reads.append(rng.choice((*made[-4:], "half")))
        elif kind == "MatMul":
            reads.append("turn")
        made.append(f"t{k}")
        nodes.append(node(kind, " ".join(reads), made[-1]))
    read = {name for n in nodes for name in n.input}
    results = [value(name, SHAPE) for name in made[1:] if name not in read]
    weights = [constant("half", [0.5]), constant("turn", [0.0, 1.0, 1.0, 0.0], [2, 2])]
    return saved(model(nodes, [value("x", SHAPE)], results, weights), folder, "m.onnx")


def _spoilt(graph: Graph, plan: Plan, target: Target) -> str | None:
    """Runs a plan in one array of bytes, where what is a view of a chain's tensor is worked out when it is read."""
    constants = {"half": np.float32(0.5), "turn": np.array([[0, 1], [1, 0]], np.float32)}
    compute = {**UNARY, **BINARY, "MatMul": np.matmul}
    right: dict[int, np.ndarray] = {}
    arena = np.zeros(-(-(plan.arena_bytes or 0) // 4), np.float32)
    at = {int(t): low // 4 for t, low in (plan.offsets or {}).items()}
    for t in graph.tensors:
        if t.name in constants:
            right[t.id] = np.asarray(constants[t.name])
        elif t.id not in graph.producer:
            right[t.id] = np.random.default_rng(7).standard_normal(SHAPE).astype(np.float32)
            arena[at[t.id] : at[t.id] + 16] = right[t.id].reshape(-1)
    for op in graph.ops:
        right[op.outputs[0]] = compute[op.type](*(right[t] for t in op.inputs))
    nowhere = {op.outputs[0] for op in graph.ops if target.view_source(graph, op) is not None}

    def found(t: int) -> np.ndarray:
        if t in nowhere:
            op = graph.op_by_id[graph.producer[t]]
            return compute[op.type](*(found(read) for read in op.inputs))
        return right[t] if t not in at else arena[at[t] : at[t] + 16].reshape(SHAPE).copy()

    for v in plan.order:
        op = graph.op_by_id[v]
        if op.outputs[0] in nowhere:
            continue
        read = [found(t) for t in op.inputs]
        if any(not np.array_equal(values, right[t]) for t, values in zip(op.inputs, read, strict=True)):
            return f"{op.label} finds spoilt bytes"
        arena[at[op.outputs[0]] : at[op.outputs[0]] + 16] = compute[op.type](*read).reshape(-1)
    ends = [t.id for t in graph.tensors if t.kind.value == "output"]
    return None if all(np.array_equal(found(t), right[t]) for t in ends) else "an output is spoilt"


@pytest.mark.slow
@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 10**6), st.integers(3, 10), st.sampled_from((FUSED, PROLOGUE)))
def test_chains_run_right_inside_their_arena_and_need_no_more(folder: Path, seed: int, ops: int, target: Target):
    """The plan holds, every op finds in the array of bytes what its chain makes of it, and no best order needs more."""
    path = _net(folder, seed, ops)
    graph = read_model(path)
    plan = lowtide.research.plan(path, target=target)
    lowtide.verify(path, plan, target=target)
    assert _spoilt(graph, plan, target) is None
    apart = memory_model(graph, APART)
    assert plan.peak_bytes <= profile(apart, Exact().schedule(apart, Limits(seconds=20)).order).peak


def _nowhere(folder: Path, nodes: list, outputs: tuple[str, ...] = ("y",), target: Target = FUSED) -> set[str]:
    """Names of what is in no memory."""
    weights = [constant("half", [0.5]), constant("turn", [0.0, 1.0, 1.0, 0.0], [2, 2])]
    made = model(nodes, [value("x", SHAPE)], [value(name, SHAPE) for name in outputs], weights)
    graph = read_model(saved(made, folder, "n.onnx"))
    views = [op for op in graph.ops if target.view_source(graph, op) is not None]
    assert all(APART.view_source(graph, op) is None for op in views)
    return {graph.tensor_by_id[op.outputs[0]].name for op in views}


def test_what_a_chain_makes_between_is_nowhere(tmp_path: Path):
    """SiLU's sigmoid, and all of a GELU by tanh but its result."""
    silu = [node("Softmax", "x", "a"), node("Sigmoid", "a", "s"), node("Mul", "a s", "y")]
    assert _nowhere(tmp_path, silu) == {"s"}
    gelu = [
        node("Softmax", "x", "a"), node("Mul", "a a", "b"), node("Mul", "b a", "c"), node("Add", "a c", "d"),
        node("Tanh", "d", "e"), node("Add", "e half", "f"), node("Mul", "f a", "y"),
    ]  # fmt: skip
    assert _nowhere(tmp_path, gelu) == {"b", "c", "d", "e", "f"}


def test_what_is_in_front_of_a_product_is_its_prologue(tmp_path: Path):
    """Where the target says so, and not in front of what only moves it, whose result would be another."""
    nodes = [node("Softmax", "x", "a"), node("Relu", "a", "r"), node("MatMul", "r turn", "y"), node("Neg", "a", "z")]
    assert _nowhere(tmp_path, nodes, ("y", "z")) == set()
    assert _nowhere(tmp_path, nodes, ("y", "z"), PROLOGUE) == {"r"}
    moved = [*nodes[:2], node("Transpose", "r", "y", perm=[0, 1, 3, 2]), nodes[3]]
    assert _nowhere(tmp_path, moved, ("y", "z"), PROLOGUE) == set()


@pytest.mark.parametrize(
    ("nodes", "outputs"),
    [
        pytest.param(["Sigmoid x s", "Mul x s y"], "y", id="of a graph input"),
        pytest.param(["Softmax x a", "Sigmoid a s", "Mul a s y", "Softmax s z"], "y z", id="read twice"),
        pytest.param(["Softmax x a", "Sigmoid a s", "Mul a s y"], "y s", id="for the caller"),
        pytest.param(["Softmax x a", "Softmax a b", "Add a b s", "Relu s y"], "y", id="of two tensors"),
        pytest.param(["Softmax x a", "Sigmoid a s", "Softmax s y"], "y", id="read by rows"),
    ],
)
def test_what_others_need_is_written(tmp_path: Path, nodes: list[str], outputs: str):
    """Nothing is nowhere that somebody beside its chain reads, or that hangs on more than one tensor."""
    parts = [n.split() for n in nodes]
    made = [node(kind, " ".join(rest[:-1]), rest[-1]) for kind, *rest in parts]
    assert _nowhere(tmp_path, made, tuple(outputs.split()), PROLOGUE) == set()


def test_a_runtime_with_rules_of_its_own_has_no_such_key():
    """Its kernels are what they are."""
    with pytest.raises(InputError, match="chains is for targets without"):
        resolve("tflm,chains=fused")
    with pytest.raises(InputError, match="chains is 'some'"):
        resolve("generic,chains=some")
