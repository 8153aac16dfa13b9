"""The words beside the figures: numbers that the plan has, sums that add up."""

from __future__ import annotations

import html
import re
from pathlib import Path

import lowtide
from lowtide.report.page.words import head_html, sentence, text, words_html
from lowtide.report.view import PlanView
from support.small_models import onnx_file


def _plain(markup: str) -> str:
    return html.unescape(re.sub(r"<[^>]+>", " ", markup))


def test_required_available_and_excess_stand_there():
    """Of a plan over budget, with what cannot share the room."""
    plan = lowtide.research.plan("zoo:swiftnet_cell_a", budget="120KiB")
    view = PlanView.of(plan)
    told = _plain(head_html(view))
    assert plan.budget_bytes is not None
    for size in (plan.required_bytes, plan.budget_bytes, plan.required_bytes - plan.budget_bytes):
        assert f"{size:,} B" in told
    assert "over the budget" in told
    assert "lowtide inspect MODEL says" in re.sub(r"\s+", " ", _plain(words_html(view)))
    assert "Too much: " in _plain(words_html(view))


def test_two_plans_say_who_left():
    """Each tensor of either peak, with its bytes at both."""
    before, after = (PlanView.of(lowtide.research.plan("zoo:swiftnet_cell_a", method=m)) for m in ("own", "exact"))
    told = _plain(words_html(after, before))
    assert "Who left the peak" in told
    for i in before.at(before.peak_step):
        assert before.rectangles[i].name in told


def test_a_percentage_is_of_one_model():
    """Beside a plan of another one the change is that from the model's own order."""
    before, after = (PlanView.of(lowtide.research.plan("zoo:swiftnet_cell_a", method=m)) for m in ("own", "exact"))
    other = PlanView.of(lowtide.research.plan("zoo:swiftnet_cell_b"))
    assert "compared with the other" in _plain(head_html(after, before))
    told = _plain(head_html(after, other))
    assert f"{other.plan.peak_bytes:,} B" in told
    assert "of another model or version" in told
    assert "compared with the other" not in told


def test_commands_are_marked_and_names_are_escaped():
    """Backticks are ours; angle brackets are a name's."""
    assert sentence("`lowtide verify` of <b>") == "<code>lowtide verify</code> of &lt;b&gt;"
    assert text("a\x00<b>\"'") == "a\ufffd&lt;b&gt;&quot;&#x27;"


def test_what_the_runtime_takes_stands_first(tmp_path: Path):
    """Today and with the plan, before the figures; and what the arena has above the peak in bytes."""
    plan = lowtide.research.plan(onnx_file(tmp_path), target="generic")
    figure = (plan.runtime_figures or [])[0]
    told = _plain(head_html(PlanView.of(plan)))
    pair = f"{figure.what} {figure.default_bytes:,} B → {figure.planned_bytes:,} B"
    assert told.index("onnxruntime today → with this plan: ") < told.index(pair) < told.index("file order's peak")
    assert plan.arena_bytes is not None
    assert plan.arena_bytes > plan.peak_bytes
    assert f"{plan.arena_bytes - plan.peak_bytes:,} B above the peak" in told
