"""Plans with tensors in others: what they say, where they are refused, and what is written."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

import lowtide
from lowtide.errors import InputError
from lowtide.report.cuts import MOST_NAMED
from lowtide.report.text import plan_text
from lowtide.rewrites import TensorAlias
from lowtide.target import BUILT_IN
from support.arena_run import AliasNets
from support.onnx_builder import model, node, saved, value
from support.small_models import branches, graph_file
from support.small_nets import pyramid


@pytest.fixture
def net(tmp_path: Path) -> Path:
    """A network whose peak aliases lower."""
    return saved(AliasNets(Random(12).choice).build(9), tmp_path)


def test_a_plan_says_what_lies_in_what(net: Path):
    """Aliases tagged as such, the rules it counts by, and the peak without; `generic` alone is as it was."""
    plain, plan = lowtide.research.plan(net), lowtide.research.plan(net, allow="alias")
    assert plan.rewrites
    assert all(isinstance(r, TensorAlias) for r in plan.rewrites)
    assert plan.peak_bytes < plain.peak_bytes
    assert plan.figures.unaliased_peak_bytes == plain.peak_bytes
    assert (plan.exactness, plan.allow, plan.version) == ("bits", ["alias"], 1)
    assert plan.target == "generic,in_place_normalisation=true,pieces=contiguous"
    assert plan.order == [op.id for op in sorted(plan.ops, key=lambda op: plan.order.index(op.id))]
    assert "in the memory of others" in plan_text(plan)
    assert plain.target == "generic"
    assert plain.rewrites is None


def test_the_largest_are_named(net: Path):
    """Which tensor lies in which, from where, and by what; all of them with -v."""
    plan = lowtide.research.plan(net, allow="alias")
    aliases = [r for r in plan.rewrites or () if isinstance(r, TensorAlias)]
    name, op = {t.id: t.name for t in plan.tensors}, {op.id: op for op in plan.ops}
    for alias in aliases:
        line = f" in {name[alias.of]} from byte {alias.offset:,}"
        assert any(
            line in text and name[alias.tensor] in text and op[alias.op].type in text
            for text in plan_text(plan, verbose=True).splitlines()
        )
    assert plan_text(plan).count(" from byte ") == min(MOST_NAMED, len(aliases))


def test_the_plan_survives_its_file(net: Path, tmp_path: Path):
    """Saved, read, checked; and written as a model, whose ops are the user's own."""
    plan = lowtide.research.plan(net, allow="alias")
    plan.save(tmp_path / "p.json")
    assert lowtide.verify(net, tmp_path / "p.json").checks
    plan.apply(net, tmp_path / "out.onnx")
    assert sorted(op.type for op in lowtide.load(tmp_path / "out.onnx").ops) == sorted(
        op.type for op in lowtide.load(net).ops
    )


def test_what_another_runtime_takes_is_said_with_its_copies(net: Path):
    """onnxruntime's figures beside the plan are of its order alone."""
    plan = lowtide.research.plan(net, allow="alias")
    other = lowtide.research.plan(net, target="onnxruntime")
    (figure,) = (f for f in plan.runtime_figures or () if f.what == "in use")
    assert figure.planned_bytes is not None
    assert figure.planned_bytes >= other.lower_bound_bytes


def test_a_budget_that_is_met_without_changes_nothing(net: Path):
    """Aliases only where they are needed; where nothing is enough it is over budget, and not impossible."""
    plain = lowtide.research.plan(net)
    assert lowtide.research.plan(net, allow="alias", budget=plain.required_bytes).rewrites is None
    needs = lowtide.research.plan(net, allow="alias")
    assert lowtide.research.plan(net, allow="alias", budget=needs.required_bytes).status == "ok"
    assert lowtide.research.plan(net, allow="alias", budget=1).status == "over_budget"


def test_a_target_file_says_what_its_code_generator_can_do(net: Path, tmp_path: Path):
    """A target of one's own is taken by its word."""
    (tmp_path / "mine.toml").write_text('base = "generic"\npieces = "contiguous"\n')
    plan = lowtide.research.plan(net, target=str(tmp_path / "mine.toml"), allow="alias")
    assert plan.target == "mine"
    assert plan.rewrites
    assert lowtide.verify(net, plan, target=str(tmp_path / "mine.toml")).checks


@pytest.mark.parametrize("name", [name for name in BUILT_IN if name not in ("generic", "strict", "hmcos", "loops")])
def test_runtimes_with_rules_of_their_own_refuse(net: Path, name: str):
    """By name: their kernels copy."""
    with pytest.raises(InputError, match="copies the operands of a concat"):
        lowtide.research.plan(net, target=name, allow="alias")


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ({"target": "strict"}, "strict copies slices"),
        ({"allow": "alias,recompute"}, "does not go with such changes"),
        ({"max_ops": 20}, "changes no op and no bit"),
        ({"exact_bits": True}, "changes no op and no bit"),
        ({"persistent": ["x0"]}, "keep a place of their own"),
        ({"target": "generic,pieces=some"}, "pieces is 'some'"),
    ],
)
def test_what_does_not_go_together_is_refused(net: Path, call: dict[str, Any], words: str):
    """Nothing that is asked for is dropped."""
    with pytest.raises(InputError, match=words):
        lowtide.research.plan(net, **{"allow": "alias", **call})


def test_a_graph_without_meanings_is_refused(tmp_path: Path):
    """Nobody knows which bytes of an op of no format are whose."""
    with pytest.raises(InputError, match="only of ONNX and TFLite models"):
        lowtide.research.plan(graph_file(tmp_path, branches()), allow="alias")


@pytest.mark.parametrize("kind", ["Softmax", "LayerNormalization"])
def test_normalisations_run_in_place_where_aliases_are_allowed(tmp_path: Path, kind: str):
    """Over the input that dies there, and not without being told."""
    reads = "a" if kind == "Softmax" else "a s"
    from support.onnx_builder import constant

    nodes = [node("MatMul", "x w", "a"), node(kind, reads, "b"), node("MatMul", "b w", "y")]
    weights = [constant("w", [0.5] * 64, [8, 8]), constant("s", [1.0] * 8)]
    path = saved(model(nodes, [value("x", (4, 8))], [value("y", (4, 8))], weights), tmp_path)
    assert not lowtide.research.plan(path).in_place
    assert len(lowtide.research.plan(path, allow="alias").in_place) == 1


@pytest.mark.slow
@pytest.mark.parametrize("pieces", ["contiguous", "strided"])
def test_parts_of_cut_ops_lie_in_each_other(tmp_path: Path, pieces: str):
    """With `fission`: the plan speaks of parts and of aliases among them, holds, and promises what the cuts do."""
    path = saved(pyramid().model(), tmp_path)
    plan = lowtide.research.plan(path, target=f"generic,pieces={pieces}", allow="alias,tile", time=1.2)
    lowtide.verify(path, plan)
    assert {type(r).__name__ for r in plan.rewrites or ()} >= {"CutRegion"}
    assert plan.peak_bytes <= lowtide.research.plan(path, allow="tile", time=1.2).peak_bytes
    assert plan.region_bound is None
    plan.apply(path, tmp_path / "out.onnx")


@pytest.mark.parametrize("word", ["row-streaming", "tile", "concat", "alias,tile"])
def test_chains_and_two_layouts_go_with_aliases_alone(net: Path, word: str):
    """What is between the ops of a chain may come apart where ops are cut, and a bound over all cuts takes them one by
    one."""
    for field in ("chains=fused", "layout=either"):
        with pytest.raises(InputError, match="changes single ops"):
            lowtide.research.plan(net, target=f"generic,{field}", allow=word)
