"""Pictures of plans: an HTML report, SVG figures, a trace, an overlay, a plot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lowtide.arguments import typed
from lowtide.errors import InputError, MissingExtraError
from lowtide.names import brief
from lowtide.plan import SHOWN, Plan, read_plan

if TYPE_CHECKING:
    from lowtide.optimize.curve import Curve, Front
    from lowtide.outputs import Outputs
    from lowtide.report.view import PlanView


@dataclass(frozen=True)
class Pictures:
    """Files to write of a plan's picture, each or none."""

    report: str | Path | None = None  # HTML: everything, in one file that needs no network
    trace: str | Path | None = None  # JSON for Perfetto and ``chrome://tracing``: live bytes, and who is there when
    # Begin of the names of SVG files, one a figure: ``NAME-live.svg``, ``NAME-MEMORY.svg``.
    svg: str | Path | None = None
    # JSON for Model Explorer: custom node data that colour the model's own graph by live bytes.
    overlay: str | Path | None = None
    png: str | Path | None = None  # begin of the names of PNG files, one a figure, as of `svg`; drawn with matplotlib

    @property
    def paths(self) -> list[str | Path]:
        """The files to write and whose names are known without the plan."""
        return [path for path in (self.report, self.trace, self.overlay) if path is not None]

    @property
    def wanted(self) -> bool:
        """Whether there is anything to write."""
        return bool(self.paths or self.svg or self.png)

    def write(self, plan: Plan, outputs: Outputs, before: Plan | None = None) -> list[str | Path]:
        """Write the requested files into outputs that the caller commits; the names of the files. Raises as
        `report`."""
        from lowtide.report.parted import view_of

        if not self.wanted:
            return []
        view = view_of(plan, plan.graph)
        written = [(path, content.encode()) for path, content in self._contents(view, before)]
        if self.png is not None:
            from lowtide.report.plots import png_figures

            base = str(self.png).removesuffix(".png")
            written += [(f"{base}-{name}.png", content) for name, content in png_figures(view)]
        for path, content in written:
            outputs.write(path, content)
        return [path for path, _ in written]

    def _contents(self, view: PlanView, before: Plan | None) -> list[tuple[str | Path, str]]:
        made: list[tuple[str | Path, str]] = []
        if self.report is not None:
            from lowtide.report.page.page import page
            from lowtide.report.parted import view_of

            made.append((self.report, page(view, None if before is None else view_of(before, before.graph))))
        if self.trace is not None:
            from lowtide.report.trace import trace_json

            made.append((self.trace, trace_json(view)))
        if self.overlay is not None:
            from lowtide.report.overlay import overlay_json

            made.append((self.overlay, overlay_json(view)))
        if self.svg is not None:
            from lowtide.report.svg import figures

            base = str(self.svg).removesuffix(".svg")
            made += [(f"{base}-{name}.svg", text) for name, text in figures(view)]
        return made


NO_PICTURES = Pictures()


@typed
def report(
    plan: Plan,
    path: str | Path | None = None,
    *,
    before: Plan | None = None,
    trace: str | Path | None = None,
    svg: str | Path | None = None,
    overlay: str | Path | None = None,
    png: str | Path | None = None,
) -> None:
    """Write the picture of a plan; `plan.report("r.html")` is the same.

    Parameters
    ----------
    path
        HTML file: live bytes over the steps, the arena, why the peak is what it is, what would lower it, how sure that
        is. It is one file and asks nothing of any server.
    before
        Another plan, which the report compares with this one, with a table of the tensors that left the peak.
    trace
        JSON file for Perfetto or ``chrome://tracing``.
    svg
        Where SVG files of the figures go: their names begin so.
    overlay
        JSON file of custom node data for Model Explorer.
    png
        Where PNG files of the figures go, as with `svg`; drawn with matplotlib.

    Raises
    ------
    InputError
        No file is named, the plan has no `profile`, or a file cannot be written.
    MissingExtraError
        `png` is requested, and matplotlib is not installed.

    Examples
    --------
    ::

        plan = lowtide.research.plan("model.onnx")
        lowtide.report(plan, "report.html")
        lowtide.report(plan, "report.html", before=lowtide.research.plan("model.onnx", method="own"))
    """
    from lowtide.outputs import Outputs

    wanted = Pictures(path, trace, svg, overlay, png)
    if not wanted.wanted:
        raise InputError("name a file for the report, as plan.report('report.html')")
    with Outputs() as outputs:
        wanted.write(plan, outputs, before)


def report_files(plans: Sequence[str | Path], pictures: Pictures) -> list[str | Path]:
    """Write the picture of a plan file, of two, the first of which is the one before, or of several, whose peaks and
    ops are a front of which one is shown at a time; the names of the files. Raises `InputError`: a file is no plan,
    there are too many, several are of different models, or an output cannot be written or is a plan that is read."""
    from lowtide.outputs import Outputs

    if not pictures.wanted:
        raise InputError("name what to write: -o R.html, --trace T.json, --overlay O.json, --svg NAME or --png NAME")
    read = [read_plan(path) for path in plans]
    if len(read) > 2:
        return _front_file(read, plans, pictures)
    *others, last = read
    with Outputs(plans) as outputs:
        return pictures.write(last, outputs, others[0] if others else None)


