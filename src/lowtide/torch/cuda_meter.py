"""What ops and steps take on a CUDA device: bytes by the statistics of torch's caching allocator, seconds by events.

Written by torch's documentation of `torch.cuda`, and never run on a device. The allocator counts each request twice:
as it was requested, and rounded up to its blocks (512 bytes, and more where a block is too small to be split). Plans
speak of the bytes that are requested.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from lowtide.errors import InputError
from lowtide.torch.capture import library

Device = tuple[str, int | None]  # kind and number of a device, as `lowtide.torch.program.Program.device` has them

_MILLI = 1e-3


@dataclass(frozen=True)
class CudaPeak:
    """The most bytes at once, above what was there before.

    `requested_bytes`: as ops requested them, what a plan predicts. `allocated_bytes`: the blocks that they got, as
    `torch.cuda.max_memory_allocated` counts. `reserved_bytes`: the segments that these lie in, as
    `torch.cuda.max_memory_reserved` counts; what the allocator kept from before lowers it.
    """

    requested_bytes: int
    allocated_bytes: int
    reserved_bytes: int


def check_device(torch: Any, device: Device) -> None:
    """That there is such a device, and that its allocator counts. Raises `InputError`: there is none; or memory is
    `cudaMallocAsync`'s, whose statistics are zeros."""
    if not torch.cuda.is_available() or (device[1] or 0) >= torch.cuda.device_count():
        where = "cuda" if device[1] is None else f"cuda:{device[1]}"
        message = f"the step is on {where}, and torch finds no such device here"
        raise InputError(f"{message} (measure=False plans without one)")
    backend = torch.cuda.get_allocator_backend()
    if backend != "native":
        message = f"bytes on CUDA are read from torch's own allocator, and PYTORCH_CUDA_ALLOC_CONF has {backend}"
        raise InputError(f"{message}; take it out, or give measure=False")


def cuda_peak(function: Callable[[], Any], device: Device) -> tuple[Any, CudaPeak]:
    """What a function returns, and the most bytes that the allocator gave out while it ran.

    Run the function once before: libraries take handles and workspace at their first call, and keep them.
    """
    cuda = library().cuda
    cuda.synchronize(device[1])
    cuda.reset_peak_memory_stats(device[1])
    before = cuda.memory_stats(device[1])
    returned = function()
    cuda.synchronize(device[1])
    after = cuda.memory_stats(device[1])
    kinds = ("requested_bytes", "allocated_bytes", "reserved_bytes")
    return returned, CudaPeak(*(after[f"{kind}.all.peak"] - before[f"{kind}.all.current"] for kind in kinds))


def cuda_seconds(function: Callable[[], Any], device: Device) -> float:
    """Seconds from the beginning of what a function starts on the device to its end."""
    cuda = library().cuda
    with cuda.device(device[1]):
        cuda.synchronize()
        start, end = (cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        function()
        end.record()
        end.synchronize()
    return start.elapsed_time(end) * _MILLI
