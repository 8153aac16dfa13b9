"""TFLite runtimes, for a process of their own: TFLM and LiteRT are native code that trusts its files, and TFLM prints
what it measures to file descriptor 2."""

from __future__ import annotations

import os
import re
import tempfile
import time
from base64 import b64encode
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

ALIGNMENT = 64
"""Of tensors in LiteRT's arena."""
STEP = 16
"""Arena sizes that are tried are multiples of this."""
RUNS = 15
SECONDS = 5.0
_ROOM = 16 * 2**20


class Refused(Exception):
    """The runtime does not run a file."""

    def __init__(self, file: str, message: str) -> None:
        self.file = file
        super().__init__(" ".join(message.split())[:300])


def answer(
    runtime: str, files: list[str], seed: int, inputs: int, tensors: Sequence[Sequence[int]], timed: bool
) -> dict[str, Any]:
    """What `run` gives, and the seconds of runs in turn if `timed`; or why a file is not run: ``"error"``, ``"file"``.
    `tensors`: for each file those of subgraph 0 that are no constants."""
    try:
        result = run(runtime, files, seed, inputs, tensors)
        return result | ({"seconds": in_turn(runtime, files, seed)} if timed else {})
    except Refused as error:
        return {"error": str(error), "file": error.file}


def refusals(file: str, runtimes: Sequence[str]) -> dict[str, str]:
    """Why runtimes do not open a file; those that do are left out."""
    refused = {}
    for name in runtimes:
        try:
            (_tflm if name == "tflm" else _litert)(name, file)
        except Refused as error:
            refused[name] = str(error)
    return refused


def run(runtime: str, files: Sequence[str], seed: int, inputs: int, tensors: Sequence[Sequence[int]]) -> dict[str, Any]:
    """Run every file on the same random inputs, twice the first; what came out, and what was measured."""
    make = _tflm if runtime == "tflm" else _litert
    sessions = [make(runtime, file) for file in files]
    kinds = sessions[0].inputs
    rng = np.random.default_rng(seed)
    feeds = [[draw(rng, dtype, shape) for dtype, shape in kinds] for _ in range(inputs)]
    results = [[session.run(feed) for feed in feeds] for session in sessions]
    second = make(runtime, files[0])
    repeated = [second.run(feed) for feed in feeds[:2]]
    base = results[0]
    outputs = []
    for i in range(len(base[0])):
        pairs = [(b[i], o[i]) for b, o in zip(base, results[-1], strict=True)]
        equal = all(same(a, b) for a, b in pairs)
        outputs.append(
            {
                "equal": equal,
                "max_abs_difference": None if equal else max(distance(a, b) for a, b in pairs),
                "vacuous": all(same(base[0][i], b[i]) for b in base[1:]),
            }
        )
    steady = all(same(a, b) for x, y in zip(base, repeated, strict=False) for a, b in zip(x, y, strict=True))
    return {
        "outputs": outputs,
        "deterministic": steady,
        "measured": [session.measured(listed) for session, listed in zip(sessions, tensors, strict=True)],
    }


def vectors(file: str, seed: int, inputs: int) -> dict[str, str]:
    """Random inputs and what TFLM makes of them in turn, in base 64: of each run its tensors in the file's order; or
    why it does not run it: ``"error"``."""
    try:
        session = _tflm("tflm", file)
    except Refused as error:
        return {"error": str(error)}
    rng = np.random.default_rng(seed)
    feeds = [[draw(rng, dtype, shape) for dtype, shape in session.inputs] for _ in range(inputs)]
    results = [session.run(feed) for feed in feeds]
    return {
        name: b64encode(b"".join(value.tobytes() for run in runs for value in run)).decode()
        for name, runs in (("given", feeds), ("results", results))
    }