def _front_file(read: Sequence[Plan], paths: Sequence[str | Path], pictures: Pictures) -> list[str | Path]:
    """The report of three plans or more: their front, and one of them at a time."""
    from lowtide.outputs import Outputs
    from lowtide.report.page.front import MOST_PLANS
    from lowtide.report.page.page import page_of_several
    from lowtide.report.parted import view_of

    if len(read) > MOST_PLANS:
        raise InputError(f"a report shows at most {MOST_PLANS} plans, and these are {len(read)}; leave some out")
    if pictures.report is None or any((pictures.trace, pictures.svg, pictures.overlay, pictures.png)):
        raise InputError("all but the report are of one plan or two; of more there is -o R.html alone")
    _check_one_model(read, paths)
    names = [Path(path).name.removesuffix(".json").removesuffix(".plan") for path in paths]
    views = [view_of(plan, str(path)) for plan, path in zip(read, paths, strict=True)]
    with Outputs(paths) as outputs:
        outputs.write(pictures.report, page_of_several(views, names).encode())
    return [pictures.report]


def _check_one_model(read: Sequence[Plan], paths: Sequence[str | Path]) -> None:
    """Raise `InputError` if these plans are of different models, or sizes: which is best among them says nothing."""
    from lowtide.report.comparison import why_apart

    first = read[0]
    for plan, path in zip(read, paths, strict=True):
        apart = why_apart(plan, first)
        if plan.model_sha256 != first.model_sha256:
            apart = (
                f"of {plan.graph} (sha256 {plan.model_sha256[:12]}), and {paths[0]} of {first.graph} "
                f"({first.model_sha256[:12]})"
            )
        if apart:
            more = "three plans or more are of one model at the same sizes, so leave it out"
            raise InputError(f"this plan is {apart}; {more}", str(path))


def plot(plan: Plan, axes: Any = None) -> Any:
    """Draw live bytes over the steps with matplotlib, where that is installed; `plan.plot()` is the same. `axes`:
    what to draw on; None: axes of a new figure. Returns: for titles, limits and saving:
    ``plan.plot().figure.savefig("live.png")``. Raises `MissingExtraError`: matplotlib is not installed. Raises
    `InputError`: the plan has no `profile`."""
    from lowtide.report.parted import view_of
    from lowtide.report.plots import live_plot

    try:
        from matplotlib import pyplot  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise MissingExtraError("matplotlib", "plot", "plan.plot()") from None
    view = view_of(plan, plan.graph)
    axes = pyplot.subplots(figsize=(10, 4))[1] if axes is None else axes
    live_plot(view, axes)
    return axes


def plan_svg(plan: Plan) -> str:
    """The timeline of a plan as SVG without a script, below 30 kB; ids begin with a digest of the plan."""
    import hashlib

    from lowtide.report.parted import view_of
    from lowtide.report.svg import timeline_svg

    digest = hashlib.sha256(plan.to_json()).hexdigest()[:10]
    return timeline_svg(view_of(plan, plan.graph), prefix=f"lowtide-{digest}")


def plan_html(plan: Plan) -> str:
    """What a notebook shows of a plan: a line of numbers, and its picture where it has a profile."""
    from html import escape

    line = escape(repr(plan))
    return f"<div><code>{line}</code>{'' if plan.profile is None else f'<br>{plan_svg(plan)}'}</div>"


def plan_words(plan: Plan) -> str:
    """What `print(plan)` shows: the first screen of `lowtide plan`, or the summary of `lowtide research plan`."""
    from lowtide.report.first_screen import first_screen
    from lowtide.report.text import plan_text

    return plan_text(plan) if plan.comparison is None else first_screen(plan)


def plan_brief(plan: Plan) -> str:
    """What a plan looks like in an interpreter: its first screen, or the figures of a plan without one."""
    return brief(plan, SHOWN) if plan.comparison is None else plan_words(plan)


def curve_words(curve: Curve) -> str:
    """What `print(curve)` shows: the table that `lowtide research curve` prints."""
    from lowtide.report.curve import curve_text

    return curve_text(curve)


def front_words(front: Front) -> str:
    """What `print(front)` shows: the table that `lowtide research curve --allow recompute` prints."""
    from lowtide.report.curve import front_text

    return front_text(front)


def to_pandas(plan: Plan) -> Any:
    """The tensors in memory as a table of pandas', where that is installed; `plan.to_pandas()` is the same. Returns:
    a row for each storage and workspace, with the columns ``name``, ``kind``, ``bytes``, ``first_step``,
    ``last_step``, ``memory``, ``offset`` (bytes from that memory's start, or nothing), ``dtype``, ``shape`` and
    ``at_peak``. Raises `MissingExtraError`: pandas is not installed. Raises `InputError`: the plan has no `profile`."""
    from lowtide.report.parted import view_of

    try:
        import pandas  # pyright: ignore[reportMissingImports,reportMissingModuleSource]
    except ImportError:
        raise MissingExtraError("pandas", "sweep", "plan.to_pandas()") from None
    view = view_of(plan, plan.graph)
    at_peak = set(view.at(view.peak_step)) if view.steps else set()
    table = pandas.DataFrame(
        {
            "name": [r.name for r in view.rectangles],
            "kind": [r.kind for r in view.rectangles],
            "bytes": [r.size for r in view.rectangles],
            "first_step": [r.start for r in view.rectangles],
            "last_step": [r.end - 1 for r in view.rectangles],
            "memory": [view.memories[r.memory].name if view.memories else None for r in view.rectangles],
            "offset": [r.offset for r in view.rectangles],
            "dtype": [r.dtype for r in view.rectangles],
            "shape": [r.shape for r in view.rectangles],
            "at_peak": [i in at_peak for i in range(len(view.rectangles))],
        }
    )
    return table.astype({"offset": "Int64"})
