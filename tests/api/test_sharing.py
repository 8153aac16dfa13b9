import json
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lowtide
from lowtide.api.job import Job
from lowtide.api.sharing import Shared, share, shared_map
from lowtide.cli import main
from lowtide.errors import InputError, VerificationError
from lowtide.graph import Graph, Kind, Op, Tensor
from lowtide.plan import Plan
from lowtide.report.allocation_table import live_bytes
from lowtide.target import BUILT_IN, resolve
from lowtide.verify.check.plan import verify_plan
from lowtide.verify.check.shared import check_shared
from lowtide.write.graph_json import graph_json_bytes
from support.onnx_builder import model as onnx_model
from support.onnx_builder import node, saved, value
from support.random_graphs import random_graph
from support.small_models import branches, graph_file, op, tensor

STRICT = BUILT_IN["strict"]


def chain(name: str, sizes: list[int]) -> Graph:
    """A graph in which each op reads the tensor before; tensors are named after the graph."""
    last = len(sizes) - 1
    kinds = [Kind.INPUT, *[Kind.ACTIVATION] * (last - 1), Kind.OUTPUT]
    tensors = tuple(Tensor(i, size, kinds[i], f"{name}{i}") for i, size in enumerate(sizes))
    return Graph(name, tensors, tuple(Op(i, (i,), (i + 1,)) for i in range(last)))


def test_models_in_turn_use_the_same_bytes():
    """The larger of two arenas; apart they would take the sum; each plan holds with its offsets there."""
    a, b = chain("a", [8, 16, 4]), chain("b", [4, 4, 4])
    found = share([a, b], target="strict")
    assert (found.arena_bytes, found.lower_bound_bytes, found.optimal, found.separate_bytes) == (24, 24, True, 32)
    assert [(m.name, m.alone_bytes) for m in found.models] == [("a", 24), ("b", 8)]
    for graph, member in zip((a, b), found.models, strict=True):
        assert member.plan.arena_bytes == 24
        assert lowtide.verify(graph, member.plan)


def test_what_is_persistent_lies_side_by_side():
    """A state of each model, one of them double-buffered: 4 and 8 bytes that nothing else touches."""
    a, b = chain("a", [8, 16, 4]), chain("b", [4, 4, 4])
    found = share([a, b], target="strict", persistent=["a2"], double_buffered=["b0"])
    assert found.persistent_bytes == 4 + 8
    assert found.arena_bytes == 24 + 4 + 8 == found.lower_bound_bytes
    rules = [resolve("strict", persistent=["a2"]), resolve("strict", double_buffered=["b0"])]
    members = [(g, m.plan, t) for g, m, t in zip((a, b), found.models, rules, strict=True)]
    assert check_shared(members) == "2 persistent tensors, none written by another model"
    moved = msgspec.structs.replace(found.models[1].plan, offsets=dict.fromkeys(("0", "1", "2"), 0))
    state = found.models[0].plan.offset_of(2) or 0
    assert moved.offsets is not None
    moved.offsets["2"] = state
    with pytest.raises(VerificationError, match=r"shared: b2 of b at .* overlaps a2 of a"):
        check_shared([members[0], (b, moved, rules[1])])
    with pytest.raises(VerificationError, match="arenas of"):
        check_shared([members[0], (b, msgspec.structs.replace(found.models[1].plan, arena_bytes=99), rules[1])])


@pytest.mark.parametrize(("budget", "status", "code"), [(28, "ok", 0), (27, "impossible", 4)])
def test_a_budget(budget: int, status: str, code: int):
    """The bound counts what the other model keeps."""
    a, b = chain("a", [8, 16, 4]), chain("b", [4, 4, 4])
    found = share([a, b], target="strict", persistent=["b1"], budget=budget)
    assert (found.arena_bytes, found.status, found.exit_status) == (28, status, code)


def test_a_wrong_call():
    """One model, a name that no model has, a target with an arena of its own."""
    a, b = chain("a", [8, 16, 4]), chain("b", [4, 4, 4])
    for models, more, said in (
        ([a], {}, "two models or more"),
        ([a, b], {"persistent": ["c0"]}, "'c0' is a tensor of none of the models"),
        ([a, b], {"target": "onnxruntime"}, "has its own arena"),
    ):
        with pytest.raises(InputError, match=said):
            share(models, **more)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from(["strict", "generic", "hmcos"]), st.integers(2, 3))
def test_random_models_share(seed: int, target: str, count: int):
    """Each plan holds, what is kept is left alone, and the arena is no smaller than any of them needs."""
    rng = Random(seed)
    graphs = [_named(random_graph(rng, 6), f"m{k}") for k in range(count)]
    names = [t.name for g in graphs for t in g.tensors if t.kind is not Kind.CONSTANT]
    kept = rng.sample(names, min(len(names), rng.randint(0, 3)))
    found = share(graphs, target=target, persistent=kept)
    assert found.arena_bytes >= max(m.alone_bytes for m in found.models)
    assert found.arena_bytes <= found.separate_bytes
    members: list[tuple[Graph, Plan, Any]] = []
    for graph, member in zip(graphs, found.models, strict=True):
        own = {t.name for t in graph.tensors}
        rules = resolve(target, persistent=[n for n in kept if n in own])
        verify_plan(graph, member.plan, rules)
        members.append((graph, member.plan, rules))
    check_shared(members)


