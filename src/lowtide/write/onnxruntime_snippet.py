"""The session in which onnxruntime keeps a plan's order and takes the plan's arena, as Python to copy or import."""

from __future__ import annotations

from lowtide.errors import InputError
from lowtide.plan import Plan
from lowtide.rules.onnxruntime.rule import EXTEND_BYTES

_TEXT = '''\
"""Opens {model} so that onnxruntime keeps lowtide's order, and takes one block of memory for all tensors.

{peak:,} bytes of tensors and workspace at the peak, graph inputs and weights apart; the block has {arena:,}.
Needs onnxruntime 1.24 or later. The block was worked out for its CPU kernels and one thread: each further one unfolds
convolutions in 64 KiB of its own, for which there is room. What was not foreseen makes the arena grow by that alone.
"""

import os

import onnxruntime as ort

MODEL = {model!r}
ARENA_BYTES = {arena}
THREADS = os.cpu_count() or 1  # all, as onnxruntime takes if nobody says otherwise


def register_arena(threads: int = THREADS) -> None:
    """Once in a process, before its sessions: one block, split as needed; then it grows by what is missing."""
    ort.create_and_register_allocator(
        ort.OrtMemoryInfo("Cpu", ort.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, ort.OrtMemType.DEFAULT),
        ort.OrtArenaCfg(
            {{
                "max_mem": 0,
                "arena_extend_strategy": 0,  # 1 would not take one block, but each tensor's from the system
                "initial_chunk_size_bytes": ARENA_BYTES + 65536 * (threads - 1),
                "max_power_of_two_extend_bytes": {extend},  # or it would grow by twice the block
                "max_dead_bytes_per_chunk": 256,
            }}
        ),
    )


def options(threads: int = THREADS) -> ort.SessionOptions:
    """What keeps the file's order and frees each tensor at its last use."""
    chosen = ort.SessionOptions()
    chosen.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL  # any other level sets its own order
    chosen.execution_order = ort.ExecutionOrder.PRIORITY_BASED  # the file's order
    chosen.enable_mem_reuse = False  # it would keep dead tensors for later ones of the same shape
    chosen.enable_mem_pattern = False  # from the second run on it would take a block of its own
    chosen.intra_op_num_threads = threads
    chosen.inter_op_num_threads = 1
    chosen.add_session_config_entry("session.use_env_allocators", "1")
    chosen.add_session_config_entry("session.use_device_allocator_for_initializers", "1")
    return chosen


def open_session(path: str = MODEL, threads: int = THREADS) -> ort.InferenceSession:
    """A session on the CPU; call `register_arena` with as many threads first."""
    return ort.InferenceSession(path, options(threads), providers=["CPUExecutionProvider"])
'''


def onnxruntime_snippet(plan: Plan, model: str) -> bytes:
    """A Python module that opens `model`, the file in the plan's order.

    Raises
    ------
    InputError
        The plan's target is not onnxruntime's.
    """
    if plan.runtime_arena_bytes is None:
        raise InputError(f"a snippet is for onnxruntime, not for target {plan.target}; plan with --target onnxruntime")
    text = _TEXT.format(model=model, peak=plan.peak_bytes, arena=plan.runtime_arena_bytes, extend=EXTEND_BYTES)
    return text.encode()
