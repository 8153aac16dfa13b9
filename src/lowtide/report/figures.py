"""What the runtime takes today and with the plan, as text: the first rows of every screen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lowtide.plan import Plan, RuntimeFigure
from lowtide.report.columns import change, columns
from lowtide.sizes import format_size

NOBODYS = "target generic: the rules of a compiler, not those of a runtime"
_BY_DEFAULT = {
    "TFLM": "the unmodified file",
    "LiteRT": "the unmodified file, no delegates",
    "onnxruntime": "its defaults for the unmodified file, optimiser off, without weights and inputs",
    "PyTorch, eager": "the unmodified program, without weights and inputs",
}


def figures_text(figures: Sequence[RuntimeFigure] | None, target: str) -> str:
    """One line for each figure, today's before the plan's; for `generic` also whose rules it has."""
    nobodys = NOBODYS if target.partition(",")[0] == "generic" else ""
    if not figures:
        return nobodys
    runtime = figures[0].runtime
    rows = [
        (f"  {f.what}", _size(f.default_bytes), "->", _size(f.planned_bytes), _gain(f), f"({f.sure})") for f in figures
    ]
    lines = [f"{runtime} today ({_BY_DEFAULT[runtime]}) -> with this plan:", columns(rows, right=(1, 3))]
    lines += [f"  {nobodys}; --target {runtime} plans for the runtime"] if nobodys else []
    return "\n".join([*lines, *_worse_lines(figures, target)])


def _worse_lines(figures: Sequence[RuntimeFigure], target: str) -> list[str]:
    """One line where the plan takes more than the runtime does today, with the way that is better."""
    worse = [f for f in figures if f.planned_bytes is not None and f.planned_bytes > f.default_bytes]
    if not worse:
        return []
    better = "use the file unmodified"
    if figures[0].runtime == "onnxruntime":
        own = target.partition(",")[0] == "onnxruntime"
        better = f"plan with {'lowtide plan' if own else '--target onnxruntime'}, or {better}"
    return [f"  worse than today: {', '.join(f'{f.what} {_gain(f)}' for f in worse)}; {better}"]


def figures_rows(figures: Sequence[RuntimeFigure] | None, target: str) -> list[str]:
    """What the runtime takes by its defaults and with the plan, and a line between."""
    text = figures_text(figures, target)
    return [text, ""] if text else []


def figures_line(figures: Sequence[RuntimeFigure]) -> str:
    """The same in one line.

    >>> figures_line([RuntimeFigure(runtime="TFLM", what="head", default_bytes=200, planned_bytes=150)])
    'TFLM today: head 200 B; with this plan 150 B (-25.0 %)'
    """
    today = ", ".join(f"{f.what} {f.default_bytes:,} B" for f in figures)
    planned = ", ".join(
        f"{f.planned_bytes:,} B ({change(f.default_bytes, f.planned_bytes)})"
        for f in figures
        if f.planned_bytes is not None
    )
    return f"{figures[0].runtime} today: {today}" + (f"; with this plan {planned}" if planned else "")


def _gain(f: RuntimeFigure) -> str:
    return "" if f.planned_bytes is None else change(f.default_bytes, f.planned_bytes)


def _size(size: int | None) -> str:
    return "?" if size is None else format_size(size)


_DEFAULT = "any"


@dataclass(frozen=True)
class KernelChoice:
    """The best plan found for one choice of kernels, in bytes.

    `head_bytes`: tensors and scratch as TFLM places them. `required_bytes`: the smallest kTensorArenaSize; `exact`: to
    the byte for the target's build, else at least that. `optimal`: the peak is proved optimal. `plan`: all of it.
    """

    head_bytes: int
    required_bytes: int
    exact: bool
    optimal: bool
    plan: Plan


def kernels_text(choices: Mapping[str, KernelChoice]) -> str:
    """A row for each choice: the option that asks for it, head and kTensorArenaSize, against the default."""
    safe = choices[_DEFAULT]
    rows = [("  kernels", "head", "kTensorArenaSize", "")]
    for kernels, choice in choices.items():
        how = "any of these (default)" if kernels == _DEFAULT else f"--set kernels={kernels}"
        gain = "" if kernels == _DEFAULT else change(safe.required_bytes, choice.required_bytes)
        rows.append((f"  {how}", f"{choice.head_bytes:,} B", _required(choice), gain))
    return f"if it is known whose kernels run (a plan made for some is wrong under others):\n{columns(rows, (1, 2))}"


def kernels_line(choices: Mapping[str, KernelChoice], available_bytes: int) -> str:
    """The same in one line for `check`: what is needed, and whether that fits; without a reserve."""
    each = [
        f"{kernels} {_required(choice)}{' (fits)' if choice.required_bytes <= available_bytes else ''}"
        for kernels, choice in choices.items()
    ]
    return f"kTensorArenaSize for each choice of --set kernels=: {', '.join(each)}"


def _required(choice: KernelChoice) -> str:
    return f"{'' if choice.exact else 'at least '}{choice.required_bytes:,} B"
