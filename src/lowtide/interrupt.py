"""Ctrl-C and SIGTERM: while the command imports they end it with one line; later they end its search."""

from __future__ import annotations

import os
import signal
import sys
from itertools import pairwise

SAID = "interrupted before there was a result; nothing was written"


def is_command() -> bool:
    """Whether this process was started as ``lowtide`` or as ``python -m lowtide``."""
    words = sys.orig_argv[1:]
    script = "" if {"-c", "-m"} & set(words) else next((w for w in words if not w.startswith("-")), "")
    return os.path.basename(script).removesuffix(".exe") == "lowtide" or ("-m", "lowtide") in pairwise(words)


def end_at_once() -> None:
    """From here on Ctrl-C says that nothing was done and ends the process, unless it is handled or ignored already."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)


def raise_on_interrupt() -> None:
    """From here on Ctrl-C raises `KeyboardInterrupt`, as Python does, and SIGTERM does so too."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))


def _end(*_: object) -> None:
    try:
        os.write(2, f"lowtide: {SAID}\n".encode())
    finally:
        os._exit(130)
