"""A graph JSON on the standard input, as a file for as long as the command runs."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lowtide.errors import InputError
from lowtide.files import MOST_JSON_BYTES

STDIN = "-"


@contextmanager
def spooled(options: argparse.Namespace) -> Iterator[None]:
    """Let the options name a file in place of ``-``, if that is the model.

    Raises
    ------
    InputError
        Nothing comes, or more than a graph JSON can have.
    """
    models = getattr(options, "models", None) or [getattr(options, "model", None)]
    if STDIN not in models:
        yield
        return
    with tempfile.TemporaryDirectory(prefix="lowtide-") as folder:
        path = Path(folder) / "stdin.graph.json"
        path.write_bytes(_read())
        names = [str(path) if name == STDIN else name for name in models]
        if hasattr(options, "models"):
            options.models = names
        else:
            options.model = names[0]
        yield


def _read() -> bytes:
    data = b"" if sys.stdin is None or sys.stdin.isatty() else sys.stdin.buffer.read(MOST_JSON_BYTES + 1)
    if not data:
        raise InputError("nothing comes; pipe a graph JSON in, or name a file", "stdin")
    if len(data) > MOST_JSON_BYTES:
        raise InputError(f"more than {MOST_JSON_BYTES:,} bytes come; give the file itself", "stdin")
    return data
