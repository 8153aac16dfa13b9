"""ONNX models in which ops run again: written, run, and equal to the bit."""

from __future__ import annotations

from pathlib import Path
from random import Random

import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

import lowtide
from lowtide.analyse.storage import memory_model
from lowtide.errors import InputError, VerificationError
from lowtide.optimize.recompute.sequence import sequenced
from lowtide.plan import Plan
from lowtide.rewrites import Recompute
from lowtide.target import BUILT_IN
from lowtide.transform.runs import apply, as_parts
from lowtide.write.onnx_parts import write_onnx_parts
from support.command import Captured, run
from support.onnx_builder import model, node, saved, value
from support.sequences import graph_file, held_or_made_again

pytest.importorskip("onnxruntime", reason="what is written is run in onnxruntime, which is not installed")
from support.part_runs import feeds, session


def early_and_late() -> ModelProto:
    """`s` is cheap, large, and read at both ends of what needs the room."""
    rng = np.random.default_rng(0)
    weights = [
        numpy_helper.from_array(rng.standard_normal(shape).astype(np.float32), name)
        for name, shape in (("q", (4, 64)), ("w", (256, 8)), ("v", (72, 4)))
    ]
    nodes = [
        node("MatMul", "x q", "s"), node("Relu", "s", "u"), node("Concat", "u u u u", "a", axis=1),
        node("MatMul", "a w", "c"), node("Concat", "c s", "d", axis=1), node("MatMul", "d v", "y"),
    ]  # fmt: skip
    return model(nodes, [value("x", (32, 4))], [value("y", (32, 4))], weights)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """It as a file."""
    return saved(early_and_late(), tmp_path)


def planned(path: Path) -> Plan:
    """Its plan, in which the first product runs twice."""
    return lowtide.research.plan(path, target="strict", allow="recompute", max_overhead="20%", time=1)


@pytest.mark.slow
def test_a_clone_is_a_node_and_the_rest_is_as_it_was(path: Path) -> None:
    """Bit-equal in onnxruntime, by the command too; weights byte for byte."""
    plan, out = planned(path), path.parent / "out.onnx"
    assert [r.of for r in plan.rewrites or () if isinstance(r, Recompute)] == [0]
    lowtide.apply(plan, path, out)
    before, after = onnx.load(path), onnx.load(out)
    onnx.checker.check_model(after, full_check=True)
    assert [n.op_type for n in after.graph.node] == ["MatMul", "Relu", "Concat", "MatMul", "MatMul", "Concat", "MatMul"]
    assert after.graph.node[4].input == before.graph.node[0].input
    assert after.graph.node[5].input[1] == after.graph.node[4].output[0] != "s"
    assert after.graph.initializer == before.graph.initializer
    report = lowtide.run(path, out, plan)
    assert all(output.equal and not output.vacuous and output.exactness == "bits" for output in report.outputs)


@pytest.mark.slow
def test_the_command_writes_and_verifies(path: Path, capsys: Captured) -> None:
    """`-o`, then `verify --run`, which writes it once more."""
    out, file = path.parent / "o.onnx", path.parent / "p.json"
    words = ("--target", "strict", "--allow", "recompute", "--max-overhead", "20%", "--time", "1")
    assert run(capsys, "research", "plan", path, *words, "-o", out, "--plan", file)[0] == 0
    assert len(onnx.load(out).graph.node) == 7
    status, text, _ = run(capsys, "verify", path, file, "--run")
    assert status == 0
    assert "bit for bit" in text or "equal" in text


@pytest.mark.slow
def test_a_file_that_is_not_the_plans_is_refused(path: Path) -> None:
    """Another attribute, another op, another order, a node too many."""
    plan, out = planned(path), path.parent / "out.onnx"
    lowtide.apply(plan, path, out)
    for change in (_another_axis, _another_type, _turned, _one_more):
        changed = onnx.load(out)
        change(changed)
        other = path.parent / "other.onnx"
        onnx.save(changed, other)
        with pytest.raises(VerificationError) as error:
            lowtide.run(path, other, plan)
        assert error.value.failure == "run"


def _another_axis(changed: ModelProto) -> None:
    changed.graph.node[5].attribute[0].i = -1


def _another_type(changed: ModelProto) -> None:
    changed.graph.node[1].op_type = "Abs"


