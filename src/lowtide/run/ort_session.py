"""onnxruntime sessions that keep a file's order, and what their profile says of memory.

onnxruntime runs a file in an order of its own unless the execution order is priority-based and the graph is not
optimised (a graph that it optimised beforehand stays so). Its memory reuse keeps a dead buffer for a later tensor of
the same shape, so that it is off here; so is the memory pattern, under which nothing is known per node. With an exact
arena, the first block is all it takes, chunks are split whenever 256 bytes are left, and weights lie elsewhere.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from lowtide.errors import MissingExtraError
from lowtide.rules.onnxruntime.rule import EXTEND_BYTES


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """How a session runs."""

    keep_order: bool = True  # the file's order and graph as they are; else onnxruntime's defaults for both
    reuse: bool = False  # onnxruntime's own memory reuse
    # Size of the first block of an exact arena of the process's own; None: the session's growing arena.
    arena_bytes: int | None = None
    optimised: bool = True  # whether onnxruntime's own optimiser runs, where the order is not kept
    profiled: bool = True  # whether it says what each node takes


PLANNED = SessionSettings()
"""As planned, to measure what is in use."""
AS_SHIPPED = SessionSettings(keep_order=False, reuse=True)
"""As onnxruntime runs a file if nobody tells it otherwise."""
UNMODIFIED = SessionSettings(keep_order=False, reuse=True, optimised=False)
"""The same without its optimiser: what `lowtide.runtimes.onnxruntime_defaults` plays through."""


@dataclass(frozen=True, slots=True)
class NodeEvent:
    """A node of the profile's first run. Bytes are those above what there was before the first node."""

    # name, index: as onnxruntime names and counts nodes.
    name: str
    index: str
    requested_bytes: int  # exact sizes of what was there when the node had run, its inputs included
    # in_use_bytes, mark_bytes: the same as the arena counts it, in chunks; and the highest so far, workspace included.
    in_use_bytes: int
    mark_bytes: int


@dataclass(frozen=True, slots=True)
class SessionProfile:
    """What a session's profile says: the first run's nodes, and the steps in which all runs made the arena grow."""

    nodes: tuple[NodeEvent, ...]
    growth: tuple[int, ...]
    grown_at: str = ""
    """The node at which it grew for the second time."""

    def held_bytes(self, first_block: int | None = None) -> int:
        """What the arena took for tensors; a kernel that keeps memory may take the first block before any run."""
        before = first_block is not None and self.growth[:1] != (first_block,)
        return sum(self.growth) + (first_block or 0) * before


def runtime() -> Any:
    """The module `onnxruntime`. Raises `MissingExtraError`: it is not installed."""
    try:
        import onnxruntime
    except ImportError:
        raise MissingExtraError("onnxruntime", "run", "lowtide verify --run") from None
    return onnxruntime


Level = Literal["DISABLE_ALL", "ENABLE_EXTENDED", "ENABLE_ALL"]
"""What onnxruntime's optimiser may do, by its own names."""


def new_session(
    model: str | bytes,
    level: Level = "ENABLE_ALL",
    threads: int = 1,
    *,
    keep_order: bool = False,
    profile: str = "",
    entries: Mapping[str, str] | None = None,
    dims: Mapping[str, int] | None = None,
    **settings: object,
) -> Any:
    """A session on the CPU that prints nothing. `threads`: 0 leaves them to onnxruntime. `keep_order`: nodes run in
    the file's order, if the optimiser leaves it. `profile`: how the name of its profile begins, if there is to be one.
    `entries`, `settings`: of `onnxruntime.SessionOptions`, by their names. `dims`: sizes of free dimensions."""
    ort = runtime()
    options = ort.SessionOptions()
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, f"ORT_{level}")
    options.intra_op_num_threads, options.inter_op_num_threads = threads, min(1, threads)
    options.log_severity_level = 4
    if keep_order:
        options.execution_order = ort.ExecutionOrder.PRIORITY_BASED
    if profile:
        options.enable_profiling, options.profile_file_prefix = True, profile
    for name, value in settings.items():
        setattr(options, name, value)
    for name, text in (entries or {}).items():
        options.add_session_config_entry(name, text)
    for name, size in (dims or {}).items():
        options.add_free_dimension_override_by_name(name, size)
    return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def open_session(path: Path, settings: SessionSettings, folder: str, name: str) -> Any:
    """A session on one thread of the CPU; its profile goes to `folder`, if it has one."""
    ort, entries = runtime(), dict[str, str]()
    if settings.arena_bytes is not None:
        arena = {
            "max_mem": 0,
            "arena_extend_strategy": 0,
            "initial_chunk_size_bytes": settings.arena_bytes,
            "max_power_of_two_extend_bytes": EXTEND_BYTES,
            "max_dead_bytes_per_chunk": 256,
        }
        info = ort.OrtMemoryInfo("Cpu", ort.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, ort.OrtMemType.DEFAULT)
        ort.create_and_register_allocator(info, ort.OrtArenaCfg(arena))
        entries = {"session.use_env_allocators": "1", "session.use_device_allocator_for_initializers": "1"}
    return new_session(
        str(path),
        "ENABLE_ALL" if settings.optimised and not settings.keep_order else "DISABLE_ALL",
        keep_order=settings.keep_order,
        profile=str(Path(folder) / name) if settings.profiled else "",
        entries=entries,
        enable_mem_reuse=settings.reuse,
        enable_mem_pattern=False,
    )


def read_profile(path: str) -> SessionProfile:
    """Read a session's profile; without nodes if this onnxruntime does not tell (before 1.24)."""
    nodes: list[NodeEvent] = []
    seen: set[tuple[str, str]] = set()
    base: Mapping[str, int] | None = None
    growth: list[int] = []
    held, grown_at = 0, ""
    for event in json.loads(Path(path).read_bytes()):
        name = str(event.get("name", ""))
        if event.get("cat") != "Node" or not name.endswith("_kernel_time"):
            continue
        args = event["args"]
        if "mem_bytes_in_use" not in args:
            continue
        requested = int(args.get("mem_bytes_requested_in_use", args["mem_bytes_in_use"]))
        in_use, mark = int(args["mem_bytes_in_use"]), int(args.get("mem_in_use_peak", 0))
        if base is None:
            base = {
                "requested": requested - int(args.get("mem_requested_in_use_delta", args.get("mem_in_use_delta", 0))),
                "in_use": in_use - int(args.get("mem_in_use_delta", 0)),
            }
            held = int(args.get("mem_arena_held", 0)) - int(args.get("mem_arena_held_delta", 0))
        if int(args.get("mem_arena_held", 0)) > held:
            growth.append(int(args["mem_arena_held"]) - held)
            held += growth[-1]
            grown_at = name.removesuffix("_kernel_time") if len(growth) == 2 else grown_at
        key = name.removesuffix("_kernel_time"), str(args.get("node_index"))
        if key not in seen:
            seen.add(key)
            nodes.append(NodeEvent(*key, requested - base["requested"], in_use - base["in_use"], mark - base["in_use"]))
    return SessionProfile(tuple(nodes), tuple(growth), grown_at)
