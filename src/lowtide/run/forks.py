"""Native runtimes in processes of their own: what they allocate, print or crash on stays there.

    caller  --a line of JSON-->  server, which has imported the runtime  --fork-->  child: calls a function, answers

A fork is ready in milliseconds; a fresh interpreter takes half a second of imports.
"""

from __future__ import annotations

import atexit
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
from typing import Any

RUNTIMES: Mapping[str, tuple[str, ...]] = {
    "onnx": ("onnxruntime", "onnx"),
    "tflite": ("ai_edge_litert.interpreter", "tflite_micro.python.tflite_micro.runtime"),
}
"""Modules that a server imports, of those that are installed."""


class CallEndedError(Exception):
    """A call's process ended, or took too long, before there was a result; the message says how."""


def call(runtime: str, function: str, *arguments: Any, seconds: float | None = None) -> Any:
    """What ``module:function`` returns for JSON arguments, called in a fork of a process that has imported a runtime of
    `RUNTIMES`. Raises `CallEndedError`: the fork crashes, the function raises, or takes more than `seconds`."""
    server = _idle_server(runtime)
    try:
        answer = server.ask(function, arguments, seconds)
    except BaseException:  # an interrupt, say: whatever the server answers later is of no call
        server.stop()
        raise
    if answer is None:
        server.stop()
        raise CallEndedError("the process that was to call it ended")
    _idle.append(server)
    if "ended" in answer:
        raise CallEndedError(answer["ended"])
    return answer["result"]


class _Server:
    """A process that has imported a runtime. It ends when its standard input does."""

    def __init__(self, runtime: str, path: str) -> None:
        self.runtime, self.path, self.owner = runtime, path, os.getpid()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "lowtide.run.forks", *RUNTIMES[runtime]],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            env=os.environ | {"PYTHONPATH": path, "TF_CPP_MIN_LOG_LEVEL": "3"},
            start_new_session=True,  # Ctrl-C ends lowtide, which ends it
        )  # fmt: skip

    def ask(self, function: str, arguments: tuple[Any, ...], seconds: float | None) -> dict[str, Any] | None:
        """The answer to one call; None: the server ended."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        request = {"function": function, "arguments": arguments, "folder": os.getcwd(), "environment": {**os.environ}}
        try:
            print(json.dumps(request), file=self.process.stdin, flush=True)
        except OSError:
            return None
        if not select.select([self.process.stdout], [], [], seconds)[0]:
            raise CallEndedError(f"no result after {seconds:g} s")
        line = self.process.stdout.readline()
        return json.loads(line) if line else None

    def stop(self) -> None:
        """End it and its fork."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.communicate()


_idle: list[_Server] = []
"""Servers that wait for a call. A thread that finds none starts one."""


def _idle_server(runtime: str) -> _Server:
    path, own = os.pathsep.join(p for p in sys.path if p), os.getpid()
    for server in [s for s in _idle if s.runtime == runtime and s.owner == own]:
        with suppress(ValueError):  # another thread took it
            _idle.remove(server)
            if server.path == path and server.process.poll() is None:
                return server
            server.stop()
    return _Server(runtime, path)


@atexit.register
def _stop_idle() -> None:
    while _idle:
        server = _idle.pop()
        if server.owner == os.getpid():
            server.stop()


def main() -> None:
    """Answer the calls on standard input, each in a fork; import the modules that the arguments name before."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a runtime prints is no answer
    for name in sys.argv[1:]:
        with suppress(ImportError):
            import_module(name)
    for line in sys.stdin:
        request = json.loads(line)
        module = request["function"].partition(":")[0]
        with suppress(ImportError):
            import_module(module)
        child = os.fork()
        if not child:
            print(json.dumps(_result(request)), file=answers, flush=True)
            os._exit(0)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if status:
            how = signal.Signals(-status).name if status < 0 else f"exit status {status}"
            print(json.dumps({"ended": how}), file=answers, flush=True)


def _result(request: Mapping[str, Any]) -> dict[str, Any]:
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    module, _, name = request["function"].partition(":")
    try:
        return {"result": getattr(import_module(module), name)(*request["arguments"])}
    except Exception as error:  # runtimes' own kinds of error have no common base
        lines = str(error).splitlines() or [""]
        return {"ended": f"{type(error).__name__}: {lines[0][:200]}"}


if __name__ == "__main__":
    main()
