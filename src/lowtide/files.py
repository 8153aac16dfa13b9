"""Files that a user names, opened without surprises: regular ones only, and of a size that what they hold can have."""

from __future__ import annotations

import mmap
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from lowtide.errors import InputError
from lowtide.names import did_you_mean

Buffer = bytes | mmap.mmap

HLO_ENDINGS = (".hlo", ".hlo.txt", "_after_optimizations.txt")
"""Of scheduled HLO text: as people name it, and as XLA names its dumps."""
MAX_READ_BYTES = 32 * 1024**2
"""Model files up to this size are read as they are; larger ones are mapped, and their weights left out."""
MOST_JSON_BYTES = 1024**3  # of a graph, a plan, or a list of buffers
MOST_SETTINGS_BYTES = 1024**2  # of a target or a board
_MOST_NAMES, _LIKENESS = 1000, 0.75
"""Files of a folder that are looked at for one that was meant, and how like it that is: all models' names end alike."""


@contextmanager
def open_regular(path: str | Path, what: str = "file") -> Iterator[tuple[BinaryIO, int]]:
    """A file and its size in bytes; it does not wait for a named pipe without a writer. `what`: what the file should
    be, for the message. Raises `InputError`: missing, unreadable, or no regular file."""
    place = str(path)
    try:
        with open(path, "rb", opener=_open_without_waiting) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise InputError(f"this is not a regular file; give the {what} itself", place)
            yield file, status.st_size
    except IsADirectoryError:
        raise InputError(f"cannot read the {what}: this is a directory; give the {what} in it", place) from None
    except OSError as error:
        hint = (
            f"; this names a network: give the file of the {what}"
            if place.startswith("zoo:")
            else _similar_names(path, error)
        )
        raise InputError(f"cannot read the {what}: {error.strerror or error}{hint}", place) from None
    except ValueError as error:
        if "null byte" not in str(error):
            raise
        raise InputError("the file name holds a null byte; give the name of a file", repr(place)) from None


@contextmanager
def open_bytes(path: Path) -> Iterator[Buffer]:
    """The bytes of a model file: read when small, mapped when large. Raises `InputError`: as `open_regular`, or
    empty."""
    with open_regular(path) as (file, size):
        if size == 0:
            raise InputError("the file is empty; export the model again", str(path))
        if size <= MAX_READ_BYTES:
            yield file.read()
        else:
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
                yield mapped


def read_all(path: str | Path, what: str = "file", most_bytes: int = MOST_JSON_BYTES) -> bytes:
    """All bytes of a file. Raises `InputError`: as `open_regular`, or of more than `most_bytes`."""
    with open_regular(path, what) as (file, size):
        if size > most_bytes:
            raise InputError(f"it has {size:,} bytes, and a {what} has at most {most_bytes:,}", str(path))
        return file.read(most_bytes + 1)


def _similar_names(path: str | Path, error: OSError) -> str:
    """Files in the folder of a missing file, one of which may have been meant."""
    if not isinstance(error, FileNotFoundError):
        return ""
    try:
        with os.scandir(os.path.dirname(path) or ".") as entries:
            names = [entry.name for entry in islice(entries, _MOST_NAMES)]
    except OSError:
        return "; there is no such folder"
    name = os.path.basename(path)
    longer = _containing(name, names)
    return did_you_mean(name, longer, 0.0) or did_you_mean(name, names, _LIKENESS)


def _containing(name: str, names: Sequence[str]) -> list[str]:
    """Longer names of the same format with this one in them; those that lowtide wrote only if there are no others.

    >>> _containing("vae.onnx", ["vae_decoder.onnx", "small_vae.onnx", "small_vae.plan.json", "vae.txt"])
    ['vae_decoder.onnx']
    """
    stem, ending = os.path.splitext(name)
    longer = [each for each in names if stem and stem in each and ending and each.endswith(ending)]
    own = [each for each in longer if each.removesuffix(ending) + ".plan.json" in names]
    return [each for each in longer if each not in own] or own


def _open_without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
