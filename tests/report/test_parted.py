"""The picture of a step whose ops run in parts shows each part, and is checked as any profile is."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import msgspec
import pytest

import lowtide
from lowtide.errors import VerificationError
from lowtide.plan import Plan, from_json
from lowtide.report import parted
from lowtide.report.page.page import page
from lowtide.report.page.words import head_html
from lowtide.report.parted import view_of
from lowtide.report.peak import top_at_peak, what_ifs
from lowtide.report.view import PlanView
from support.browser import Browser
from support.steps import heads_behind_statistics

STEP = "zoo:magis_unet:batch=8,width=16,image=64"
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def plan() -> Plan:
    """A training step in parts."""
    made = lowtide.research.plan(STEP, allow="recompute,tile", method="microbatch", max_overhead=1.0, time=10)
    assert made.fission is not None
    assert made.fission.parts
    return made


def test_every_part_is_there(plan: Plan) -> None:
    """As many steps as ops run, live bytes of which the largest is the peak, addresses within the arena; the step's own
    order stands beside."""
    assert plan.fission is not None
    (part,) = plan.fission.parts
    body = msgspec.convert(part.body, Plan)
    view = view_of(from_json(plan.to_json()))
    assert view.steps == len(plan.order) - 1 + len(part.ends) * len(body.order)
    assert view.peak_bytes == plan.peak_bytes
    assert plan.profile is not None
    assert view.own_order_bytes == tuple(plan.profile.own_order_bytes)
    assert max(view.own_order_bytes) == plan.own_order_peak_bytes
    assert all(r.offset is not None and r.offset + r.size <= (plan.arena_bytes or 0) for r in view.rectangles)
    for step in range(view.steps):
        lying = sorted((r.offset or 0, r.size) for r in (view.rectangles[i] for i in view.at(step)))
        assert sum(size for _, size in lying) - view.shared_bytes[step] == view.live_bytes[step]
        assert all(a + size <= b for (a, size), (b, _) in pairwise(lying)) or view.shared_bytes[step]
    assert view.edits["in tiles"] == len(part.ops)
    assert sum(op.edit == "part" for op in view.ops) <= len(part.ends) * len(body.order)


def test_the_page_says_which_part(plan: Plan, tmp_path: Path) -> None:
    """How many parts in the headline, with the model's own ops beside the picture's steps; at each step which one."""
    view, out = view_of(plan), tmp_path / "parts.html"
    ((first, steps, count),) = view.repeated
    head = head_html(view)
    assert f"{len(view.own_order_bytes):,} ops in {view.steps:,} steps" in head
    assert f"in {count} tiles" in head
    out.write_text(page(view))
    with Browser() as browser:
        browser.open(out)
        browser.run("document.querySelector('.live .box').focus()")
        for key, step in (("Home", 0), ("End", view.steps - 1), ("p", view.peak_step)):
            browser.key(key)
            within = first <= step < first + steps * count
            words = f"part {1 + (step - first) // steps} of {count}" if within else ""
            shown = browser.run("document.querySelector('.readout').textContent")
            assert words in shown
            assert ("part " in shown) == within


def test_advice_is_about_all_parts_at_once(plan: Plan) -> None:
    """A tensor of a part that is not there is there in none."""
    view = view_of(plan)
    ((first, steps, count),) = view.repeated
    for index in top_at_peak(view):
        r = view.rectangles[index]
        if not first <= r.start < r.end <= first + steps * count:
            continue
        gone = list(view.live_bytes)
        for other in view.rectangles:
            if (other.tensor, (other.start - r.start) % steps, other.size) == (r.tensor, 0, r.size):
                for step in range(other.start, other.end):
                    gone[step] -= other.size
        best = min((idea.peak_bytes for idea in what_ifs(view, index)), default=view.peak_bytes)
        assert best <= max(max(gone), 0) or best == view.peak_bytes <= max(gone)


def test_it_is_drawn_and_verified(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page; with very many steps an op stands for its parts; a profile that is another one's fails."""
    assert "in tiles" in page(view_of(plan))
    lowtide.verify(STEP, plan)
    monkeypatch.setattr(parted, "MOST_STEPS", 10)
    assert view_of(plan) == PlanView.of(plan)
    assert plan.profile is not None
    for key in ("own_order_bytes", "bytes"):
        profile = msgspec.structs.replace(plan.profile, **{key: [*getattr(plan.profile, key)[:-1], 1]})
        with pytest.raises(VerificationError) as caught:
            lowtide.verify(STEP, msgspec.structs.replace(plan, profile=profile))
        assert caught.value.failure == "profile"


def test_parts_of_several_regions_are_all_there() -> None:
    """Each where it runs; of a tensor in one of them advice speaks of that region's parts alone."""
    several = lowtide.research.plan(heads_behind_statistics(), allow="recompute,tile", budget="60%", time=4)
    assert several.fission is not None
    assert len(several.fission.parts) == 3
    view = view_of(several)
    inside = sum(len(part.ends) * len(part.body["order"]) for part in several.fission.parts)
    assert view.steps == len(several.order) - 3 + inside
    assert view.peak_bytes == several.peak_bytes == max(view.live_bytes)
    assert sum(steps * count for _, steps, count in view.repeated) == inside
    for first, steps, count in view.repeated:
        own = [tuple(op.op for op in view.ops[at : at + steps]) for at in range(first, first + steps * count, steps)]
        assert len(set(own)) == 1
    ends = sorted((first, first + steps * count) for first, steps, count in view.repeated)
    assert all(b <= a for (_, b), (a, _) in pairwise(ends))
