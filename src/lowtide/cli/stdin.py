"""What is piped in (``-``, /dev/stdin, or a shell's ``<(command)``), as a file for as long as the command runs."""

from __future__ import annotations

import argparse
import os
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lowtide.errors import InputError
from lowtide.files import MOST_JSON_BYTES

STDIN = ("-", "/dev/stdin")


@contextmanager
def spooled(options: argparse.Namespace) -> Iterator[None]:
    """Let the options name a file in place of a pipe, if a model or the plan to check is one. Raises `InputError`:
    nothing comes, more than a graph JSON can have, or both are to come on the standard input."""
    models = getattr(options, "models", None) or [getattr(options, "model", None)]
    names = [*models, options.plan_file if options.parser.prog == "lowtide verify" else None]  # else it is written
    if not any(map(_is_piped, names)):
        yield
        return
    if sum(name in STDIN for name in names) > 1:
        raise InputError("the standard input comes once; name a file for the others", "stdin")
    with tempfile.TemporaryDirectory(prefix="lowtide-") as folder:
        whats = ["graph"] * len(models) + ["plan"]
        names = [_file(name, what, folder, n) for n, (name, what) in enumerate(zip(names, whats, strict=True))]
        if hasattr(options, "models"):
            options.models = names[:-1]
        else:
            options.model = names[0]
        if names[-1] is not None:
            options.plan_file = names[-1]
        yield


def _is_piped(name: str | None) -> bool:
    if name in STDIN:
        return True
    try:
        return name is not None and stat.S_ISFIFO(os.stat(name).st_mode)
    except (OSError, ValueError):
        return False


def _file(name: str | None, what: str, folder: str, n: int) -> str | None:
    """The name of a file with what comes through a pipe; any other name as it is."""
    if name is None or not _is_piped(name):
        return name
    number = n if n and what == "graph" else ""
    path = Path(folder) / f"stdin{number}.{what}.json"
    path.write_bytes(_read(name, f"a {what} JSON"))
    return str(path)


def _read(name: str, what: str) -> bytes:
    place = "stdin" if name in STDIN else name
    if name in STDIN:
        data = b"" if sys.stdin is None or sys.stdin.isatty() else sys.stdin.buffer.read(MOST_JSON_BYTES + 1)
    else:
        with open(name, "rb") as pipe:
            data = pipe.read(MOST_JSON_BYTES + 1)
    if not data:
        raise InputError(f"nothing comes; pipe {what} in, or name a file", place)
    if len(data) > MOST_JSON_BYTES:
        raise InputError(f"more than {MOST_JSON_BYTES:,} bytes come; give the file itself", place)
    return data
