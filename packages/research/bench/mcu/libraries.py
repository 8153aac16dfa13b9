"""Builds TFLM and CMSIS-NN as libraries for Cortex-M4 and Cortex-M55; see README.md for what to fetch.

    python bench/mcu/libraries.py SOURCES BUILD [--board m4] [--kernels reference|cmsis_nn]

writes BUILD/BOARD/libtflm-KERNELS.a and BUILD/BOARD/libcmsis_nn.a. Nothing of these projects comes with lowtide;
sources stay where they are.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from lowtide.emit.qemu.boards import BOARDS as ALL
from lowtide.emit.qemu.library import library_words

HERE = Path(__file__).parent
sys.path.append(str(HERE.parent / "tflm32"))
from build import sources  # noqa: E402

PREFIX = "arm-none-eabi-"
NEEDED = (
    "add", "concatenation", "conv", "depthwise_conv", "fully_connected", "mul", "pad", "pooling", "quantize", "reduce",
    "reshape", "softmax", "assign_variable", "call_once", "logistic", "lstm_eval", "read_variable", "split_v",
    "strided_slice", "unidirectional_sequence_lstm", "var_handle",
)  # fmt: skip
"""Kernels of the models that are measured; others are not built."""
ALWAYS = ("kernel_util", "micro_utils")
FLAGS = (
    "-O2", "-fno-unwind-tables", "-fno-asynchronous-unwind-tables", "-w",
    "-ffunction-sections", "-fdata-sections", "-DTF_LITE_STATIC_MEMORY", "-DTF_LITE_STRIP_ERROR_STRINGS",
)  # fmt: skip
CXX = ("-std=c++17", "-fno-rtti", "-fno-exceptions", "-fno-threadsafe-statics")
LIBRARY = ("-DCMSIS_NN", "-DKERNELS_OPTIMIZED_FOR_SPEED")
BOARDS = {name: ALL[name] for name in ("m4", "m55")}


def includes(root: Path) -> list[str]:
    """Folders of headers."""
    third = root / "third"
    folders = [root, third / "flatbuffers/include", third / "gemmlowp", third / "ruy", third]
    return [*(f"-I{p}" for p in folders), *library_words(third / "cmsis_nn")]


def cmsis_sources(root: Path) -> list[Path]:
    """CMSIS-NN's files for integers."""
    found = sorted((root / "third/cmsis_nn/Source").rglob("*.c"))
    return [p for p in found if not p.stem.endswith(("_f16", "_f32", "_flt"))]


def tflm_sources(root: Path, kernels: str) -> list[Path]:
    """TFLM's files: all but kernels that no model needs, and those of the library."""
    cmsis = root / "third/cmsis_nn"
    found = sources(root, root / "third", kernels)[:-1]
    return [p for p in found if not p.is_relative_to(cmsis) and (not _is_kernel(root, p) or _is_needed(p.stem))]


def _is_kernel(root: Path, path: Path) -> bool:
    return path.is_relative_to(root / "tensorflow/lite/micro/kernels") or path.is_relative_to(root / "signal")


def _is_needed(stem: str) -> bool:
    return stem in (*NEEDED, *ALWAYS) or stem.removesuffix("_common") in NEEDED


def library(name: Path, files: Sequence[Path], words: Sequence[str], jobs: int, shared: Sequence[Path] = ()) -> Path:
    """An archive of compiled files; `shared`: those that are compiled once for all archives."""
    own, common = name.with_suffix(".objects"), name.parent / "shared.objects"
    for objects in (own, common):
        objects.mkdir(parents=True, exist_ok=True)

    def compiled(path: Path) -> Path:
        out = (common if path in shared else own) / (str(path.resolve()).replace("/", "_").lstrip("_") + ".o")
        if not out.exists() or out.stat().st_mtime < path.stat().st_mtime:
            tool = [f"{PREFIX}gcc", "-std=gnu17"] if path.suffix == ".c" else [f"{PREFIX}g++", *CXX]
            subprocess.run([*tool, *words, "-c", str(path), "-o", str(out)], check=True)
        return out

    with ThreadPoolExecutor(jobs) as pool:
        made = [str(p) for p in pool.map(compiled, files)]
    name.unlink(missing_ok=True)
    subprocess.run([f"{PREFIX}ar", "rcs", str(name), *made], check=True)
    return name


def main() -> int:
    """Compile for each board."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("sources", type=Path, help="tflite-micro, with its third parties in SOURCES/third")
    parser.add_argument("build", type=Path)
    parser.add_argument("--board", choices=BOARDS, action="append")
    parser.add_argument("--kernels", choices=("reference", "cmsis_nn"), action="append")
    parser.add_argument("--jobs", type=int, default=1)
    given = parser.parse_args()
    for name in given.board or BOARDS:
        words = [*BOARDS[name].flags, *FLAGS, *LIBRARY, *includes(given.sources)]
        print(library(given.build / name / "libcmsis_nn.a", cmsis_sources(given.sources), words, given.jobs))
        for kernels in given.kernels or ("reference", "cmsis_nn"):
            plain = words if kernels == "cmsis_nn" else [w for w in words if w not in LIBRARY]
            files = tflm_sources(given.sources, kernels)
            shared = [p for p in files if not _is_kernel(given.sources, p)]
            print(library(given.build / name / f"libtflm-{kernels}.a", files, plain, given.jobs, shared), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
