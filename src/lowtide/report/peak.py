"""Why the peak is what it is, in named groups, and what would help: each figure is computed from the plan alone."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lowtide.report.view import PlanView, Rectangle

MOST_GROUPS = 8  # groups that a peak is divided into, at most

NARROWER: Mapping[str, tuple[str, int]] = {
    "float64": ("float32", 2), "float32": ("int8", 4), "float16": ("int8", 2), "bfloat16": ("int8", 2),
    "int64": ("int32", 2), "complex128": ("complex64", 2),
}  # fmt: skip
"""Element type to a narrower one, and how many times smaller that is."""


@dataclass(frozen=True, slots=True)
class PeakGroup:
    """Part of the peak: what is live there below one module path, of one kind."""

    # name, kind: path that the names of the ops which made it begin with, or their type; kind of tensor.
    name: str
    kind: str
    # bytes, count: together, and of how many.
    bytes: int
    count: int
    age: int  # steps from the one in which the oldest of them came into memory to the peak: 0 for what is made there


@dataclass(frozen=True, slots=True)
class WhatIf:
    """A change, and the peak of the plan's own order with it: an order is known, so the least peak is no larger."""

    change: str
    peak_bytes: int


def peak_groups(view: PlanView, most: int = MOST_GROUPS) -> list[PeakGroup]:
    """What is live at the peak as a sum of groups, the largest first; they add up to it with `shared_bytes` less.
    Groups begin at the first part of module paths; the largest one is divided at its next part as long as no more
    than `most` come of it."""
    members = [view.rectangles[i] for i in view.at(view.peak_step)] if view.steps else []
    paths = [module_path(view, r) for r in members]
    groups: dict[tuple[str, ...], list[int]] = {}
    for i, (r, path) in enumerate(zip(members, paths, strict=True)):
        groups.setdefault((r.kind, *path[:1]), []).append(i)
    closed: set[tuple[str, ...]] = set()
    while len(closed) < len(groups):
        key = max((k for k in groups if k not in closed), key=lambda k: sum(members[i].size for i in groups[k]))
        parts: dict[tuple[str, ...], list[int]] = {}
        for i in groups[key]:
            parts.setdefault((key[0], *paths[i][: len(key)]), []).append(i)
        if list(parts) == [key] or len(groups) - 1 + len(parts) > most:
            closed.add(key)
            continue
        del groups[key]
        groups |= parts
    rows = [
        PeakGroup(
            "/".join(key[1:]), key[0], sum(members[i].size for i in inside), len(inside),
            view.peak_step - min(members[i].start for i in inside),
        )
        for key, inside in groups.items()
    ]  # fmt: skip
    rows.sort(key=lambda g: (-g.bytes, g.name, g.kind))
    if len(rows) > most:
        rest = rows[most - 1 :]
        size, count = sum(g.bytes for g in rest), sum(g.count for g in rest)
        rows[most - 1 :] = [PeakGroup("others", "", size, count, max(g.age for g in rest))]
    return rows


def module_path(view: PlanView, rectangle: Rectangle) -> tuple[str, ...]:
    """Where in the model a rectangle is from: the path in the name of the op that makes it, or else that op's type;
    the step of a loop."""
    if rectangle.kind in ("input", "constant"):
        return (f"graph {rectangle.kind}s",)
    first = rectangle.used[0] if rectangle.tensor is not None else rectangle.start
    step = min(first, view.steps - 1)
    op = view.ops[step]
    if op.edit == "loop":  # its name is a sentence with the names of two ops
        return (f"the loop at step {step:,}",)
    name = (op.of or op.name).partition(";")[0]
    parts = tuple(part for part in re.split(r"[/.]", name) if part)
    return parts[:-1] or (op.type or "ops without a name",)


def modules(view: PlanView, most: int = 7) -> tuple[list[str], list[int]]:
    """Names of the modules that hold most bytes over most steps, then of the others, if there are some; and of each
    rectangle the index of its own. A module is the first part of a path that divides the model."""
    paths = [module_path(view, r) for r in view.rectangles]
    depth, longest = 1, max((len(path) for path in paths), default=1)
    while depth < longest and len({path[:depth] for path in paths if len(path) >= depth}) < 4:
        depth += 1
    held: dict[tuple[str, ...], int] = {}
    for r, path in zip(view.rectangles, paths, strict=True):
        held[path[:depth]] = held.get(path[:depth], 0) + r.size * (r.end - r.start)
    ranked = sorted(held, key=lambda path: (-held[path], path))
    index = {path: min(i, most) for i, path in enumerate(ranked)}
    names = ["/".join(path) for path in ranked[:most]] + (["others"] if len(ranked) > most else [])
    return names, [index[path[:depth]] for path in paths]


def what_ifs(view: PlanView, index: int) -> list[WhatIf]:
    """What would lower the peak of this order, of one rectangle; each if it gains more than those before it."""
    r, ideas = view.rectangles[index], []
    first, behind = r.used
    peak = view.peak_step
    if r.tensor is not None and r.kind == "input" and peak < first:
        ideas.append((f"filled only when it is first read, at step {first:,}", (r.start, first, r.size)))
    if r.tensor is not None and peak >= behind > first:
        word = "returned" if r.kind == "output" else "freed"
        ideas.append((f"{word} after its last use, at step {behind - 1:,}", (behind, r.end, r.size)))
    narrower = NARROWER.get(r.dtype or "")
    if narrower is not None and r.tensor is not None:
        name, times = narrower
        ideas.append(
            (f"in {name} instead of {r.dtype}, without the conversion", (r.start, r.end, r.size - r.size // times))
        )
    ideas.append(("removed", (r.start, r.end, r.size)))
    found: list[WhatIf] = []
    for change, span in ideas:
        peak_bytes = _peak_without(view, index, span)
        if peak_bytes < min([view.peak_bytes, *(w.peak_bytes for w in found)]):
            found.append(WhatIf(change, peak_bytes))
    return found


def _peak_without(view: PlanView, index: int, span: tuple[int, int, int]) -> int:
    """Peak of the order if a rectangle had a given number of bytes less in ``[start, end)``. Where it shares bytes with
    another one, nothing is shared any more: that may be too much, never too little."""
    start, end, less = span
    r = view.rectangles[index]
    over = {r.start} if r.over is not None else set()
    over |= {x.start for x in view.rectangles if x.over == index}
    live = list(view.live_bytes)
    for shift in _shifts(view, r):
        for step in range(start, min(end, view.steps)):
            back = min(view.shared_bytes[step], less) if step in over else 0
            live[step + shift] -= less - back
    return max(live, default=0)


def _shifts(view: PlanView, rectangle: Rectangle) -> list[int]:
    """Steps to where a rectangle repeats: ops that run in parts have the same tensors in each part."""
    for first, steps, count in view.repeated:
        part = (rectangle.start - first) // steps
        if 0 <= part < count and rectangle.end <= first + steps * (part + 1):
            return [steps * (k - part) for k in range(count)]
    return [0]


def top_at_peak(view: PlanView) -> Sequence[int]:
    """Indices of the five largest rectangles at the peak."""
    return view.at(view.peak_step)[:5] if view.steps else []
