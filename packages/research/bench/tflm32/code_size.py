"""Bytes of code of TFLM with the kernels of a model, beside the model's own C: both for this machine, with -Os.

    python bench/tflm32/code_size.py SOURCES BUILD MODELS

TFLM: its interpreter and the reference kernels of the model's operators, linked with what nobody calls left out
(--gc-sections), less those of a program that does nothing. Its weights
are in the file, and not counted. Ours: `.text`, `.rodata` and `.data.rel.ro` of model.o, which has all but the weights.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from build import CXX, FLAGS, sources

import lowtide
from lowtide.errors import InputError

MAIN = """
#include "tensorflow/lite/micro/micro_interpreter.h"
#include "tensorflow/lite/micro/micro_mutable_op_resolver.h"
#include "tensorflow/lite/schema/schema_generated.h"
extern "C" const unsigned char model_file[];
alignas(16) static uint8_t arena[1 << 16];
int main() {
  tflite::MicroMutableOpResolver<COUNT> ops;
  ADDED
  tflite::MicroInterpreter interpreter(tflite::GetModel(model_file), ops, arena, sizeof(arena));
  return interpreter.AllocateTensors() != kTfLiteOk || interpreter.Invoke() != kTfLiteOk;
}
"""


def adder(kind: str) -> str:
    """What TFLM's resolver calls an operator: CONV_2D is Conv2D there."""
    if kind.startswith("CUSTOM:Signal"):
        return kind.removeprefix("CUSTOM:Signal")
    words = kind.removesuffix("LSTM").split("_")
    whole = "".join(word if word[:1].isdigit() else word.capitalize() for word in words)
    return whole + ("LSTM" if kind.endswith("LSTM") else "")


def section_bytes(path: Path) -> tuple[int, int]:
    """Bytes of code and of constants."""
    shown = subprocess.run(["size", "-A", str(path)], capture_output=True, text=True, check=True).stdout
    found = re.findall(r"^(\.[\w.]+)\s+(\d+)", shown, re.MULTILINE)
    kinds = ((".text",), (".rodata", ".data.rel.ro"))
    code, constants = (sum(int(n) for name, n in found if name.startswith(kind)) for kind in kinds)
    return code, constants


def main() -> int:
    """A line for each model. Kernels are compiled once, which takes minutes; what a model does not call is left out."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("sources", type=Path)
    parser.add_argument("build", type=Path)
    parser.add_argument("models", type=Path, nargs="+")
    options = parser.parse_args()
    root, third, build = options.sources, options.sources / "third", options.build
    build.mkdir(parents=True, exist_ok=True)
    includes = [root, third / "flatbuffers/include", third / "gemmlowp", third / "ruy", third / "kissfft"]
    flags = [*FLAGS, "-Os", *(f"-I{p}" for p in includes)]

    def compiled(path: Path) -> Path:
        out = build / (str(path.relative_to(root)).replace("/", "_") + ".o")
        if not out.exists():
            tool = ["gcc", "-std=c17"] if path.suffix == ".c" else ["g++", *CXX]
            subprocess.run([*tool, *flags, "-c", str(path), "-o", str(out)], check=True)
        return out

    with ThreadPoolExecutor(2) as pool:
        listed = [path for path in sources(root, third, "reference") if path.name != "python_ops_resolver.cc"]
        objects = list(pool.map(compiled, listed))
    library = build / "libtflm.a"
    library.unlink(missing_ok=True)
    subprocess.run(["ar", "rcs", str(library), *map(str, objects)], check=True)
    (build / "empty.cc").write_text("int main() { return 0; }\n")
    subprocess.run(["g++", "-Os", str(build / "empty.cc"), "-o", str(build / "empty")], check=True)
    empty = section_bytes(build / "empty")
    print("| model | TFLM code | constants | ours, whole | constants | ours, handed over | constants |")
    print("|---|--:|--:|--:|--:|--:|--:|")
    for model in options.models:
        kinds = sorted({op.type for op in lowtide.load(model).ops})
        added = "\n  ".join(f"ops.Add{adder(kind)}();" for kind in kinds)
        source = build / f"{model.stem}.cc"
        source.write_text(MAIN.replace("COUNT", str(len(kinds))).replace("ADDED", added))
        (build / "file.cc").write_text(
            'extern "C" const unsigned char model_file[];\nconst unsigned char model_file[] = {0};\n'
        )
        words = ["g++", *CXX, *flags, str(source), str(build / "file.cc"), str(library), "-Wl,--gc-sections", "-o"]
        subprocess.run([*words, str(build / model.stem)], check=True)
        tflm = [a - b for a, b in zip(section_bytes(build / model.stem), empty, strict=True)]
        cells = [f"{size:,}" for size in tflm]
        for allow in ({}, {"allow": "loops", "stream_input": True}):
            try:
                plan = lowtide.plan(model, target="loops", **allow)
            except InputError:  # an op reads all of the input at once
                cells += ["-", "-"]
                continue
            with tempfile.TemporaryDirectory() as folder:
                lowtide.emit_c(plan, model, folder)
                subprocess.run(["gcc", "-std=c99", "-Os", "-c", "model.c"], cwd=folder, check=True)
                cells += [f"{size:,}" for size in section_bytes(Path(folder) / "model.o")]
        print(f"| {model.stem} | " + " | ".join(cells) + " |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
