"""The report on a terminal: at most thirty lines, whose sums add up, of any plan."""

from __future__ import annotations

import json
import re
from pathlib import Path
from random import Random

import pytest

import lowtide
from lowtide.cli import main
from lowtide.graph import Graph, Kind, Op, Tensor
from lowtide.report.peak import peak_groups, what_ifs
from lowtide.report.screen import MOST_LINES, screen_text
from lowtide.report.view import PlanView
from lowtide.report.wording import proof_sentence
from support.random_graphs import random_graph


@pytest.mark.parametrize("target", ["strict", "generic"])
def test_groups_add_up_to_the_peak(target: str):
    """What is counted once among them, in the lines as they stand."""
    rng = Random(4)
    for _ in range(25):
        view = PlanView.of(lowtide.research.plan(random_graph(rng, rng.randint(1, 9)), target=target, time=5))
        told = screen_text(view)
        assert len(told.splitlines()) <= MOST_LINES
        rows = [row for row in told.split("the peak, made in")[1].split("\n\n")[0].splitlines()[1:] if row]
        sums = [int(re.split(r"\s{2,}", row)[-2].replace(",", "")) for row in rows]
        assert sum(sums) == view.peak_bytes


def test_it_says_what_the_page_says():
    """Groups, the first thing that helps of each tensor, bound and proof."""
    view = PlanView.of(lowtide.research.plan("zoo:nasnet_a_cifar"))
    told = screen_text(view)
    for group in peak_groups(view):
        assert re.search(rf"^{group.name} .* {group.bytes:,} ", told, re.MULTILINE)
    for i in view.at(view.peak_step)[:5]:
        ideas = what_ifs(view, i)
        words = f"{ideas[0].peak_bytes:,}  {ideas[0].change}" if ideas else f"{view.peak_bytes:,}  nothing helps"
        assert re.search(rf"^{view.rectangles[i].name} .*{re.escape(words)}$", told, re.MULTILINE)
    assert re.search(rf"^lower bound +{view.bound_bytes:,} B", told, re.MULTILINE)
    assert proof_sentence(view.plan) in " ".join(told.splitlines())
    assert view.ops[view.peak_step].name in told


@pytest.mark.slow
def test_thirty_lines_are_enough_for_any_plan():
    """Many groups, many memories, a budget that is not met, names with line breaks."""
    tensors = [Tensor(i, 1 if i < 9 else 4, Kind.INPUT if i < 9 else Kind.ACTIVATION, f"t\n{i}") for i in range(19)]
    ops = [Op(i, (i,), (i + 9,), f"block\n{i}/op") for i in range(9)]
    last = Op(9, tuple(range(9, 18)), (19,), "all\n/sum")
    graph = Graph("wi\nde", (*tensors, Tensor(19, 4, Kind.OUTPUT)), (*ops, last))
    for settings in ({}, {"budget": 9}, {"banks": ["a=16", "b=16", "c=16", "d=64"]}):
        view = PlanView.of(lowtide.research.plan(graph, target="strict", **settings))  # pyright: ignore[reportArgumentType]
        assert len(screen_text(view).splitlines()) <= MOST_LINES
        assert screen_text(view, plain=True).splitlines()[2].isascii()


def test_nothing_runs():
    """A graph without ops has a report too."""
    view = PlanView.of(lowtide.research.plan(Graph("idle", (Tensor(0, 8, Kind.INPUT),), ())))
    assert "0 ops" in screen_text(view)


def test_the_command_prints_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """With no output named; as JSON the groups add up too."""
    path = tmp_path / "p.json"
    plan = lowtide.research.plan("zoo:swiftnet_cell_a")
    plan.save(path)
    assert main(["report", str(path)]) == 0
    told = capsys.readouterr().out
    assert f"{plan.peak_bytes:,} B at step" in told
    assert len(told.splitlines()) <= MOST_LINES
    assert main(["report", str(path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    view = PlanView.of(plan)
    assert sum(g["bytes"] for g in found["groups"]) == plan.peak_bytes + view.shared_bytes[view.peak_step]
    assert len(found["top"]) == min(5, len(view.at(view.peak_step)))
