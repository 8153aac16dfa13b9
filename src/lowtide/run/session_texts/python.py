"""The session in which onnxruntime keeps a plan's order and takes the plan's arena, as Python to copy or import."""

from __future__ import annotations

import os
from pathlib import Path

from lowtide.rules.onnxruntime.rule import EXTEND_BYTES

_TEXT = '''\
"""Opens {name} so that onnxruntime keeps lowtide's order, and takes one block of memory for all tensors.

    from {module} import open_session
    session = open_session()

{peak:,} bytes of tensors and workspace at the peak, graph inputs and weights apart; the block has {arena:,}.
Needs onnxruntime 1.24 or later. The block was worked out for its CPU kernels and one thread: each further one unfolds
convolutions in 64 KiB of its own, for which there is room. What was not foreseen makes the arena grow by that alone.
"""

import functools
import os

import onnxruntime as ort

MODEL = os.path.join(os.path.dirname(os.path.abspath(__file__)), {model!r})
ARENA_BYTES = {arena}
THREADS = os.cpu_count() or 1  # all, as onnxruntime takes by default


@functools.cache
def register_arena(threads: int) -> None:
    """Give this process one block for its sessions, split as needed; it grows by what is missing."""
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
{more}    return chosen


def open_session(path: str = MODEL, threads: int = THREADS) -> ort.InferenceSession:
    """A session on the CPU."""
    register_arena(threads)
    return ort.InferenceSession(path, options(threads), providers=["CPUExecutionProvider"])
'''

_NOT_PREPACKED = """\
    chosen.add_session_config_entry("session.disable_prepacking", "1")  # kernels would keep copies of the weights
"""


def session_module(model: str | Path, file: str | Path, sizes: tuple[int, int], *, prepacked: bool = True) -> str:
    """The text of a Python module that opens a planned model.

    Parameters
    ----------
    model, file
        The model in the plan's order, and the name that the module will have.
    sizes
        Bytes of the peak and of the arena.
    prepacked
        Whether kernels may keep copies of weights in a layout of their own.
    """
    path = os.path.relpath(model, Path(file).absolute().parent)
    module = Path(file).stem if Path(file).stem.isidentifier() else "session"
    peak, arena = sizes
    more = "" if prepacked else _NOT_PREPACKED
    return _TEXT.format(
        name=Path(model).name, module=module, model=path, peak=peak, arena=arena, extend=EXTEND_BYTES, more=more
    )
