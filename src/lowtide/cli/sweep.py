"""The command `sweep`."""

from __future__ import annotations

import argparse
from typing import Any

from lowtide import api
from lowtide.cli.terminal import say, show, show_json
from lowtide.cli.values import count
from lowtide.errors import InputError


def arguments(p: Any) -> None:
    """What `sweep` takes."""
    p.add_argument("models", metavar="MODEL", nargs="+", help="models, and folders, which stand for those below")
    p.add_argument("-o", dest="out", metavar="T.csv", help="the table, .csv or .parquet; the same call goes on with it")
    p.add_argument("--targets", default="auto", metavar="NAME,...", help="memory rules, by commas (default: auto)")
    p.add_argument("--budgets", metavar="SIZE,...", help="what the arena may take, by commas; also 70%%")
    p.add_argument(
        "--vary", action="append", default=[], metavar="OPTION=A,B", type=_varied,
        help="values of an option of `lowtide research plan`, as time=5,60 or allow=,fission; where one has commas, "
        "semicolons stand between them: 'allow=fission;fission,recompute'; may be given several times",
    )  # fmt: skip
    p.add_argument("--jobs", type=count, metavar="N", help="processes (default: one for each core)")
    p.add_argument("--scheduler", metavar="ADDRESS", help="a Dask scheduler, whose workers do it (extra sweep)")
    p.add_argument("--fresh", action="store_true", help="begin anew, whatever an earlier run has done")


def _varied(text: str) -> tuple[str, list[str]]:
    """An option and its values; with a semicolon among them commas are parts of a value.

    >>> _varied("allow=,fission"), _varied("allow=alias;fission,recompute")
    (('allow', ['', 'fission']), ('allow', ['alias', 'fission,recompute']))
    """
    name, equals, values = text.partition("=")
    if not (name and equals):
        raise argparse.ArgumentTypeError(f"{text[:80]!r} is not OPTION=A,B")
    return name.replace("-", "_"), values.split(";" if ";" in values else ",")


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
