"""Compares lowtide's rules for ESP-NN's scratch with the library's compiled C, on random layers.

    python bench/tflm32/scratch_esp.py SOURCES BUILD -o results/esp-nn-scratch

needs ESP-NN in SOURCES/third/esp_nn and a C compiler; see README.md. The files hold assembly for the chips: only the
functions that tell a size are taken from them, and compiled for this machine.
"""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path
from typing import Any

from scratch import HEAD, arguments, counted, window

from lowtide.rules.tflm import esp_nn
from lowtide_research.bench.pages import about, document, table, write

COMMIT = "d45b843"
FILES = {
    "conv_esp32s3": "convolution/esp_nn_conv_esp32s3.c",
    "conv_esp32p4": "convolution/esp_nn_conv_esp32p4.c",
    "depthwise_conv_esp32s3": "convolution/esp_nn_depthwise_conv_s8_esp32s3.c",
    "depthwise_conv_esp32p4": "convolution/esp_nn_depthwise_conv_esp32p4.c",
}
"""Kind of layer and chip, as in the function's name, and the file that has it."""
MAIN = """
#include <stdio.h>
#include <string.h>
int main(void) {
  int v[13];
  for (;;) {
    for (int i = 0; i < 13; ++i) if (scanf("%d", v + i) != 1) return 0;
    data_dims_t in = {v[1], v[0], v[2], 1}, filter = {v[4], v[3], v[2], 0}, out = {v[6], v[5], v[7], 1};
    PARAMS p;
    memset(&p, 0, sizeof p);
    p.stride.height = v[8]; p.stride.width = v[9]; p.padding.height = v[10]; p.padding.width = v[11];
    MULTIPLIER;
    printf("%d\\n", FUNCTION(&in, &filter, &out, &p));
  }
}
"""


def program(library: Path, build: Path, name: str) -> Path:
    """Compile one function with a program that asks it."""
    text = (library / "src" / FILES[name]).read_text()
    kind, _, chip = name.rpartition("_")
    function = f"esp_nn_get_{kind}_scratch_size_{chip}"
    begin = text.index(f"int {function}(")
    body = text[begin : text.index("\n}\n", begin) + 3]
    defines = "\n".join(line for line in text.splitlines() if line.startswith("#define L1D_BUDGET"))
    deep = kind.startswith("depthwise")
    main = MAIN.replace("PARAMS", "dw_conv_params_t" if deep else "conv_params_t").replace("FUNCTION", function)
    main = main.replace("MULTIPLIER", "p.ch_mult = v[12]" if deep else "(void) v[12]")
    head = "#include <stdint.h>\n#include <stddef.h>\n#include <esp_nn_defs.h>\n"
    head += "#define max(a, b) ((a) > (b) ? (a) : (b))\n"
    source, out = build / f"{name}.c", build / name
    source.write_text(f"{head}{defines}\n{body}{main}")
    subprocess.run(["gcc", "-O1", "-w", f"-I{library / 'include'}", str(source), "-o", str(out)], check=True)
    return out


def main() -> int:
    """Compile, ask, compare; exit with 1 if any answer differs."""
    given = arguments(__doc__)
    draw, rows = random.Random(0), list[tuple[Any, ...]]()
    for name in FILES:
        kind, _, chip = name.rpartition("_")
        deep = kind.startswith("depthwise")
        ask = program(given.sources / "third/esp_nn", given.build, name)
        lines, said = [], list[tuple[int, ...]]()
        for _ in range(given.count):
            w, _ = window(draw, deep)
            multiplier = w.output[3] // w.input[3] if deep else 1
            geometry = (w.rows.taps, w.columns.taps, *w.output[1:], w.rows.stride, w.columns.stride)
            lines.append(" ".join(map(str, (*w.input[1:], *geometry, w.rows.before, w.columns.before, multiplier))))
            if deep:
                said.append((esp_nn.depthwise_s3(w, multiplier) if chip == "esp32s3" else 0,))
            else:
                said.append(((esp_nn.convolution_s3 if chip == "esp32s3" else esp_nn.convolution_p4)(w),))
        done = subprocess.run([str(ask)], input="\n".join(lines), capture_output=True, text=True, check=True)
        rows.append(counted(kind, chip, said, [(int(line),) for line in done.stdout.split()]))
    if given.out is not None:
        results = document(esp_nn=COMMIT, rows=rows)
        write(given.out, results, [
            "# ESP-NN's scratch: rules against its compiled C", "",
            f"ESP-NN {COMMIT}, `esp_nn_get_*_scratch_size_*` compiled on the host; {about(results['machine'])}.",
            "`python bench/tflm32/scratch_esp.py SOURCES BUILD` makes this table; random layers of int8, seed 0. In C",
            "(ESP32, C3 and the like) a convolution asks for nothing; a softmax for 4 bytes a row on every chip.", "",
            *table(("layer", "chip", *HEAD[2:]), rows),
        ])  # fmt: skip
    return int(any(row[2] != row[3] for row in rows))


if __name__ == "__main__":
    sys.exit(main())
