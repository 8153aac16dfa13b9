"""The figures of a plan with matplotlib, where that is installed: for PNG, and for titles and styles of one's own."""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO
from typing import Any

from lowtide.errors import MissingExtraError
from lowtide.report.svg import COLOURS, figure_names
from lowtide.report.view import PlanView

Corners = tuple[tuple[int, int], ...]  # of a rectangle: steps and addresses
_INCHES, _DOTS = (10, 4), 150  # size of a PNG, and its dots in an inch: 1,500 x 600


def live_plot(view: PlanView, axes: Any) -> None:
    """Live bytes over the steps, stacked by kind, the file order grey behind; the bound and the room as lines."""
    own = view.own_order_bytes
    scale = max(view.steps, 1) / max(len(own), 1)
    axes.fill_between([scale * s for s in range(len(own))], own, step="post", color="0.8", label="file order")
    kinds = list(view.kinds)
    columns, colours = [view.kinds[k] for k in kinds], [COLOURS[k] for k in kinds]
    axes.stackplot(list(range(view.steps)), *columns, labels=kinds, colors=colours, step="post")
    if view.bound_bytes:
        axes.axhline(view.bound_bytes, color="#0b5394", label="lower bound")
    if view.room_bytes:
        axes.axhline(view.room_bytes, color="#b3261e", linestyle="--", label="room")
    axes.set(xlabel="step", ylabel="bytes", title=f"{view.plan.graph}: live bytes", xlim=(0, max(view.steps - 1, 1)))
    axes.legend(loc="upper right")


def arena_plot(view: PlanView, memory: int, axes: Any) -> None:
    """Addresses and lifetimes in a memory: address up, steps to the right; outlined what lives at the peak, hatched
    what is written over an input."""
    from matplotlib.collections import PolyCollection  # pyright: ignore[reportMissingImports]

    name, size = view.memories[memory].name, view.memories[memory].size
    at_peak = set(view.at(view.peak_step)) if view.steps else set[int]()
    alike: dict[tuple[str, bool, bool], list[Corners]] = {}  # drawn together: there may be tens of thousands
    for i, r in enumerate(view.rectangles):
        if r.memory == memory and r.offset is not None and r.size:
            top = r.offset + r.size
            corners = ((r.start, r.offset), (r.end, r.offset), (r.end, top), (r.start, top))
            alike.setdefault((r.kind, i in at_peak, r.over is not None), []).append(corners)
    seen: set[str] = set()
    for (kind, outlined, over), rectangles in alike.items():
        collection = PolyCollection(
            rectangles, facecolor=COLOURS[kind], edgecolor="black", linewidth=1.2 if outlined else 0.2,
            hatch="///" if over else None, label=None if kind in seen else kind, zorder=2 if outlined else 1,
        )  # fmt: skip
        axes.add_collection(collection)
        seen.add(kind)
    axes.set(
        xlabel="step", ylabel="address", title=f"{view.plan.graph}: {name}",
        xlim=(0, max(view.steps, 1)), ylim=(0, max(size, 1)),
    )  # fmt: skip
    if seen:
        axes.legend(loc="upper right")


def png_figures(view: PlanView) -> Iterator[tuple[str, bytes]]:
    """Every figure with a name for its file, as those of SVG. Raises `MissingExtraError`: matplotlib is not
    installed."""
    try:
        from matplotlib.figure import Figure  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise MissingExtraError("matplotlib", "plot", "PNG") from None
    for k, name in enumerate(figure_names(view), -1):
        figure = Figure(figsize=_INCHES, layout="constrained")
        axes = figure.subplots()
        live_plot(view, axes) if k < 0 else arena_plot(view, k, axes)
        made = BytesIO()
        figure.savefig(made, format="png", dpi=_DOTS, metadata={"Software": "lowtide"})
        yield name, made.getvalue()