def _turned(changed: ModelProto) -> None:
    nodes = list(changed.graph.node)
    del changed.graph.node[:]
    changed.graph.node.extend([*nodes[:3], nodes[4], nodes[3], *nodes[5:]])


def _one_more(changed: ModelProto) -> None:
    changed.graph.node.append(node("Relu", "y", "z"))


@pytest.mark.slow
def test_a_plan_that_was_changed_by_hand_is_not_written(path: Path) -> None:
    """Its rewrites are made again from its order; and only ONNX files are written."""
    import msgspec

    plan = planned(path)
    (clone,) = plan.rewrites or ()
    for changes in (
        {"rewrites": [msgspec.structs.replace(clone, readers=[5])]},
        {"order": [*plan.order[:-1], 99]},
    ):
        with pytest.raises(InputError, match="plan the model again"):
            lowtide.apply(msgspec.structs.replace(plan, **changes), path, path.parent / "o.onnx")


def test_other_formats_are_not_written(tmp_path: Path, capsys: Captured) -> None:
    """Graph JSON has its ops once: the plan says the rest."""
    path = graph_file(held_or_made_again(), tmp_path)
    words = ("--target", "strict", "--allow", "recompute", "--budget", "75%", "--time", "1", "-o")
    status, _, error = run(capsys, "research", "plan", path, *words, tmp_path / "o.graph.json")
    assert status == 2
    assert "only ONNX files" in error
    assert not (tmp_path / "o.graph.json").exists()


def random_net(rng: Random, ops: int) -> ModelProto:
    """Sums and products of matrices of one shape, some of them results."""
    names, nodes = ["x"], []
    for i in range(ops):
        kind = rng.choice(("Relu", "Add", "Mul", "Split"))
        reads = " ".join(rng.choice(names[-4:]) for _ in range(1 if kind in ("Relu", "Split") else 2))
        if kind == "Split":
            nodes += [
                node("Split", reads, f"p{i} q{i}", axis=0, num_outputs=2),
                node("Concat", f"q{i} p{i}", f"t{i}", axis=0),
            ]
        else:
            nodes.append(node(kind, reads, f"t{i}"))
        names.append(f"t{i}")
    results = sorted({rng.choice(names[1:]), names[-1]})
    declared = [value(name, (4, 4)) for name in results]
    return model(nodes, [value("x", (4, 4))], declared)


@pytest.mark.parametrize("seed", range(6))
def test_any_sequence_gives_the_same_bits(seed: int, tmp_path: Path) -> None:
    """Of random nets, ops of several outputs among them, some run three times and more."""
    rng = Random(seed)
    path = saved(random_net(rng, 10), tmp_path)
    graph = lowtide.load(path)
    problem = sequenced(memory_model(graph, BUILT_IN["strict"]), range(len(graph.ops)))
    order, _ = problem.core().shuffle(range(len(graph.ops)), 60, seed)[-1]
    runs = apply(graph, order)
    assert len(runs.order) > len(graph.ops)
    out = tmp_path / "out.onnx"
    write_onnx_parts(path, as_parts(graph, runs), runs.order, out)
    onnx.checker.check_model(onnx.load(out), full_check=True)
    given = feeds(path, seed)
    for one, other in zip(session(path).run(None, given), session(out).run(None, given), strict=True):
        assert np.array_equal(one, other)


@pytest.mark.slow
def test_a_body_that_reads_what_is_made_again_is_refused(tmp_path: Path) -> None:
    """Names in bodies stay as they are, so that the plan alone is written."""
    body = helper.make_graph([node("Concat", "c s", "e", axis=1)], "then", [], [value("e", (32, 72))])
    other = helper.make_graph([node("Concat", "c s", "f", axis=1)], "else", [], [value("f", (32, 72))])
    whole = early_and_late()
    chosen = helper.make_node("If", ["k"], ["d"], name="If.d", then_branch=body, else_branch=other)
    nodes = list(whole.graph.node)
    del whole.graph.node[:]
    whole.graph.node.extend([*nodes[:4], chosen, nodes[5]])
    whole.graph.input.append(value("k", (), TensorProto.BOOL))
    path = saved(whole, tmp_path)
    plan = lowtide.research.plan(path, target="strict", allow="recompute", max_overhead="20%", time=1)
    assert plan.rewrites
    with pytest.raises(InputError, match="body"):
        lowtide.apply(plan, path, tmp_path / "o.onnx")
