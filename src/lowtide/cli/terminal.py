"""What goes to the terminal: one-line messages and progress on stderr, results on stdout."""

from __future__ import annotations

import os
import re
import shutil
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TextIO

from lowtide.errors import InputError
from lowtide.sizes import format_size
from lowtide.stop import Progress

FIRST_SECONDS = 2.0  # a search shorter than this says nothing
TERMINAL_SECONDS = 0.1
PLAIN_SECONDS = 5.0
"""How often progress is said, on a terminal (one line, written over) and elsewhere (a line each time)."""
SILENT_SECONDS = 15.0  # after that long without a word, where it is no terminal, it is said that work goes on


def clean(text: str, *, lines: bool = False) -> str:
    """Text in which control characters, such as those a hostile model's names may hold, are written out.

    >>> clean("a\\x1b[2Jb")
    'a\\\\x1b[2Jb'
    """
    kept = "\n" if lines else ""
    return "".join(c if c.isprintable() or c in kept else c.encode("unicode_escape").decode() for c in text)


def on_terminal() -> bool:
    """Whether results go to a terminal."""
    return sys.stdout is not None and sys.stdout.isatty()


def has_unicode() -> bool:
    """Whether what results go to takes letters beyond ASCII."""
    return (sys.stdout.encoding or "").lower().replace("-", "").startswith("utf")


def say(message: str) -> None:
    """One line on stderr."""
    with suppress(OSError, ValueError):  # stderr may be closed: then no one reads it
        print(f"lowtide: {clean(message)}", file=sys.stderr, flush=True)


def show(text: str) -> None:
    """A result on stdout. Raises `InputError` if it cannot be written; a closed pipe is no error."""
    plain = clean(text, lines=True)
    _print(coloured(plain) if wanted(sys.stdout) else plain)


def show_json(value: Any) -> None:
    """A result as JSON on stdout: dataclasses by their fields. Raises as `show`."""
    import msgspec

    data = msgspec.json.format(msgspec.json.encode(value), indent=1)
    _print(data.decode("utf-8"))


def show_result(value: Any, text: Callable[[], str], *, as_json: bool) -> None:
    """A result on stdout, as JSON or as text. Raises as `show`."""
    if as_json:
        show_json(value)
    else:
        show(text())


def _print(text: str) -> None:
    try:
        print(text, flush=True)
    except OSError as error:
        with suppress(OSError, ValueError):  # or the interpreter complains once more when it ends
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, sys.stdout.fileno())
            os.close(null)
        if not isinstance(error, BrokenPipeError):
            raise InputError(f"cannot write the result: {error.strerror}", "stdout") from None


