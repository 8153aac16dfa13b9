"""Whether models fit, for those that read it in continuous integration: a table, annotations, JUnit."""

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
