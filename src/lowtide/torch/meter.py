"""What a step really takes: storages that live at once, the allocator's own events, and single ops by themselves.

Two meters that share nothing. `lowtide.run.torch` sees the results of every operator and when they die, and
nothing of what a kernel takes inside; `allocator_peak` reads each allocation and release that torch's profiler wrote
down, and on CUDA what the allocator counted (`lowtide.torch.cuda_meter`).
"""

from __future__ import annotations

import bisect
import itertools
import os
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from lowtide.errors import InputError, first_line
from lowtide.torch.capture import library
from lowtide.torch.cost import Costs, OpCost, signature
from lowtide.torch.cuda_meter import Device, check_device, cuda_peak, cuda_seconds
from lowtide.torch.generate import expression
from lowtide.torch.program import Action, Program, refs

RUNS = 3  # times that an op is timed; one that takes long is timed once

LONG_SECONDS = 0.2


def allocator_peak(function: Callable[[], Any], device: Device = ("cpu", None)) -> tuple[Any, int]:
    """What a function returns, and the most bytes that the allocator gave out while it ran, by its own events; on a
    CUDA `device` (`Program.device`) by its own count of requested bytes.

    Releases of what was allocated before do not count.
    """
    if device[0] == "cuda":
        returned, most = cuda_peak(function, device)
        return returned, most.requested_bytes
    returned, events = _profiled(function)
    return returned, max(itertools.accumulate(size for _, size in _memory_events(events)), default=0)


def _profiled(function: Callable[[], Any]) -> tuple[Any, list[Any]]:
    """What a function returns, and every event that torch's profiler wrote down meanwhile."""
    torch = library()
    with (
        _quiet(),
        torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profiler,
    ):
        returned = function()
    return returned, list(profiler.profiler.kineto_results.events())


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the profiler's own lines on stderr, unless the user set how much it says."""
    name = "KINETO_LOG_LEVEL"
    if name in os.environ:
        yield
        return
    os.environ[name] = "9"
    try:
        yield
    finally:
        del os.environ[name]


def _memory_events(events: Iterable[Any]) -> list[tuple[int, int]]:
    """Nanoseconds and bytes of each allocation and release, in order."""
    return sorted([(e.start_ns(), e.nbytes()) for e in events if e.name() == "[memory]"], key=lambda e: e[0])


def no_costs(torch: Any, program: Program) -> Costs:
    """An empty table for the machine that this runs on."""
    return Costs(program.device[0], str(torch.__version__), torch.get_num_threads(), [])


def measure_ops(
    program: Program, costs: Costs, report: Callable[[int, int], None] | None = None
) -> tuple[Costs, tuple[str, ...]]:
    """A cost table with an entry for each op of a program, those that it has not measured by itself. `report`:
    called with how many ops are measured, and of how many. Returns the table, and a line for each op that torch did
    not run by itself. Raises `InputError`: there is no such device; or the table is of another one."""
    torch = library()
    missing: dict[str, Action] = {}
    for action in program.actions:
        key = signature(program, action)
        if key not in costs.by_signature:
            missing.setdefault(key, action)
    if missing and {costs.device, program.device[0]} == {"cpu", "cuda"}:
        message = f"the cost table is of {costs.device}, and lacks {len(missing)} kinds of op of a step on"
        raise InputError(f"{message} {program.device[0]}; give a table of that, or measure=False")
    ops = [_SingleOp(torch, program, action) for action in missing.values()]

    def run_all(meter: Callable[[int, Callable[[], Any]], Any]) -> None:
        for k, op in enumerate(ops):
            op.run_twice(lambda call, k=k: meter(k, call))
            if report is not None:
                report(k + 1, len(ops))

    with torch.random.fork_rng(), torch.no_grad():
        most = _most_on_cuda(torch, program.device, run_all) if program.device[0] == "cuda" else _most(torch, run_all)
        entries = list(costs.ops)
        for k, (key, op) in enumerate(zip(missing, ops, strict=True)):
            if not op.failure:
                own = max(0, most[k] - sum(op.sizes))
                entries.append(OpCost(key, op.seconds(), own, op.sizes))
    failed = tuple([f"{op.action.name}: {op.failure}" for op in ops if op.failure])
    ordered = sorted(entries, key=lambda e: e.signature)
    return Costs(costs.device, costs.torch, costs.threads, ordered, costs.bandwidth), failed


def _most(torch: Any, run_all: Callable[[Any], None]) -> dict[int, int]:
    """Most bytes given out at once while each of several numbered calls ran, in one profile."""

    def marked(k: int, call: Callable[[], Any]) -> Any:
        with torch.profiler.record_function(f"{_MARK}{k}"):
            return call()

    return _inside(_profiled(lambda: run_all(marked))[1])