def _named(graph: Graph, name: str) -> Graph:
    """The graph with names of tensors that no other one has."""
    tensors = tuple(
        Tensor(t.id, t.size, t.kind, f"{name}.{t.id}", t.shape, t.dtype, t.alias_of, t.alias_offset)
        for t in graph.tensors
    )
    return Graph(name, tensors, graph.ops, graph.folded, sha256=name)


def test_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """A summary; one header and table for all, with the model before each name; plans that `verify` takes."""
    one = graph_file(tmp_path, branches(), "one.graph.json")
    two = graph_file(
        tmp_path,
        {"name": "g", "tensors": [tensor(0, 8, "input"), tensor(1, 64, "output")], "ops": [op(0, [0], [1])]},
        "two.graph.json",
    )
    header, table, plans = tmp_path / "all.h", tmp_path / "all.txt", tmp_path / "plans"
    call = ["research", "share", str(one), str(two), "--target", "strict", "--persistent", "t0"]
    assert main([*call, "--header", str(header), "--table", str(table), "--plans", str(plans)]) == 0
    out = capsys.readouterr().out
    assert "shared      118 B, least for these orders; apart 182 B" in out
    assert "persistent  16 B of it" in out
    assert "#define ALL_ARENA_SIZE 118\n" in header.read_text()
    assert "/* two/t1 */" in header.read_text()
    assert "    0  - 5  " in table.read_text()
    for name, path in (("one", one), ("two", two)):
        assert main(["verify", str(path), str(plans / f"{name}.plan.json")]) == 0
    capsys.readouterr()
    assert main([*call, "--budget", "100", "--json"]) == 4
    shown = json.loads(capsys.readouterr().out)
    assert (shown["status"], shown["separate_bytes"], len(shown["models"])) == ("impossible", 182, 2)
    before = one.read_bytes()
    assert main([*call, "--header", str(one)]) == 2
    assert main([*call, "--set", "exact.seed=1"]) == 2
    assert main([*call, "--pin-inputs", "--json", "-q"]) == 0
    pinned = json.loads(capsys.readouterr().out)
    assert pinned["models"][1]["plan"]["pin_inputs"] is True
    assert main(["research", "share", str(one)]) == 2
    assert one.read_bytes() == before


def test_the_table_keeps_what_a_persistent_view_shows():
    """A persistent tensor that is a view of another: their storage is there while the other model runs, too."""
    a = chain("a", [8, 16, 4])
    tensors = (
        Tensor(0, 8, Kind.INPUT, "x"), Tensor(1, 16, Kind.ACTIVATION, "h"),
        Tensor(2, 16, Kind.ACTIVATION, "view", alias_of=1), Tensor(3, 4, Kind.OUTPUT, "y"),
    )  # fmt: skip
    b = Graph("b", tensors, (Op(0, (0,), (1,)), Op(1, (1,), (2,)), Op(2, (2,), (3,))))
    found = share([a, b], target="strict", persistent=["view"])
    layout = shared_map(found, "both")
    assert {block.name: block.spans for block in layout.blocks}["b/h"] == ((0, 5),)
    assert max(live_bytes(layout.blocks, layout.steps, layout.blocks)) == found.arena_bytes == 24 + 16


def test_two_of_one_name_get_numbers(tmp_path: Path):
    """The same model twice, as two instances with a state each."""
    path = graph_file(tmp_path, branches())
    found = share([path, path], target="strict", persistent=["t5"])
    assert isinstance(found, Shared)
    assert [m.name for m in found.models] == ["m", "m_2"]
    assert found.persistent_bytes == 2


def test_ctrl_c_ends_every_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """The model being planned ends with its best, those after it have a moment, and the status is 130."""
    from lowtide.api import sharing

    times: list[float] = []
    plan_job = sharing.plan_job

    def stopped(job: Job, **settings: Any) -> Plan:
        times.append(job.search.seconds)
        plan = plan_job(job, **settings)
        return msgspec.structs.replace(plan, stopped="interrupt") if len(times) == 1 else plan

    monkeypatch.setattr(sharing, "plan_job", stopped)
    paths = [tmp_path / f"{name}.graph.json" for name in "ab"]
    for path in paths:
        path.write_bytes(graph_json_bytes(chain(path.name[0], [8, 16, 4])))
    assert main(["research", "share", *map(str, paths), "--plans", str(tmp_path / "plans")]) == 130
    assert times == [60.0, sharing.A_MOMENT_SECONDS]
    assert "these are the best plans so far" in capsys.readouterr().err
    assert (tmp_path / "plans" / "b.plan.json").exists()


def test_each_model_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Though a size is of one of them only, and the layout of both is written."""
    from lowtide.read import graph_json
    from lowtide.read.onnx import reader

    free = onnx_model([node("Relu", "x", "y")], [value("x", ("n",))], [value("y", ("n",))])
    paths = [saved(free, tmp_path, "free.onnx"), graph_file(tmp_path, branches())]
    reads: list[str] = []
    for module, name in ((reader, "read_onnx"), (graph_json, "parse_graph_json")):
        read = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *a, read=read, name=name: reads.append(name) or read(*a))
    arguments = [
        "research", "share", *map(str, paths), "--dim", "n=8", "--header", str(tmp_path / "h.h"), "--target", "strict",
    ]  # fmt: skip
    assert main(arguments) == 0
    assert sorted(reads) == ["parse_graph_json", "read_onnx"]
