"""Calls in forks of a process that has imported a runtime."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

import pytest

from lowtide.run import forks
from lowtide.run.forks import CallEndedError, call


@pytest.fixture(autouse=True)
def own_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a runtime, which takes longer to import than all else."""
    monkeypatch.setattr(forks, "RUNTIMES", {"none": ()})


def test_what_ends_a_fork_ends_no_more() -> None:
    """The next call is answered by the same process, or by a new one."""
    (first,) = {call("none", "os:getppid") for _ in range(2)}
    for function, said in (("crash", "SIGABRT"), ("end_all", "the process that was to call it ended")):
        with pytest.raises(CallEndedError) as raised:
            call("none", f"support.crashes:{function}")
        assert str(raised.value) == said
        assert (call("none", "os:getppid") == first) == (function == "crash")
    for arguments, said in ((("leave", 3), "exit status 3"), (("raises", "no\nmore"), "ValueError: no")):
        with pytest.raises(CallEndedError, match=said):
            call("none", f"support.crashes:{arguments[0]}", arguments[1])
    with pytest.raises(CallEndedError, match=r"no result after 0\.01 s"):
        call("none", "support.crashes:wait", 600, seconds=0.01)
    assert call("none", "os:getpid") != os.getpid()


def test_a_call_has_the_callers_folder_and_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the call, not those of the time when the server started; and its path of modules."""
    call("none", "os:getppid")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LOWTIDE_TEST", "1")
    assert call("none", "support.crashes:place") == [str(tmp_path), "1"]
    (tmp_path / "given").with_suffix(".py").write_text("def twice(x):\n    print('not an answer')\n    return 2 * x\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    assert call("none", "given:twice", 21) == 42


def test_threads_have_servers_of_their_own() -> None:
    """None takes another's answer."""
    seen: list[list[int]] = []
    threads = [threading.Thread(target=lambda k=k: seen.append([k, call("none", "builtins:abs", -k)])) for k in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(seen) == [[1, 1], [2, 2]]


@pytest.mark.slow
def test_a_server_that_ended_is_replaced() -> None:
    """And those that wait end with this process."""
    call("none", "os:getppid")
    server = forks._idle[-1]
    server.process.kill()
    server.process.wait()
    assert call("none", "os:getppid") != server.process.pid
    forks._stop_idle()
    assert forks._idle == []
