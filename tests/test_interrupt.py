"""Ctrl-C before the command has begun: one line and exit status 130."""

from __future__ import annotations

import os
import subprocess
import sys

_KILL = "import os, signal; os.kill(os.getpid(), signal.SIGINT)"


def run(code: str, *words: str) -> tuple[int, str]:
    """Exit status and stderr of Python with SIGINT not ignored, started as if with `words`."""
    start = f"import sys, signal; signal.signal(2, signal.default_int_handler); sys.orig_argv[1:] = {list(words)!r}; "
    done = subprocess.run([sys.executable, "-c", start + code], capture_output=True, text=True, env=os.environ)
    return done.returncode, done.stderr


def test_the_command_ends_with_one_line_while_it_imports() -> None:
    """For `python -m lowtide` and for the script."""
    for words in (["-m", "lowtide"], ["/somewhere/bin/lowtide", "plan"], ["-X", "dev", "-m", "lowtide", "plan"]):
        status, said = run(f"import lowtide; {_KILL}", *words)
        assert status == 130
        assert said == "lowtide: interrupted before there was a result; nothing was written\n"


def test_a_program_that_imports_lowtide_keeps_its_own() -> None:
    """Python's KeyboardInterrupt, as without lowtide."""
    for words in (["-m", "pytest", "lowtide"], ["run.py"], ["-c", "lowtide"]):
        _, said = run(f"import lowtide; {_KILL}", *words)
        assert said.rstrip().endswith("KeyboardInterrupt")


def test_the_command_handles_it_once_it_runs() -> None:
    """From `main` on, Ctrl-C is an exception, which stops a search and keeps its best plan."""
    code = f"import lowtide.cli as c; c._run = lambda a: exec({_KILL!r}); sys.exit(c.main([]))"
    assert run(code, "-m", "lowtide") == (130, "lowtide: interrupted before there was a result; nothing was written\n")
    ignored = "import lowtide.interrupt as i; signal.signal(2, signal.SIG_IGN); i.end_at_once(); " + _KILL
    assert run(ignored, "run.py") == (0, "")