def in_turn(runtime: str, files: Sequence[str], seed: int) -> list[list[float]]:
    """Seconds of runs of each file, one after the other in turn: `RUNS` of each, or fewer once `SECONDS` are over."""
    make = _tflm if runtime == "tflm" else _litert
    sessions = [make(runtime, file) for file in files]
    rng = np.random.default_rng(seed)
    feed = [draw(rng, dtype, shape) for dtype, shape in sessions[0].inputs]
    seconds: list[list[float]] = [[] for _ in sessions]
    began = time.perf_counter()
    while len(seconds[0]) < 3 or (len(seconds[0]) < RUNS and time.perf_counter() - began < SECONDS):
        for taken, session in zip(seconds, sessions, strict=True):
            start = time.perf_counter()
            session.run(feed)
            taken.append(time.perf_counter() - start)
    return seconds


def draw(rng: np.random.Generator, dtype: Any, shape: Sequence[int]) -> np.ndarray:
    """A random input; bytes over their full range, longer integers small, since they may be indices."""
    kind = np.dtype(dtype)
    if kind.kind == "f":
        return rng.standard_normal(shape).astype(kind)
    if kind.kind == "b":
        return rng.integers(0, 2, shape).astype(kind)
    info = np.iinfo(kind)
    low, high = (info.min, info.max) if kind.itemsize == 1 or kind == np.int16 else (0, 2)
    return rng.integers(low, high, shape, endpoint=kind.itemsize <= 2).astype(kind)


