"""The command `sweep`."""

from __future__ import annotations

import argparse
from typing import Any

from lowtide import api
from lowtide.cli.terminal import say, show, show_json
from lowtide.errors import InputError

_NUMBERS = {"max_ops": int, "seed": int, "time": float}
_FLAGS = ("exact_bits", "overwrite_inputs", "pin_inputs", "stream_input")


def _value(name: str, text: str) -> Any:
    """A value as `lowtide.research.plan` takes it."""
    if name == "dims":
        key, _, size = text.partition(":")
        if not (key and size.isdigit()):
            raise InputError(f"--vary dims has {text!r}; it takes NAME:SIZE, as dims=batch:1,batch:8")
        return {key: int(size)}
    if name in _FLAGS:
        if text not in ("true", "false"):
            raise InputError(f"--vary {name} has {text!r}; it takes true and false")
        return text == "true"
    try:
        return _NUMBERS.get(name, str)(text)
    except ValueError:
        raise InputError(f"--vary {name} has {text!r}, which is no number") from None


def _targets(text: str) -> list[str]:
    """Targets by commas; what follows one as KEY=VALUE is of it.

    >>> _targets("strict,tflm,pointer=32,kernels=any,generic")
    ['strict', 'tflm,pointer=32,kernels=any', 'generic']
    """
    names: list[str] = []
    for part in (part.strip() for part in text.split(",")):
        if names and "=" in part:
            names[-1] += f",{part}"
        elif part:
            names.append(part)
    return names


def run(options: argparse.Namespace) -> int:
    """Fill the table; print it if it has no file."""
    vary: dict[str, list[Any]] = {}
    for name, values in options.vary:
        if name in vary:
            raise InputError(f"--vary {name} is given twice; give all its values at once")
        vary[name] = [_value(name, text.strip()) for text in values]
    budgets = [None] if options.budgets is None else [text.strip() for text in options.budgets.split(",")]
    made = api.sweep(
        options.models, targets=_targets(options.targets), budgets=budgets, vary=vary, out=options.out,
        jobs=options.jobs, scheduler=options.scheduler, fresh=options.fresh,
        report=lambda done, total: options.line.steps(done, total, "rows planned"),
    )  # fmt: skip
    options.line.end()
    if options.json:
        show_json(made.rows)
    elif options.out is None:
        from lowtide.report.curve import sweep_text

        show(sweep_text(made.rows))
    if not options.quiet:
        if made.kept:
            say(f"{made.kept:,} of {made.total:,} rows were done before")
        if made.interrupted:
            how_to_go_on = "the same call goes on" if options.out else "name a table with -o, and the same call goes on"
            say(f"interrupted after {len(made.rows):,} of {made.total:,} rows; {how_to_go_on}")
        elif options.out:
            say(f"wrote {options.out}: {made.total:,} rows, {made.errors:,} of them errors")
    return made.exit_status
