"""How long ops of training steps take on this machine, by their size: a cost file for ops with labels.

    python bench/step_costs.py -o bench/cost/cpu-sizes.json [--repeats 7]

Each kind of op runs in torch on one thread at sizes of a factor of four apart, from a few rows to those of a part of
MAGIS's workloads; what counts is the least of `--repeats` times. A row is work (operations, or bytes read and written)
and seconds. **No size gains by being cut**: where a smaller size ran faster for its work than a larger one (it stays in
the caches), it is given the larger one's rate, so that a search finds no gain in noise or caches.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from lowtide.cost.file import VERSION, CostFamily, CostFile
from lowtide_research.bench.machine import machine

Case = tuple[float, Callable[[], Any]]
WIDTH, CHANNELS, IMAGE = 512, 64, 16


def products(torch: Any) -> Iterator[Case]:
    """Rows times a square matrix; below one row's worth, smaller matrices."""
    for width, rows in [(8, 4), (16, 8), (32, 16), (64, 32), (128, 64), *((WIDTH, 4**k) for k in range(3, 8))]:
        a, b = torch.randn(rows, width), torch.randn(width, width)
        yield 2.0 * rows * width * width, lambda a=a, b=b: torch.mm(a, b)


def convolutions(torch: Any, kind: str) -> Iterator[Case]:
    """3 by 3, of ever more images."""
    functional = torch.nn.functional
    for channels, side, images in [
        (2, 4, 1), (4, 4, 2), (8, 8, 2), (16, 8, 4), (32, 16, 2), *((CHANNELS, IMAGE, 4**k) for k in range(1, 5))
    ]:  # fmt: skip
        x, w = torch.randn(images, channels, side, side), torch.randn(channels, channels, 3, 3)
        y = functional.conv2d(x, w, padding=1)
        flops = 2.0 * y.numel() * channels * 9
        if kind == "conv2d":
            yield flops, lambda x=x, w=w: functional.conv2d(x, w, padding=1)
            continue
        mask = [kind == "conv2d_input", kind == "conv2d_weight", False]
        yield (
            flops,
            lambda x=x, w=w, y=y, mask=mask: torch.ops.aten.convolution_backward(
                y, x, w, None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1, mask
            ),
        )


def rowwise(torch: Any, kind: str) -> Iterator[Case]:
    """Rows of 512 numbers, by bytes."""
    for rows in [1, 4, *(4**k for k in range(2, 9))]:
        x = torch.randn(rows, WIDTH)
        y, size = torch.empty_like(x), x.numel() * 4.0
        if kind == "softmax":
            yield 2 * size, lambda x=x: torch.softmax(x, -1)
        elif kind == "layer_norm":
            yield 2 * size, lambda x=x: torch.nn.functional.layer_norm(x, (WIDTH,))
        elif kind == "permute":
            yield 2 * size, lambda x=x: x.t().contiguous()
        elif kind == "copy":
            yield 2 * size, lambda x=x, y=y: y.copy_(x)
        elif kind == "merge":
            yield 3 * size, lambda x=x, y=y: y.add_(x)
        else:
            yield 3 * size, lambda x=x, y=y: torch.add(x, y)


def seconds(run: Callable[[], Any], repeats: int) -> float:
    """The least time of a run, of at least so many."""
    run()
    best, until = float("inf"), time.perf_counter() + 0.3
    while repeats > 0 or time.perf_counter() < until:
        began = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - began)
        repeats -= 1
        if repeats < -2000:
            break
    return best


def table(cases: Iterator[Case], repeats: int) -> list[tuple[float, float]]:
    """Work and seconds, ascending; a smaller size takes no less for its work than a larger one."""
    rows = sorted((work, seconds(run, repeats)) for work, run in cases)
    result: list[tuple[float, float]] = []
    rate = 0.0
    for work, taken in reversed(rows):
        rate = max(rate, taken / work)
        result.append((work, float(f"{rate * work:.4g}")))
    return result[::-1]


def measured(torch: Any, repeats: int) -> dict[str, CostFamily]:
    """Families by name."""

    def family(rows: list[tuple[float, float]], *, flops: bool) -> CostFamily:
        empty: list[tuple[float, float]] = []
        return CostFamily(
            launch_seconds=0.0, seconds_per_flop=0.0, seconds_per_byte=0.0, fitted=len(rows),
            by_flops=rows if flops else empty, by_bytes=empty if flops else rows,
        )  # fmt: skip

    nothing = CostFamily(launch_seconds=0.0, seconds_per_flop=0.0, seconds_per_byte=0.0)
    result = {"index_out": nothing, "reshape": nothing, "einsum": family(table(products(torch), repeats), flops=True)}
    for kind in ("conv2d", "conv2d_input", "conv2d_weight"):
        result[kind] = family(table(convolutions(torch, kind), repeats), flops=True)
    kinds = {name: family(table(rowwise(torch, name), repeats), flops=False) for name in
             ("softmax", "layer_norm", "permute", "copy", "merge", "add")}  # fmt: skip
    result |= {"softmax": kinds["softmax"], "softmax_backward": kinds["softmax"], "layer_norm": kinds["layer_norm"]}
    result |= {"layer_norm_backward": kinds["layer_norm"], "permute": kinds["permute"], "merge": kinds["merge"]}
    result |= dict.fromkeys(("slice", "concat", "join"), kinds["copy"])
    return result | {"other": kinds["add"]}


def main() -> None:
    """Measure and write."""
    torch: Any = import_module("torch")

    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("-o", "--out", type=Path, required=True)
    parser.add_argument("--repeats", type=int, default=7)
    options = parser.parse_args()
    torch.set_num_threads(1)
    here = machine()
    CostFile(
        version=VERSION, lowtide=here.lowtide, dialect="labels", runtime="torch",
        runtime_version=str(torch.__version__),
        level="extended", device=here.cpu, threads=1, families=measured(torch, options.repeats), entries=[],
    ).save(options.out)  # fmt: skip


if __name__ == "__main__":
    main()
