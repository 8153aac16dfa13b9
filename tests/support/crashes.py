"""Functions for processes of their own: what they do ends a process."""

from __future__ import annotations

import os
import signal
import time
from typing import Any


def crash(*_: Any) -> None:
    """End this process as native code does that trusts its input."""
    os.abort()


def end_all() -> None:
    """End this process and the one that it is a fork of."""
    os.killpg(0, signal.SIGKILL)


def leave(status: int) -> None:
    """End this process with an exit status."""
    os._exit(status)


def wait(seconds: float) -> None:
    """Answer late."""
    time.sleep(seconds)


def raises(message: str) -> None:
    """Raise."""
    raise ValueError(message)


def place() -> list[str | None]:
    """The folder, and an environment variable."""
    return [os.getcwd(), os.environ.get("LOWTIDE_TEST")]
