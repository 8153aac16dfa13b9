"""The words beside the figures: numbers that the plan has, sums that add up."""

from __future__ import annotations

import html
import re

import lowtide
from lowtide.report.page.words import head_html, sentence, text, words_html
from lowtide.report.view import PlanView


def _plain(markup: str) -> str:
    return html.unescape(re.sub(r"<[^>]+>", " ", markup))


def test_required_available_and_excess_stand_there():
    """Of a plan over budget, with what cannot share the room."""
    plan = lowtide.plan("zoo:swiftnet_cell_a", budget="120KiB")
    view = PlanView.of(plan)
    told = _plain(head_html(view))
    assert plan.budget_bytes is not None
    for size in (plan.required_bytes, plan.budget_bytes, plan.required_bytes - plan.budget_bytes):
        assert f"{size:,} B" in told
    assert "over the budget" in told
    assert "Too much: " in _plain(words_html(view))


def test_two_plans_say_who_left():
    """Each tensor of either peak, with its bytes at both."""
    before, after = (PlanView.of(lowtide.plan("zoo:swiftnet_cell_a", method=m)) for m in ("own", "exact"))
    told = _plain(words_html(after, before))
    assert "Who left the peak" in told
    for i in before.at(before.peak_step):
        assert before.rectangles[i].name in told


def test_commands_are_marked_and_names_are_escaped():
    """Backticks are ours; angle brackets are a name's."""
    assert sentence("`lowtide verify` of <b>") == "<code>lowtide verify</code> of &lt;b&gt;"
    assert text("a\x00<b>\"'") == "a\ufffd&lt;b&gt;&quot;&#x27;"
