"""Whether models fit, for those that read it in continuous integration: a table, annotations, JUnit, and a summary in
Markdown whose Mermaid charts GitHub draws itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape, quoteattr

from lowtide.report.columns import columns


@dataclass(frozen=True)
class CheckedModel:
    """A model of a list, and what came of it."""

    model: str  # as the caller named it
    verdict: str  # ``"fits"``, ``"does not fit"``, ``"cannot fit"``, or ``"error"``
    text: str  # the full line, or what went wrong
    status: int  # the exit status of a command for it alone
    today: str = ""  # what its runtime takes by its defaults, in bytes, with its name; empty if none is known
    sizes: tuple[str, str, str] = ("", "", "")  # required, available and excess, as text; empty after an error
    seconds: float = 0.0  # wall time


def checks_table(rows: Sequence[CheckedModel]) -> str:
    """One line for each model; after an error what went wrong."""
    head = ("model", "runtime today", "required", "available", "excess", "")
    lines = [(r.model, r.today, *r.sizes, r.text if r.verdict == "error" else r.verdict) for r in rows]
    return columns([head, *lines], right=(1, 2, 3, 4))


def github_annotations(rows: Sequence[CheckedModel]) -> str:
    """Workflow commands of GitHub Actions: an error for each model that does not fit, a notice for the others."""
    return "\n".join(
        f"::{'notice' if not r.status else 'error'} file={_property(r.model)},title=lowtide check::{_data(r.text)}"
        for r in rows
    )


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def junit(rows: Sequence[CheckedModel]) -> str:
    """A suite with a case for each model."""
    failures = sum(r.verdict != "error" and r.status != 0 for r in rows)
    errors = sum(r.verdict == "error" for r in rows)
    total = sum(r.seconds for r in rows)
    head = f'<testsuite name="lowtide check" tests="{len(rows)}" failures="{failures}" errors="{errors}"'
    cases = "\n".join(_case(r) for r in rows)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{head} time="{total:.3f}">\n{cases}\n</testsuite>'


def _case(r: CheckedModel) -> str:
    open_tag = f'  <testcase classname="lowtide.check" name={_attribute(r.model)} time="{r.seconds:.3f}">'
    if not r.status:
        return f"{open_tag}<system-out>{escape(_printable(r.text))}</system-out></testcase>"
    kind = "error" if r.verdict == "error" else "failure"
    message = f"<{kind} message={_attribute(r.verdict)}>{escape(_printable(r.text))}</{kind}>"
    return f"{open_tag}{message}</testcase>"


def _attribute(text: str) -> str:
    return quoteattr(_printable(text))


def _printable(text: str) -> str:
    """Without what XML cannot hold: control characters and lone surrogates are written out."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


POINTS = 60  # of a chart's line, at most; each is the largest of its steps, so that no peak is lost


@dataclass(frozen=True)
class ModelChange:
    """A model and what it needed before."""

    model: str  # its name, from the root of the repository
    verdict: str  # ``"fits"`` and its like
    available: str  # what there is, in words
    # required_bytes, before_bytes: what its plan needs, and needed; None where there is none.
    required_bytes: int | None
    before_bytes: int | None
    # live_bytes, before_live_bytes: footprint of each step of the plan; empty where unknown, or where nothing changed.
    live_bytes: tuple[int, ...] = ()
    before_live_bytes: tuple[int, ...] = ()
    is_new: bool = False  # whether there is no version before
    same: bool = False  # whether the file is as it was
    room_bytes: int | None = None  # the budget; None with several memories


def summary(rows: Sequence[ModelChange], *, reports: str = "") -> str:
    """The table, then a chart for each model that changed; `reports` says where the full pictures are."""
    bad = [row for row in rows if not row.verdict.startswith("fits")]
    state = f"{len(bad)} of {len(rows)} do not fit" if bad else f"{'all ' * (len(rows) > 1)}{len(rows)} fit"
    lines = [f"## lowtide: {state}", "", "| model | before | now | change | available | |", "|---|--:|--:|--:|--:|---|"]
    for row in rows:
        before = "new" if row.is_new else "as now" if row.same else _size(row.before_bytes)
        mark = "✅" if row.verdict.startswith("fits") else "❌"
        cells = (_cell(row.model), before, _size(row.required_bytes), _change(row), _cell(row.available))
        lines.append(f"| {' | '.join(cells)} | {mark} {_cell(row.verdict)} |")
    for row in rows:
        if row.live_bytes and not row.same:
            lines += ["", *_chart(row)]
    if reports:
        lines += ["", f"The arena, and why each peak is what it is: {reports}."]
    return "\n".join(lines) + "\n"


def _chart(row: ModelChange) -> list[str]:
    unit, name = (1024, "KiB") if max(row.live_bytes) < 8 * 1024**2 else (1024**2, "MiB")
    count = min(POINTS, max(len(row.live_bytes), len(row.before_live_bytes)))
    series = [("now", row.live_bytes)]
    if row.before_live_bytes:
        series.insert(0, ("before", row.before_live_bytes))
    if row.room_bytes is not None and row.room_bytes <= 2 * max(max(v) for _, v in series):
        series.append(("budget", (row.room_bytes,)))
    most = max(max(values) for _, values in series) / unit
    legend = ", ".join(f"{word} {max(values):,} B" for word, values in series)
    title = f"{row.model}: live {name} over the steps".replace('"', "'").replace("`", "'")
    lines = ["```mermaid", "xychart-beta", f'  title "{title}"', f'  x-axis "step" 0 --> {max(len(row.live_bytes), 1)}',
             f'  y-axis "{name}" 0 --> {most * 1.05:.4g}']  # fmt: skip
    lines += [f"  line [{', '.join(f'{v / unit:.4g}' for v in _spread(values, count))}]" for _, values in series]
    return [*lines, "```", "", f"Highest, in the order of the lines: {legend}."]


def _spread(values: Sequence[int], count: int) -> list[int]:
    """The values as so many, the largest of each stretch; fewer are repeated."""
    n = len(values)
    return [max(values[k * n // count : max((k + 1) * n // count, k * n // count + 1)]) for k in range(count)]


def _change(row: ModelChange) -> str:
    if row.same or row.required_bytes is None or not row.before_bytes:
        return ""
    more = row.required_bytes - row.before_bytes
    return f"{more:+,} B ({100 * more / row.before_bytes:+.1f} %)" if more else "none"


def _size(size: int | None) -> str:
    return "" if size is None else f"{size:,} B"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ").replace("<", "&lt;")
