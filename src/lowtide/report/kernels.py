"""What each choice of kernel library would give a model under TFLM, and how to ask for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lowtide.plan import Plan
from lowtide.report.columns import change, columns

_DEFAULT = "any"


@dataclass(frozen=True)
class KernelChoice:
    """The best plan found for one choice of kernels, in bytes.

    `head_bytes`: tensors and scratch as TFLM places them. `required_bytes`: the smallest kTensorArenaSize; `exact`: to
    the byte for the target's build, else at least that. `optimal`: the peak is proved least. `plan`: all of it.
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
