"""Output files that appear together or not at all, and never over an input."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

from lowtide.arguments import check
from lowtide.errors import InputError


class Outputs:
    """Files being written under temporary names; leaving the ``with`` block renames them all, an error none.

    Parameters
    ----------
    inputs
        Files that no output may be, not even through a link.

    Examples
    --------
    ::

        with Outputs([source]) as outputs:
            with outputs.create(first) as file:
                file.write(b"...")
            outputs.write(second, b"...")
    """

    def __init__(self, inputs: Iterable[str | Path] = ()) -> None:
        self._inputs = [Path(p) for p in inputs]
        self._pending: dict[Path, Path] = {}

    def __enter__(self) -> Outputs:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.commit()
        else:
            self.discard()

    @property
    def pending(self) -> Mapping[Path, Path]:
        """The temporary path of each file until `commit`, by the name that it will have."""
        return self._pending

    def protect(self, path: str | Path) -> None:
        """Add a file that no output may be."""
        self._inputs.append(Path(path))

    @contextmanager
    def create(self, target: str | Path) -> Iterator[BinaryIO]:
        """A file to write `target` into; until `commit` it has a temporary name in `target`'s directory. Raises
        `InputError`: `target` is an input, is already being written, is no regular file, or cannot be written."""
        check("the output", target, "str | Path")
        place = str(target)
        final = self._checked(Path(target), place)
        try:
            temporary, file = _create_temporary(final)
        except FileNotFoundError:
            why = f"there is no folder {str(final.parent)!r}; make it first"
            if final.parent.is_dir():  # such as one that a system makes of itself
                why = f"no file can be made in {str(final.parent)!r}; name another output"
            raise InputError(f"cannot write here: {why}", place) from None
        except OSError as error:
            raise InputError(f"cannot write here: {error.strerror or error}; name another output", place) from None
        self._pending[final] = temporary
        try:
            with file:
                yield file
            if final.exists():
                shutil.copymode(final, temporary)
        except OSError as error:
            raise InputError(f"cannot write the file: {error.strerror or error}", place) from None

    def write(self, target: str | Path, data: bytes) -> None:
        """Write `target` with exactly `data`. Raises as `create`."""
        with self.create(target) as file:
            file.write(data)

    def commit(self) -> None:
        """Rename every file to its own name, replacing older files. Raises `InputError`: a rename failed; the files
        renamed before are what they were, and all others are removed."""
        older: dict[
            Path, Path | None
        ] = {}  # what was replaced, to where it can be restored from; None: there was nothing
        try:
            for final, temporary in list(self._pending.items()):
                try:
                    if len(self._pending) > 1:  # nothing can fail after the last
                        older[final] = _second_name(final)
                    os.replace(temporary, final)
                except OSError as error:
                    raise InputError(f"cannot write the file: {error.strerror or error}", str(final)) from None
                del self._pending[final]
        except BaseException:
            for final, kept in older.items():
                if final not in self._pending:
                    _put_back(final, kept)
            self.discard()
            raise
        finally:
            for kept in older.values():
                if kept is not None:
                    kept.unlink(missing_ok=True)

    def discard(self) -> None:
        """Remove every temporary file."""
        for temporary in self._pending.values():
            with suppress(OSError):
                temporary.unlink()
        self._pending.clear()

    def _checked(self, target: Path, place: str) -> Path:
        if place == "-":
            raise InputError("this would be a file of that name; name a file (--json prints the result)", place)
        try:
            final = Path(os.path.realpath(target))
            status = final.stat() if final.exists() else None
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) and error.strerror else error
            raise InputError(f"cannot write here: {why}; name another output", place) from None
        if status is not None and stat.S_ISDIR(status.st_mode):
            raise InputError("the output is a directory; name a file in it", place)
        if status is not None and not stat.S_ISREG(status.st_mode):
            raise InputError("the output is no regular file; name another output", place)
        if final in self._pending:
            raise InputError("two outputs have this name; give each its own", place)
        for path in self._inputs:
            with suppress(OSError):
                if final == Path(os.path.realpath(path)) or (status is not None and path.samefile(final)):
                    raise InputError("the output is the input; name another output", place)
        return final


def _second_name(final: Path) -> Path | None:
    """Another name of a file that is about to be replaced, a copy where there are no links; None if there is none."""
    if not final.exists():
        return None
    kept, file = _create_temporary(final)
    file.close()
    try:
        kept.unlink()
        os.link(final, kept)
    except OSError:
        shutil.copy2(final, kept)
    return kept


def _put_back(final: Path, kept: Path | None) -> None:
    with suppress(OSError):
        if kept is None:
            final.unlink()
        else:
            os.replace(kept, final)


def _create_temporary(final: Path) -> tuple[Path, BinaryIO]:
    attempt = 0
    while True:
        temporary = final.parent / f".lowtide-{os.getpid()}-{attempt}.tmp"
        try:
            return temporary, open(temporary, "xb")
        except FileExistsError:
            attempt += 1


@contextmanager
def output_folders(folder: str | Path, paths: Iterable[Path]) -> Iterator[None]:
    """As `output_folder`, with the folders of all these files in it."""
    parents = {parent for path in paths for parent in path.parents if parent.is_relative_to(folder)}
    with ExitStack() as stack:
        for parent in sorted({Path(folder), *parents}):
            stack.enter_context(output_folder(parent))
        yield


@contextmanager
def output_folder(folder: str | Path) -> Iterator[None]:
    """A folder that is there while something is written into it, and not made in vain. Raises `InputError`: it cannot
    be made."""
    path = Path(folder)
    there = path.is_dir()
    try:
        path.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        file = next((p for p in (path, *path.parents) if p.is_file()), None)
        why = f"{str(file)!r} is a file" if file is not None else getattr(error, "strerror", None) or error
        raise InputError(f"cannot make the folder: {why}; name another one", str(folder)) from None
    try:
        yield
    finally:
        if not there:
            with suppress(OSError):  # it is not empty
                path.rmdir()