def _most_on_cuda(torch: Any, device: Device, run_all: Callable[[Any], None]) -> dict[int, int]:
    """The same by the statistics of a device."""
    check_device(torch, device)
    most: dict[int, int] = {}

    def counted(k: int, call: Callable[[], Any]) -> Any:
        returned, peak = cuda_peak(call, device)
        most[k] = peak.requested_bytes
        return returned

    run_all(counted)
    return most


_MARK = "lowtide op "


def _inside(events: Sequence[Any]) -> dict[int, int]:
    """Most bytes given out at once between the marks of each op."""
    memory = _memory_events(events)
    times = [at for at, _ in memory]
    most: dict[int, int] = {}
    for event in events:
        if event.name().startswith(_MARK):
            first = bisect.bisect_left(times, event.start_ns())
            last = bisect.bisect_right(times, event.start_ns() + event.duration_ns())
            sizes = [size for _, size in memory[first:last]]
            most[int(event.name().removeprefix(_MARK))] = max(itertools.accumulate(sizes), default=0)
    return most


class _Numbers:
    """Any number that an optimizer would give, and its own code on tensors to measure."""

    def __init__(self, updates: Mapping[str, Any]) -> None:
        self._updates = updates

    def __getitem__(self, name: str) -> Any:
        return self._updates.get(name, False if name.endswith("is_first_step") else 0.5)


class _SingleOp:
    """One op by itself, on tensors of the sizes and strides that it has in the step."""

    def __init__(self, torch: Any, program: Program, action: Action) -> None:
        self.torch, self.action, self.failure, self.sizes = torch, action, "", [0]
        self.device, self.numbers = program.device, _Numbers(program.updates)
        self.names = list(dict.fromkeys(ref.name for ref in refs(action.call)))
        self.forms = [program.forms[name] for name in self.names]
        source = f"def op({', '.join([*self.names, 'h'])}):\n    return {expression(action.call)}\n"
        namespace: dict[str, Any] = {"torch": torch, "aten": torch.ops.aten}
        bodies = [body.source for name, body in program.bodies.items() if action.call.target == f"body.{name}"]
        exec(compile("\n".join([*bodies, source]), "<one op>", "exec"), namespace)
        self.function = namespace["op"]

    def run_twice(self, meter: Callable[[Callable[[], Any]], Any]) -> None:
        """Run it twice, the second time under a meter."""
        given = [_filled(self.torch, form) for form in self.forms]
        try:
            self.function(*given, self.numbers)
            returned = meter(lambda: self.function(*given, self.numbers))
        except Exception as error:  # numbers drawn at random may be none that a kernel takes
            self.failure = first_line(error)
            return
        self.sizes = _output_bytes(self.torch, returned if self.action.several else [returned], given, self.action)

    def seconds(self) -> float:
        """Median of a few runs."""
        given = [_filled(self.torch, form) for form in self.forms]
        seconds: list[float] = []
        while len(seconds) < RUNS and sum(seconds) < LONG_SECONDS:
            seconds.append(run_seconds(lambda: self.function(*given, self.numbers), self.device))
        return statistics.median(seconds)


def run_seconds(function: Callable[[], Any], device: Device) -> float:
    """Seconds of one run on a device."""
    if device[0] == "cuda":
        return cuda_seconds(function, device)
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def _output_bytes(torch: Any, values: Sequence[Any], given: Sequence[Any], action: Action) -> list[int]:
    """Bytes of the storage of each result; 0 for an alias."""
    known = {t.untyped_storage()._cdata for t in given}
    sizes: list[int] = []
    for _, value in zip(action.outputs, values, strict=False):
        storage = value.untyped_storage() if isinstance(value, torch.Tensor) else None
        new = storage is not None and storage._cdata not in known
        sizes.append(storage.nbytes() if storage is not None and new else 0)
        if storage is not None:
            known.add(storage._cdata)
    return sizes


def _filled(torch: Any, form: Any) -> Any:
    """A tensor of that form: halves, zeros for integers, true where they are flags."""
    kind = getattr(torch, form.dtype)
    kind_of, index = form.device
    device = torch.device(kind_of) if index is None else torch.device(kind_of, index)
    tensor = torch.empty_strided(form.shape, form.strides, dtype=kind, device=device)
    return tensor.fill_(0.5) if kind.is_floating_point or kind.is_complex else tensor.fill_(kind is torch.bool)
