"""Plans in passes: within what was asked for, the same numbers, checked by other code, refused where it cannot be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

import lowtide
from lowtide.errors import InputError, VerificationError
from lowtide.plan import Plan, from_json
from lowtide.report.view import PlanView
from lowtide.rewrites import Recompute, Sums
from lowtide.run_reports import RunReport
from support.norm_nets import NormNet
from support.onnx_builder import saved
from support.small_models import branches, graph_file

pytest.importorskip("onnxruntime", reason="plans are run in onnxruntime, which is not installed")
from support.part_runs import RELATIVE, difference, feeds


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two norms between convolutions, on images larger than what comes in and goes out."""
    net = NormNet(lambda options: options[0], width=4, side=16)
    net.stretch()
    net.stretch()
    net.block("groups", residual=False)
    net.block("channels", residual=True)
    net.shrink()
    return saved(net.model(), tmp_path_factory.mktemp("passing"))


@pytest.fixture(scope="module")
def plan(source: Path) -> Plan:
    """Of the least peak for at most three times the operations."""
    return lowtide.research.plan(source, target="generic", allow="tile,recompute", max_overhead="200%", time=10)


@pytest.mark.slow
def test_norms_are_added_up_and_the_rest_runs_again(source: Path, plan: Plan, tmp_path: Path):
    """Below what cuts alone reach, within the bound, written and run to the same numbers."""
    cut = lowtide.research.plan(source, target="generic", allow="tile", time=3)
    assert plan.peak_bytes < cut.peak_bytes
    assert plan.recomputation is not None
    assert 0 < plan.recomputation.overhead <= 2
    assert plan.exactness == "sum"
    assert any(isinstance(r, Sums) for r in plan.rewrites or ())
    plan.apply(source, tmp_path / "out.onnx")
    assert difference(source, tmp_path / "out.onnx", feeds(source)) <= RELATIVE


@pytest.mark.slow
def test_parts_that_run_again_are_shown_as_such(source: Path, plan: Plan):
    """With the name of the user's op."""
    again = [op for op in PlanView.of(plan).ops if op.edit == "again"]
    assert again
    assert {op.of for op in again} <= {op.name for op in lowtide.load(source).ops}


@pytest.mark.slow
def test_onnxruntime_has_in_use_what_is_planned(source: Path):
    """To the byte, at every op."""
    plan = lowtide.research.plan(source, target="onnxruntime", allow="tile,recompute", max_overhead="200%", time=10)
    assert plan.recomputation is not None
    run = lowtide.verify(source, plan, run=True, timed=False).run
    assert isinstance(run, RunReport)
    assert all(node.planned_bytes in (None, node.in_use_bytes) for node in run.planned.nodes)
    assert all((o.max_abs_difference or 0.0) <= 1e-5 * o.largest for o in run.outputs)


def _broken(plan: Plan) -> list[tuple[str, Plan]]:
    """Plans that say something else than what holds."""
    rewrites = list(plan.rewrites or ())
    sums = next(k for k, r in enumerate(rewrites) if isinstance(r, Sums))
    again = next(k for k, r in enumerate(rewrites) if isinstance(r, Recompute))
    first, clone = rewrites[sums], rewrites[again]
    assert isinstance(first, Sums)
    assert isinstance(clone, Recompute)
    other = next(op for op in range(99) if op not in first.gone and op != first.op)

    def with_rewrite(k: int, changed: object | None) -> Plan:
        listed = [changed if j == k else r for j, r in enumerate(rewrites)]
        return msgspec.structs.replace(plan, rewrites=[r for r in listed if r is not None])

    change = msgspec.structs.replace
    cost = plan.recomputation
    assert cost is not None
    return [
        ("no sums", with_rewrite(sums, None)),
        ("another op", with_rewrite(sums, change(first, op=other, gone=[other]))),
        ("too few ops", with_rewrite(sums, change(first, ops=first.ops[:-1]))),
        ("ops in another order", with_rewrite(sums, change(first, ops=first.ops[::-1]))),
        ("tensors in another order", with_rewrite(sums, change(first, tensors=first.tensors[::-1]))),
        ("a tensor more", with_rewrite(sums, change(first, tensors=[*first.tensors, 10**6]))),
        ("an op gone twice", with_rewrite(sums, change(first, gone=[*first.gone, first.gone[0]]))),
        ("no clone", with_rewrite(again, None)),
        ("a clone of another op", with_rewrite(again, change(clone, of=first.ops[0]))),
        ("less work", change(plan, recomputation=change(cost, planned=cost.once))),
        ("a bound", change(plan, recomputation=change(cost, lower_bound=cost.once + 1))),
        ("other rounding", change(plan, exactness="kernel")),
    ]


@pytest.mark.slow
def test_what_does_not_hold_is_found(source: Path, plan: Plan):
    """Every recipe, clone and figure."""
    held = []
    for what, broken in _broken(plan):
        try:
            lowtide.verify(source, broken)
        except (VerificationError, InputError):
            continue
        held.append(what)
    assert not held


@pytest.mark.slow
def test_a_file_is_made_again_from_the_plan_alone(source: Path, plan: Plan, tmp_path: Path):
    """Saved, read, and written twice: the same bytes."""
    plan.save(tmp_path / "p.json")
    read = from_json((tmp_path / "p.json").read_bytes())
    for name in ("a.onnx", "b.onnx"):
        read.apply(source, tmp_path / name)
    assert (tmp_path / "a.onnx").read_bytes() == (tmp_path / "b.onnx").read_bytes()


def test_nothing_runs_again_where_the_best_order_fits(source: Path):
    """A budget that is no bound changes nothing."""
    plan = lowtide.research.plan(source, target="generic", allow="tile,recompute", budget="1MiB", time=5)
    assert (plan.status, plan.rewrites, plan.recomputation) == ("ok", None, None)
    assert plan.allow == ["tile", "recompute"]


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({}, "name one, as with --budget"),
        ({"max_overhead": "50%", "exact_bits": True}, "--exact-bits"),
        ({"max_overhead": "50%", "max_ops": 9}, "--max-ops"),
    ],
)
def test_what_does_not_go_together_is_said(settings: dict[str, Any], text: str, source: Path):
    """With what to do instead."""
    with pytest.raises(InputError, match=text):
        lowtide.research.plan(source, **{"target": "generic", "allow": "tile,recompute"} | settings)


def test_only_onnx_models_have_passes(tmp_path: Path):
    """Graph JSON has no norms that are known."""
    with pytest.raises(InputError, match="only ONNX models"):
        lowtide.research.plan(graph_file(tmp_path, branches()), allow="tile,recompute", budget=10)
