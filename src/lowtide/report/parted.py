"""The picture of a training step whose ops run in parts: their one op of the plan, drawn as what it is.

    the plan:     a   [ body, in k parts ]   b
    the picture:  a   body body ... body   b      each body with its own tensors, in the plan's workspace of that op

The body's plan is of the largest part; smaller ones are drawn like it, so that nothing is drawn lower than it is.
"""

from __future__ import annotations

from dataclasses import replace

import msgspec

from lowtide.fission_plan import PlanFission
from lowtide.plan import Plan
from lowtide.report.view import PlanView, Rectangle

MOST_STEPS = 20_000  # of a picture that shows each part; with more, an op represents all of them


def view_of(plan: Plan, place: str = "plan") -> PlanView:
    """The view of a plan, with the parts of its ops one after the other. Raises as `PlanView.of`."""
    view = PlanView.of(plan, place)
    for part in plan.fission.parts if plan.fission is not None else ():
        body = msgspec.convert(part.body, Plan)
        if body.profile is not None and len(body.order) * len(part.ends) <= MOST_STEPS:
            view = _with_body(view, part, PlanView.of(body, place))
    return view


def _with_body(view: PlanView, part: PlanFission, body: PlanView) -> PlanView:
    plan, count = view.plan, len(part.ends)
    at = next(step for step, op in enumerate(view.ops) if op.op == part.op)
    more = body.steps * count - 1
    base = (plan.workspace_offsets or {}).get(str(part.op))
    outside = [i for i, r in enumerate(view.rectangles) if not (r.tensor is None and r.start == at)]
    new = {i: n for n, i in enumerate(outside)}
    rectangles = [_moved(view.rectangles[i], at, more, new) for i in outside]
    around = view.live_bytes[at] - sum(r.size for r in view.rectangles if r.tensor is None and r.start == at)
    for k in range(count):
        first = len(rectangles)
        rectangles += [_inside(r, at + k * body.steps, base, first) for r in body.rectangles]
    ops = [replace(op, edit=op.edit or "part") for op in body.ops] * count
    live = [around + size for size in body.live_bytes] * count
    return replace(
        view,
        ops=(*view.ops[:at], *ops, *view.ops[at + 1 :]),
        rectangles=tuple(rectangles),
        live_bytes=(*view.live_bytes[:at], *live, *view.live_bytes[at + 1 :]),
        repeated=(*((b + more * (b > at), steps, n) for b, steps, n in view.repeated), (at, body.steps, count)),
    )


def _moved(r: Rectangle, at: int, more: int, new: dict[int, int]) -> Rectangle:
    """A rectangle outside: what begins or ends after the parts does so later."""
    start, end, (a, b) = r.start, r.end, r.used
    return replace(
        r,
        start=start + more * (start > at),
        end=end + more * (end > at),
        used=(a + more * (a > at), b + more * (b > at)),
        over=None if r.over is None else new.get(r.over),
    )


def _inside(r: Rectangle, step: int, base: int | None, first: int) -> Rectangle:
    """A rectangle of the body in the part that begins at `step`; all of it is work that the step throws away."""
    return replace(
        r,
        start=r.start + step,
        end=r.end + step,
        used=(r.used[0] + step, r.used[1] + step),
        kind="workspace" if r.tensor is None else "activation",
        memory=0,
        offset=None if base is None or r.offset is None else base + r.offset,
        over=None if r.over is None else r.over + first,
    )
