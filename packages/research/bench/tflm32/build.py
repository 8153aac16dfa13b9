"""Builds TFLM from its sources for this machine, 32 or 64 bit, with `arena.cc`; see README.md for what to fetch.

    python bench/tflm32/build.py SOURCES BUILD --bits 32 --kernels reference
    python bench/tflm32/build.py SOURCES BUILD --arm --kernels cmsis_nn

writes BUILD/arena-32-reference, or BUILD/arena-arm-cmsis_nn with Debian's compiler for Arm, to be run by qemu-arm; with
`--main` another program, which further options of the compiler are for. Nothing
of TFLM comes with lowtide; sources stay where they are.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).parent
FLAGS = [
    *("-fno-unwind-tables", "-fno-asynchronous-unwind-tables", "-ffunction-sections", "-fdata-sections", "-w"),
    *("-fmessage-length=0", "-DTF_LITE_STATIC_MEMORY", "-DTF_LITE_DISABLE_X86_NEON", "-DTF_LITE_USE_CTIME"),
]
"""As TFLM's Makefile sets them for its default build, warnings apart."""
ARM = "arm-linux-gnueabihf-"
CXX = ["-std=c++17", "-fno-rtti", "-fno-exceptions", "-fno-threadsafe-statics"]
KERNELS = re.compile(r"\$\(TENSORFLOW_ROOT\)((?:tensorflow/lite/micro/kernels|signal)/\S+\.cc)")


def sources(root: Path, third: Path, kernels: str) -> list[Path]:
    """Files that TFLM's Makefile lists for a library with all kernels and the signal library."""
    make = root / "tensorflow/lite/micro/tools/make"
    listed = (make / "sources.inc").read_text() + (make / "additional_kernels.inc").read_text()
    found: list[Path] = [root / name for name in KERNELS.findall(listed)]
    for folder in (".", "arena_allocator", "memory_planner", "tflite_bridge"):
        found += sorted((root / "tensorflow/lite/micro" / folder).glob("*.cc"))
    skipped = (root / "tensorflow/lite/micro", root / "tensorflow/lite/experimental")
    for ending in ("*.cc", "*.c"):
        found += [
            p
            for p in sorted((root / "tensorflow").rglob(ending))
            if not any(p.is_relative_to(folder) for folder in skipped) and p.name != "array.cc"
        ]
    found = [p for p in dict.fromkeys(found) if "test" not in p.name.split(".")[0].split("_") or "kernels" in p.parts]
    found = [p for p in found if not p.stem.endswith(("_test", "test_helpers", "testing_helpers"))]
    if kernels == "cmsis_nn":
        own = {p.name: p for p in (root / "tensorflow/lite/micro/kernels/cmsis_nn").glob("*.cc")}
        found = [own[p.name] if p.parent.name == "kernels" and p.name in own else p for p in found]
        found += [
            p for p in sorted((third / "cmsis_nn/Source").rglob("*.c")) if not p.stem.endswith(("_f16", "_f32", "_flt"))
        ]
    if kernels == "esp_nn":
        folder = third / "esp_tflite_micro/tensorflow/lite/micro/kernels/esp_nn"
        own = {p.name: p for p in folder.glob("*.cc")}
        found = [own[p.name] if p.parent.name == "kernels" and p.name in own else p for p in found]
        found += [p for ending in ("ansi", "opt") for p in sorted((third / "esp_nn/src").rglob(f"*_{ending}.c"))]
    return [*found, root / "python/tflite_micro/python_ops_resolver.cc"]


def main() -> int:
    """Compile, then link with `arena.cc`."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("sources", type=Path, help="tflite-micro, with its third parties in SOURCES/third")
    parser.add_argument("build", type=Path)
    parser.add_argument("--bits", choices=("32", "64"), default="32")
    parser.add_argument("--arm", action="store_true", help="for Armv7-A with DSP, instead of --bits")
    parser.add_argument("--kernels", choices=("reference", "cmsis_nn", "esp_nn"), default="reference")
    parser.add_argument("--compression", action="store_true", help="as the pip package: USE_TFLM_COMPRESSION")
    parser.add_argument("--flags", default="-O1", help="further flags for all files")
    parser.add_argument("--label", default="", help="end of the program's name, for other flags")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--main", type=Path, default=HERE / "arena.cc", help="the program, instead of arena.cc")
    given, options = parser.parse_known_args()
    root, third = given.sources, given.sources / "third"
    name = f"{'arm' if given.arm else given.bits}-{given.kernels}" + ("-compression" if given.compression else "")
    name += f"-{given.label}" if given.label else ""
    objects = given.build / name
    objects.mkdir(parents=True, exist_ok=True)
    prefix, width = (ARM, ["-static"]) if given.arm else ("", [f"-m{given.bits}"])
    flags = [*FLAGS, *(width if not given.arm else []), *given.flags.split()]
    flags += ["-DUSE_TFLM_COMPRESSION"] if given.compression else []
    library = ["-DCMSIS_NN", "-DKERNELS_OPTIMIZED_FOR_SPEED", "-DARM_NN_ENABLE_F16=0", "-DARM_NN_ENABLE_F32=0"]
    flags += library if given.kernels == "cmsis_nn" else []
    flags += ["-DESP_NN", "-DCONFIG_NN_OPTIMIZED"] if given.kernels == "esp_nn" else []
    includes = [root, third / "flatbuffers/include", third / "gemmlowp", third / "ruy", third / "kissfft"]
    includes += [third, third / "cmsis_nn", third / "cmsis_nn/Include"] if given.kernels == "cmsis_nn" else []
    if given.kernels == "esp_nn":
        (objects / "esp_timer.h").write_text("static inline long long esp_timer_get_time(void) { return 0; }\n")
        includes += [objects, third / "esp_nn/include", third / "esp_nn/src/common"]
    flags += [f"-I{p}" for p in includes]

    def compiled(path: Path) -> Path:
        out = objects / (str(path.resolve()).replace("/", "_").lstrip("_") + ".o")
        own = options if path == given.main else []
        if own or not out.exists() or out.stat().st_mtime < path.stat().st_mtime:
            tool = [f"{prefix}gcc", "-std=gnu17"] if path.suffix == ".c" else [f"{prefix}g++", *CXX]
            subprocess.run([*tool, *flags, *own, "-c", str(path), "-o", str(out)], check=True)
        return out

    with ThreadPoolExecutor(given.jobs) as pool:
        linked = list(pool.map(compiled, [*sources(root, third, given.kernels), given.main]))
    target = given.build / f"{given.main.stem}-{name}"
    subprocess.run([f"{prefix}g++", *width, "-Wl,--gc-sections", *map(str, linked), "-o", str(target)], check=True)
    print(target)
    return 0


if __name__ == "__main__":
    sys.exit(main())
