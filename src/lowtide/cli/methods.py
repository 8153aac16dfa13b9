"""The methods there are, as `compare --help` lists them."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence

WIDTH = 78


def listed(arguments: Sequence[str]) -> bool:
    """Whether a command line asks for the list."""
    return "compare" in arguments[1:2] and not {"-h", "--help"}.isdisjoint(arguments)


def methods_text() -> str:
    """Each method with a line on what it does, and what `--set METHOD.OPTION=VALUE` takes of it."""
    from lowtide.optimize.recompute.registry import recompute_methods
    from lowtide.schedule.registry import methods
    from lowtide.spill.registry import spill_methods

    lines = ["methods, each with what --set METHOD.OPTION=VALUE takes:", *_listing(methods())]
    lines += ["", "methods with --memory:", *_listing(spill_methods())]
    lines += ["", "methods with --allow recompute:", *_listing(recompute_methods())]
    return "\n".join(lines)


def _listing(methods: Mapping[str, type]) -> Iterator[str]:
    from lowtide.schedule.registry import options_of

    for name, method in methods.items():
        does = (method.__doc__ or "").strip().partition("\n")[0]
        yield from textwrap.wrap(f"{name:12} {does}", WIDTH, initial_indent="  ", subsequent_indent=" " * 15)
        takes = "; ".join(f"{option}: {text}" for option, text in options_of(method).items())
        yield from textwrap.wrap(takes, WIDTH, initial_indent=" " * 17, subsequent_indent=" " * 17)
