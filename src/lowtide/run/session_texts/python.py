"""The session of a plan as a Python module."""

from __future__ import annotations

from pathlib import Path

from lowtide.run.blocks import PORTABLE
from lowtide.run.session_texts import SessionSettings, probe_lines

_TEXT = '''\
"""Opens {name} so that onnxruntime {keeps}.

    from {module} import open_session
    session = open_session()

{memory}
"""

{base64}import functools
import os

import onnxruntime as ort

MODEL = os.path.join(os.path.dirname(os.path.abspath(__file__)), {model!r})
ARENA_BYTES = {arena}
THREADS = os.cpu_count() or 1  # all, as onnxruntime takes by default
{block}

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
    """{opt_doc}"""
    chosen = ort.SessionOptions()
{level}    chosen.enable_mem_reuse = False  # it would keep dead tensors for later ones of the same shape
    chosen.enable_mem_pattern = False  # from the second run on it would take a block of its own
    chosen.intra_op_num_threads = threads
    chosen.inter_op_num_threads = 1
    chosen.add_session_config_entry("session.use_env_allocators", "1")
    chosen.add_session_config_entry("session.use_device_allocator_for_initializers", "1")
{more}    return chosen


def open_session(path: str = MODEL, threads: int = THREADS) -> ort.InferenceSession:
    """A session on the CPU."""
{check}    register_arena(threads)
    return ort.InferenceSession(path, options(threads), providers=["CPUExecutionProvider"])
'''

_IN_ORDER = (
    "keeps lowtide's order, and takes one block of memory for all tensors",
    "What keeps the file's order and frees each tensor at its last use.",
    """\
    chosen.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL  # any other level sets its own order
    chosen.execution_order = ort.ExecutionOrder.PRIORITY_BASED  # the file's order
""",
)
_LAYOUT_CHOSEN = (
    "chooses the layout of convolutions for its processor, and takes memory as tensors need it",
    "What frees each tensor at its last use.",
    """\
    chosen.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
""",
)

_MEMORY = """\
{peak:,} bytes of tensors and workspace at the peak, graph inputs and weights apart; the block has {arena:,}.
Needs onnxruntime 1.24 or later. The block was worked out for its CPU kernels and one thread: each further one unfolds
convolutions in 64 KiB of its own, for which there is room. What was not foreseen makes the arena grow by that alone."""

_GROWS = "Needs onnxruntime 1.24 or later. The arena grows by what is missing alone."

_NOT_PREPACKED = """\
    chosen.add_session_config_entry("session.disable_prepacking", "1")  # kernels would keep copies of the weights
"""

_BLOCK = """\
CHANNEL_BLOCK = {block}  # channels in a block of the file's convolutions; with another one they compute wrong numbers


@functools.cache
def check_processor() -> None:
    \"\"\"Ask onnxruntime for the block on this processor, by where it puts the one of a small tensor.\"\"\"
    probe = base64.b64decode(
{probe}
    )
    chosen = ort.SessionOptions()
    chosen.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    chosen.log_severity_level, chosen.intra_op_num_threads, chosen.enable_cpu_mem_arena = 4, 1, False
    try:
        (blocked,) = ort.InferenceSession(probe, chosen, providers=["CPUExecutionProvider"]).run(None, {{}})
        block = int(blocked.argmax())
    except Exception:  # there is no such layout
        block = 0
    if block != CHANNEL_BLOCK:
        raise RuntimeError(
            f"{name} is for processors whose convolutions have blocks of {{CHANNEL_BLOCK}} channels, and this one has "
            f"{{block or 'none'}}: plan here, or for any processor: lowtide plan MODEL {portable} -o OUT"
        )

"""


def text(settings: SessionSettings, file: str) -> str:
    """The module's text; `file` is its name."""
    module = Path(file).stem if Path(file).stem.isidentifier() else "session"
    name, arena = Path(settings.model).name, settings.arena_bytes
    keeps, opt_doc, level = _LAYOUT_CHOSEN if settings.chooses_layout else _IN_ORDER
    block = check = ""
    if settings.block:
        probe = "\n".join(f'        "{line}"' for line in probe_lines())
        block = _BLOCK.format(block=settings.block, probe=probe, name=name, portable=PORTABLE)
        check = "    check_processor()\n"
    memory = _GROWS if settings.chooses_layout else _MEMORY.format(peak=settings.peak_bytes, arena=arena)
    return _TEXT.format(
        name=name,
        module=module,
        model=settings.model,
        arena=arena,
        extend=settings.growth_bytes,
        keeps=keeps,
        memory=memory,
        base64="import base64\n" if settings.block else "",
        block=block,
        check=check,
        opt_doc=opt_doc,
        level=level,
        more="" if settings.prepacked else _NOT_PREPACKED,
    )
