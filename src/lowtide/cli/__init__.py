"""The command line: it parses, calls a function of `lowtide.api`, writes what was requested, and prints."""

from __future__ import annotations

import gc
import io
import sys
from collections.abc import Sequence

from lowtide.errors import LowtideError
from lowtide.interrupt import SAID, raise_on_interrupt
from lowtide.version import __version__


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command. Returns: the exit status (`docs/contract.md`, Exit status)."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments[:1] == ["--version"]:  # without the parser, which imports every command
        print(f"lowtide {__version__}")
        return 0
    from lowtide.cli.terminal import say

    if argv is None:
        gc.set_threshold(2_000_000)  # graphs are large and have no cycles: collecting often only costs time
    verbose = "-v" in arguments or "--verbose" in arguments
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        raise_on_interrupt()
        return _run(arguments)
    except LowtideError as error:
        if verbose and error.__cause__ is not None:
            _traceback()
        say(str(error))
        return error.exit_status
    except KeyboardInterrupt:
        say(SAID)
        return 130
    except MemoryError:
        say("out of memory; lower --search-memory, or plan on a larger machine")
        return 1
    except Exception as error:  # a bug is one line too; -v shows the rest
        if verbose:
            _traceback()
        hint = "" if verbose else "; run it with -v for the traceback"
        say(f"a bug of lowtide's, {type(error).__name__}: {error}{hint}")
        return 1


def _run(arguments: list[str]) -> int:
    import warnings

    from lowtide.cli.parser import parse
    from lowtide.cli.stdin import spooled
    from lowtide.cli.terminal import ProgressLine, say

    def show(message: Warning | str, *_: object) -> None:
        say(f"warning: {message}")

    with warnings.catch_warnings():
        warnings.simplefilter("default")
        warnings.showwarning = show  # type: ignore[assignment]
        options = parse(arguments)
        if isinstance(options, int):
            return options
        with spooled(options), ProgressLine(options.quiet) as options.line:
            status = options.command(options)
            return 130 if getattr(options, "interrupted", False) else status


def _traceback() -> None:
    import traceback

    from lowtide.cli.terminal import clean

    sys.stderr.write(clean(traceback.format_exc(), lines=True))
