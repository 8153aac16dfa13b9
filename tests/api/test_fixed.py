import json
from pathlib import Path
from random import Random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lowtide
from lowtide.cli import main
from lowtide.errors import InputError, VerificationError
from lowtide.graph import Graph, Kind
from lowtide.target import BUILT_IN, Target, resolve
from lowtide.verify.check.memory import work_out
from lowtide.verify.check.plan import verify_plan
from support.random_graphs import random_graph
from support.small_models import branches, graph_file, op, tensor


def graph_of(folder: Path) -> Graph:
    """Two branches of 100 bytes."""
    return lowtide.load(graph_file(folder, branches()))


def test_a_tensor_lies_where_it_is_fixed(tmp_path: Path):
    """The others make way; the arena reaches to its end, with the same peak."""
    graph = graph_of(tmp_path)
    plan = lowtide.research.plan(graph, target="strict", fixed={"t0": 4, "t5": 0})
    assert (plan.offset_of(0), plan.offset_of(5)) == (4, 0)
    assert plan.fixed == {"t0": 4, "t5": 0}
    assert plan.peak_bytes == 109
    high = lowtide.research.plan(graph, target="strict", fixed={"t0": 300})
    assert (high.arena_bytes, high.arena_optimal) == (308, True)


def test_verify_looks_where_it_lies(tmp_path: Path):
    """A plan that puts it elsewhere does not hold under the target that fixes it."""
    graph = graph_of(tmp_path)
    rules = resolve("strict", fixed={"t0": 200})
    report = verify_plan(graph, lowtide.research.plan(graph, target=rules), rules)
    assert "1 tensors at their fixed offsets" in [c.result for c in report.checks]
    with pytest.raises(VerificationError, match=r"fixed: t0 is at \d+, and has to be at 200"):
        verify_plan(graph, msgspec.structs.replace(lowtide.research.plan(graph, target="strict"), rules=None), rules)


def test_in_place_follows_what_is_fixed(tmp_path: Path):
    """An output may go over a fixed input and so lies there too; a fixed output goes over nothing."""
    relu = {
        "name": "relu",
        "tensors": [tensor(0, 64, "input"), tensor(1, 64), tensor(2, 64), tensor(3, 8, "output")],
        "ops": [op(0, [0], [1]), op(1, [1], [2]) | {"type": "Relu"}, op(2, [2], [3])],
    }
    graph = lowtide.load(graph_file(tmp_path, relu))
    over = lowtide.research.plan(graph, fixed={"t1": 256})
    assert over.in_place == [(2, 1)]
    assert (over.offset_of(1), over.offset_of(2)) == (256, 256)
    under = lowtide.research.plan(graph, fixed={"t2": 256})
    assert under.in_place == []
    assert under.offset_of(2) == 256


def test_in_several_memories(tmp_path: Path):
    """It is an offset in the first memory, or in the first one that the tensor may lie in."""
    graph = graph_of(tmp_path)
    banks = {"fast": 300, "slow": 300}
    first = lowtide.research.plan(graph, target="strict", banks=banks, fixed={"t1": 40})
    assert {(r.memory, r.offset) for r in first.residency or [] if r.tensor == 1} == {("fast", 40)}
    other = lowtide.research.plan(graph, target="strict", banks=banks, fixed={"t1": 40}, places={"t1": "slow"})
    assert {(r.memory, r.offset) for r in other.residency or [] if r.tensor == 1} == {("slow", 40)}


def test_what_cannot_be_fixed(tmp_path: Path):
    """No such tensor, no multiple of the alignment, two in one place, a runtime with rules of its own."""
    graph = graph_of(tmp_path)
    for fixed, target, said in (
        ({"t9": 0}, "strict", "'t9' is no tensor"),
        ({"t0": 8}, "generic", "must be a multiple of 64"),
        ({"t1": 0, "t0": 4}, "strict", "cannot be at its fixed offset"),
        ({"t0": 0}, "onnxruntime", "fix none"),
    ):
        with pytest.raises(InputError, match=said):
            lowtide.research.plan(graph, target=target, fixed=fixed)
    with pytest.raises(InputError, match="write TENSOR=OFFSET"):
        Target("mine", fixed=("t0",))
    rules = resolve(Target("mine", fixed=("t0=4", "t1=8")), fixed={"t0": 64})
    assert rules.fixed == ("t1=8", "t0=64")


def test_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """Decimal or hexadecimal; verify takes the plan; said twice, or no offset, is refused."""
    path, plan_file = graph_file(tmp_path, branches()), tmp_path / "p.json"
    assert main(["research", "plan", str(path), "--fix", "t0=0x100", "--fix", "t5=0", "--plan", str(plan_file)]) == 0
    made = json.loads(plan_file.read_text())
    assert (made["offsets"]["0"], made["offsets"]["5"]) == (256, 0)
    assert main(["verify", str(path), str(plan_file)]) == 0
    for wrong in (["t0=1", "t0=2"], ["t0"], ["t0=-4"], ["t0=0xg"], ["=4"], ["t0=99999999999999999999"]):
        options = [part for text in wrong for part in ("--fix", text)]
        assert main(["research", "plan", str(path), *options]) == 2
    assert capsys.readouterr().err.count("\n") == 7


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from(["strict", "generic", "hmcos"]), st.data())
def test_random_models_with_a_fixed_tensor(seed: int, target: str, data: st.DataObject):
    """Wherever one tensor is fixed, the plan holds, and the peak is as it was but for what it may not overwrite."""
    graph = random_graph(Random(seed), 7)
    free = lowtide.research.plan(graph, target=target)
    names = [t.name for t in graph.tensors if t.kind is not Kind.CONSTANT and str(t.id) in (free.offsets or {})]
    if not names:
        return
    name = data.draw(st.sampled_from(names))
    offset = data.draw(st.integers(0, 200)) * BUILT_IN[target].alignment
    tensor_id = next(t.id for t in graph.tensors if t.name == name)
    rules = resolve(target, fixed={name: offset})
    start = offset - work_out(graph, rules).place[tensor_id][1]
    if start < 0 or start % rules.alignment:  # a part of a storage, which would begin elsewhere
        with pytest.raises(InputError, match="is fixed at"):
            lowtide.research.plan(graph, target=rules)
        return
    plan = lowtide.research.plan(graph, target=target, fixed={name: offset})
    assert plan.offset_of(tensor_id) == offset
    assert plan.peak_bytes >= free.peak_bytes
    assert lowtide.verify(graph, plan)