def same(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two outputs are equal bit by bit."""
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def distance(a: np.ndarray, b: np.ndarray) -> float:
    """Largest absolute difference."""
    if a.shape != b.shape:
        return float("nan")
    return float(np.max(np.abs(a.astype(np.float64) - b.astype(np.float64)), initial=0.0))


class _Litert:
    """LiteRT, without delegates or with XNNPACK."""

    def __init__(self, interpreter: Any, plain: bool) -> None:
        self.interpreter, self.plain = interpreter, plain
        self.details = interpreter.get_input_details()
        self.inputs = [(d["dtype"], tuple(int(n) for n in d["shape"])) for d in self.details]

    def run(self, feed: Sequence[np.ndarray]) -> list[np.ndarray]:
        for d, value in zip(self.details, feed, strict=True):
            self.interpreter.set_tensor(d["index"], value)
        self.interpreter.invoke()
        return [np.array(self.interpreter.get_tensor(d["index"])) for d in self.interpreter.get_output_details()]

    def measured(self, tensors: Sequence[int]) -> dict[str, int]:
        """Bytes from the first of these tensors to the end of the last, temporary ones that stand with them
        included. Nothing with XNNPACK, whose workspace cannot be seen."""
        if not self.plain:
            return {}
        spans: dict[int, tuple[int, int]] = {}
        for d in self.interpreter.get_tensor_details():
            try:
                value = self.interpreter.tensor(d["index"])()
            except ValueError:
                continue
            start = value.__array_interface__["data"][0]
            spans[d["index"]] = (start, start + value.nbytes)
        own = [spans[t] for t in tensors if t in spans]
        if not own:
            return {}
        low, high = min(s for s, _ in own), max(e for _, e in own)
        for start, end in sorted(span for t, span in spans.items() if t > max(tensors)):
            if low <= start < high + ALIGNMENT:  # what is kept between runs begins 64 bytes on or more
                high = max(high, end)
        return {"arena_bytes": high - low}


def _litert(runtime: str, file: str) -> _Litert:
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    plain = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    kind = OpResolverType.AUTO if runtime == "litert-xnnpack" else plain
    try:
        interpreter = Interpreter(
            model_content=Path(file).read_bytes(), experimental_op_resolver_type=kind, num_threads=1
        )
        interpreter.allocate_tensors()
    except Exception as error:  # LiteRT raises plain errors of several kinds
        raise Refused(file, str(error)) from None
    return _Litert(interpreter, kind is plain)


class _Tflm:
    """TFLM with an arena far too large, and what it says of it."""

    def __init__(self, file: str) -> None:
        self.data = Path(file).read_bytes()
        arena = _ROOM + 4 * len(self.data)
        self.interpreter, output = quiet(lambda: tflm_interpreter(self.data, arena))
        if self.interpreter is None:
            raise Refused(file, output)
        self.inputs: list[tuple[Any, tuple[int, ...]]] = []
        self.outputs = 0
        for is_input, details in (
            (True, self.interpreter.get_input_details),
            (False, self.interpreter.get_output_details),
        ):
            index = 0
            while True:
                try:
                    d, _ = quiet(lambda details=details, index=index: details(index))
                except (IndexError, ValueError, RuntimeError):
                    break
                if is_input:
                    self.inputs.append((d["dtype"], tuple(int(n) for n in d["shape"])))
                else:
                    self.outputs += 1
                index += 1
        _, output = quiet(self.interpreter.print_allocations)
        self.used = {name: int(n) for name, n in re.findall(r"Arena allocation (total|head|tail) (\d+)", output)}

    def run(self, feed: Sequence[np.ndarray]) -> list[np.ndarray]:
        for i, value in enumerate(feed):
            self.interpreter.set_input(value, i)
        self.interpreter.invoke()
        return [np.array(self.interpreter.get_output(i)) for i in range(self.outputs)]

    def measured(self, tensors: Sequence[int]) -> dict[str, int]:
        """Head, tail and total that TFLM reports, and the smallest arena with which it starts."""
        return {f"{name}_bytes": n for name, n in self.used.items()} | {
            "smallest_arena_bytes": smallest_arena(self.data, self.used["total"])
        }


def _tflm(_: str, file: str) -> _Tflm:
    return _Tflm(file)


def tflm_interpreter(data: bytes, arena: int) -> Any:
    """An interpreter, or None if the arena is too small or the model not one for TFLM."""
    try:
        return _tflm_runtime().Interpreter.from_bytes(data, arena_size=arena)
    except RuntimeError:
        return None


@cache
def _tflm_runtime() -> Any:
    """The module of TFLM's interpreter. To count a model's resource variables it unpacks all of the model, weights too,
    which takes longer than all else; here it does so only for models with an operator that makes such a variable."""
    from tflite_micro.python.tflite_micro import runtime

    unpacked = runtime.count_resource_variables

    def count_resource_variables(data: bytes) -> int:
        model = runtime.schema_fb.Model.GetRootAsModel(data, 0)
        codes = (model.OperatorCodes(i) for i in range(model.OperatorCodesLength()))
        made = any(c and c.BuiltinCode() == runtime.schema_fb.BuiltinOperator.VAR_HANDLE for c in codes)
        return unpacked(data) if made else 0

    runtime.count_resource_variables = count_resource_variables
    return runtime


def smallest_arena(data: bytes, used: int) -> int:
    """Smallest arena, a multiple of 16, with which TFLM starts, by bisection; never below what it uses in the end.
    While it starts, TFLM takes memory that it gives back, so that more may be needed than is used. Each size is
    tried in a process of its own: some kernels write where they got no memory."""

    def starts(units: int) -> bool:
        child = os.fork()
        if child == 0:
            interpreter, _ = quiet(lambda: tflm_interpreter(data, units * STEP))
            os._exit(0 if interpreter is not None else 1)
        return os.waitpid(child, 0)[1] == 0

    low, high = -(-used // STEP) - 1, -(-used // STEP)
    while not starts(high):
        low, high = high, high + max(64, high // 8)
    while high - low > 1:
        middle = (low + high) // 2
        if not starts(middle):
            low = middle
        else:
            high = middle
    return high * STEP


def quiet(call: Callable[[], Any]) -> tuple[Any, str]:
    """What a call returns, and what it wrote to file descriptor 2 meanwhile."""
    with tempfile.TemporaryFile() as held:
        kept = os.dup(2)
        os.dup2(held.fileno(), 2)
        try:
            result = call()
        finally:
            os.dup2(kept, 2)
            os.close(kept)
        held.seek(0)
        return result, held.read().decode("utf-8", "replace")
