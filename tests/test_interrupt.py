"""Ctrl-C before the command has begun: one line and exit status 130; and what else may end a search."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

import lowtide
from lowtide.stop import Progress

HARD = "zoo:random_width:width=32,n=300"
"""Takes minutes to prove."""

_KILL = "import os, signal; os.kill(os.getpid(), signal.SIGINT)"


def run(code: str, *words: str) -> tuple[int, str]:
    """Exit status and stderr of Python with SIGINT not ignored, started as if with `words`."""
    start = f"import sys, signal; signal.signal(2, signal.default_int_handler); sys.orig_argv[1:] = {list(words)!r}; "
    done = subprocess.run([sys.executable, "-c", start + code], capture_output=True, text=True, env=os.environ)
    return done.returncode, done.stderr


@pytest.mark.slow
def test_the_command_ends_with_one_line_while_it_imports() -> None:
    """For `python -m lowtide` and for the script."""
    for words in (["-m", "lowtide"], ["/somewhere/bin/lowtide", "plan"], ["-X", "dev", "-m", "lowtide", "plan"]):
        status, said = run(f"import lowtide; {_KILL}", *words)
        assert status == 130
        assert said == "lowtide: interrupted before there was a result; nothing was written\n"


@pytest.mark.slow
def test_a_program_that_imports_lowtide_keeps_its_own() -> None:
    """Python's KeyboardInterrupt, as without lowtide."""
    for words in (["-m", "pytest", "lowtide"], ["run.py"], ["-c", "lowtide"]):
        _, said = run(f"import lowtide; {_KILL}", *words)
        assert said.rstrip().endswith("KeyboardInterrupt")


def test_the_command_handles_it_once_it_runs() -> None:
    """From `main` on, Ctrl-C is an exception, which stops a search and keeps its best plan."""
    code = f"import lowtide.cli as c; c._run = lambda a: exec({_KILL!r}); sys.exit(c.main([]))"
    assert run(code, "-m", "lowtide") == (130, "lowtide: interrupted before there was a result; nothing was written\n")
    assert run(code.replace("SIGINT", "SIGTERM"), "-m", "lowtide")[0] == 130
    ignored = "import lowtide.interrupt as i; signal.signal(2, signal.SIG_IGN); i.end_at_once(); " + _KILL
    assert run(ignored, "run.py") == (0, "")


@pytest.mark.parametrize("first_slice", ["2000", "40000"])
def test_what_a_report_raises_arrives(first_slice: str) -> None:
    """From the first turns on, and from those that two threads share, which it must not end the process from."""
    asked = 0

    def report(progress: Progress) -> None:
        nonlocal asked
        asked += 1
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        lowtide.research.plan(HARD, target="strict", time=20, report=report, options={"first_slice": first_slice})
    assert asked == 1


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers that signal on this system")
@pytest.mark.parametrize("memories", [{}, {"fast": 900}])
def test_what_a_handler_of_a_signal_raises_arrives(memories: dict[str, int]) -> None:
    """A time-out of the caller's own is not taken for Ctrl-C, with which a search ends and the plan goes on."""

    def too_late(*_: object) -> None:
        raise TimeoutError("of the caller")

    before = signal.signal(signal.SIGALRM, too_late)
    signal.setitimer(signal.ITIMER_REAL, 1.0)
    try:
        with pytest.raises(TimeoutError, match="of the caller"):
            lowtide.research.plan(HARD, target="strict", time=20, memories=memories)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