class ProgressLine:
    """Says on stderr how far a search is; call it with each `Progress`, and `end` it before printing a result.

    As a context it also says that something is still going on where no search reports, as while a large file is read.
    """

    def __init__(self, quiet: bool) -> None:
        self.figure = "peak"  # what the bytes of a search are
        self._quiet = quiet
        self._terminal = sys.stderr is not None and sys.stderr.isatty()
        self._began = self._last_sign = time.monotonic()
        self._last_report = 0.0
        self._last = self._doing = "working"
        self._found = ""
        self._lowest: dict[str, int] = {}  # bytes by label, since it was last said what is done
        self._shown = False
        self._kept = 0  # lines of what is shown until there is something better
        self._over = threading.Event()
        self._writing = threading.Lock()

    def __enter__(self) -> ProgressLine:
        if not self._quiet:
            threading.Thread(target=self._beat, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def _beat(self) -> None:
        """Say that time goes by, whenever nothing else was said for a while."""
        pause = FIRST_SECONDS if self._terminal else SILENT_SECONDS
        while not self._over.wait(FIRST_SECONDS / 2):
            now = time.monotonic()
            if now - self._last_sign >= pause:
                self._tell(f"{self._found}{self._last}, {now - self._began:.0f} s")
                self._last_sign = now if not self._terminal else self._last_sign

    def __call__(self, progress: Progress, label: str = "") -> None:
        """Say it, if it is time to."""
        best, bound = progress.best_bytes, progress.bound_bytes
        if self._found:
            self._say_now(0.0, progress.phase or self._doing)
            return
        if best:
            best = self._lowest[label] = min(best, self._lowest.get(label, best))
        words = [progress.phase] if progress.phase else []
        words += [f"lowest {self.figure} so far {format_size(best)}"] if best else []
        if best > bound > 0:
            words.append(f"{format_size(bound)} ({100 * (bound - best) / best:.2f} %) at the least")
        self._say_now(bound / best if best else 0.0, label + (", ".join(words) or "working"))

    def steps(self, done: int, of: int, label: str) -> None:
        """Say how many of so many steps are done, if it is time to."""
        self._say_now(done / max(1, of), f"{done:,} of {of:,}, {label}")

    def _say_now(self, share: float, text: str) -> None:
        """Say it after a bar of what share is done, if any, and before the seconds that went by."""
        now = time.monotonic()
        pause = TERMINAL_SECONDS if self._terminal else PLAIN_SECONDS
        begun, self._last = now - self._began, text
        text = f"{self._found}{text}"
        if self._quiet or begun < FIRST_SECONDS or (self._last_report and now - self._last_report < pause):
            return
        self._last_report = self._last_sign = now
        shown = f"{bar(share)} " if self._terminal and share else ""
        self._tell(f"{shown}{text}, {begun:.0f} s")

    def doing(self, text: str) -> None:
        """What goes on from now, where nothing reports how far it is."""
        self.clear()
        self._lowest.clear()
        self._last_sign, self._last, self._doing = time.monotonic(), text, text

    def keep_saying(self, text: str) -> None:
        """What was found so far, said from now on before what goes on, in place of the figures of single searches."""
        self._found = f"{text}; " if text else ""

    def message(self, text: str) -> None:
        """A line that stays, such as a row of a benchmark that is done."""
        self.clear()
        self._lowest.clear()
        self._last_sign, self._last = time.monotonic(), "working"
        if not self._quiet:
            say(text)

    def so_far(self, text: str) -> None:
        """Lines that stay above this one, on a terminal, until there are others or it ends."""
        self.clear()
        if self._quiet or not self._terminal:
            return
        width = shutil.get_terminal_size().columns - 1
        lines = [clean(row)[:width] for row in text.splitlines()]
        with self._writing:
            self._take_back()
            sys.stderr.write("".join(f"{row}\n" for row in lines))
            sys.stderr.flush()
            self._kept = len(lines)

    def _take_back(self) -> None:
        if self._kept:
            sys.stderr.write(f"\x1b[{self._kept}A\x1b[J")
            sys.stderr.flush()
            self._kept = 0

    def clear(self) -> None:
        """Take the line away."""
        with self._writing:
            if self._shown:
                sys.stderr.write("\r\x1b[K")
                sys.stderr.flush()
                self._shown = False

    def end(self) -> None:
        """Take the line away, and what stays above it, for good."""
        self._over.set()
        self.clear()
        with self._writing:
            self._take_back()

    def _tell(self, text: str) -> None:
        with self._writing:
            if self._over.is_set():
                return
            if not self._terminal:
                say(text)
                return
            width = shutil.get_terminal_size().columns - 1
            self._shown = True
            sys.stderr.write(f"\r{clean(text)[:width]}\x1b[K")
            sys.stderr.flush()


GREEN, RED, BOLD = "32", "31", "1"
_RULES = (
    (re.compile(r"^(fits)\b", re.MULTILINE), GREEN),
    (re.compile(r"^(does not fit|cannot fit)\b", re.MULTILINE), RED),
    (re.compile(r"(?<= )(fits)$", re.MULTILINE), GREEN),
    (re.compile(r"(?<= )(does not fit|cannot fit|error)$", re.MULTILINE), RED),
    (re.compile(r"(?<!\S)(-\d+\.\d %)"), GREEN),
    (re.compile(r"(?<!\S)(\+\d+\.\d %)"), RED),
    (re.compile(r"\b(proved optimal|peak proved optimal)\b"), BOLD),
)
_BAR = 20


def wanted(stream: TextIO | None) -> bool:
    """Whether a stream is a terminal that has colours, and none are switched off (NO_COLOR, TERM=dumb)."""
    if stream is None or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return stream.isatty()


def coloured(text: str) -> str:
    """A result with what matters in it coloured; without the colours it is the same text.

    >>> coloured("fits: required 1 B")
    '\\x1b[32mfits\\x1b[0m: required 1 B'
    """
    for pattern, colour in _RULES:
        text = pattern.sub(f"\x1b[{colour}m\\1\x1b[0m", text)
    return text


def bar(part: float) -> str:
    """How much of something is done.

    >>> bar(0.25)
    '[#####...............]'
    """
    full = round(_BAR * min(max(part, 0.0), 1.0))
    return f"[{'#' * full}{'.' * (_BAR - full)}]"
