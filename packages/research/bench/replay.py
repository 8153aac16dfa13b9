"""The commands that users stumbled over, run again: what they print now, and whether that is what it should be.

    python bench/replay.py MODELS [--only W5,A] [--quiet]

`MODELS` is a folder with `onnx/*.onnx` and `tflite/*.tflite`. Each row has a name (W: wrong or contradictory, A: a
`.tflite` for firmware, B: ONNX and onnxruntime, C: a compiler, D: PyTorch, L: the command line), a command, the exit
status, and a pattern that what it prints has to hold. `{tmp}` is a fresh folder, in which the models of
replay_models.py lie when a row asks for one. Exit status 1 if a row is not so.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import re
import shlex
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lowtide.cli import main as command
from replay_models import MODELS


@dataclass(frozen=True)
class Row:
    """A command, what it should end with, and a pattern (without an ``!`` in front: that must not be there)."""

    name: str
    words: str
    status: int
    pattern: str


PERSON, VWW = "{tflite}/tflm_person_detect_int8.tflite", "{tflite}/mlperf_tiny_vww96_int8.tflite"
NASNET, SWIN = "{onnx}/nasnet-cifar.onnx", "{onnx}/swin_t.onnx"
AUDIO, KEYWORD = "{tflite}/tflm_audio_preprocessor.tflite", "{tflite}/tflm_keyword_scrambled.tflite"

ROWS = (
    Row("W1", f"plan {PERSON} -o {{tmp}}/p.tflite", 0, r"--set kernels=reference +36,880 B"),
    Row("W1", "verify {tmp}/p.tflite --target tflm,kernels=cmsis_nn", 0, r"the plan holds"),
    Row("W1", "verify {tmp}/p.tflite --target tflm,kernels=esp_nn", 0, r"the plan holds"),
    Row("W2", f"check {PERSON} --budget 64KiB --set pointer=32 --set kernels=reference", 0, r"^fits"),
    Row("W3", f"plan {PERSON} --header {{tmp}}/p.h --buffer-plan {{tmp}}/b.h", 0, r"kTensorArenaSize +85,264 B"),
    Row("W3", f"check {PERSON} --budget 85264", 0, r"required at most 85,264 B"),
    Row("W4", "check {tmp}/vela.tflite --budget 1MiB", 0, r"own order and offsets"),
    Row("W4", "plan {tmp}/vela.tflite -o {tmp}/v.tflite", 2, r"compiled by Vela"),
    Row("W5", f"check {NASNET} --budget 2MiB", 0, r"required at most [\d,]+ B"),
    Row("W5", f"check {NASNET} --budget 1MiB", 4, r"excess at least 738,048 B"),
    Row("W5", "check zoo:swiftnet_cell_a --target strict --budget 64KB", 4, r"cannot fit"),
    Row("W6", "check {tmp}/if.onnx --target onnxruntime --budget 4MiB", 4, r"excess 1,048,832 B"),
    Row("W6", "plan {tmp}/if.onnx --target onnxruntime --plan {tmp}/i.json", 0, r"in use .* 5,242,888 B .*at least"),
    Row("W6", "verify {tmp}/if.onnx {tmp}/i.json --run", 0, r"the plan holds"),
    Row("W7", f"plan {AUDIO} --plan {{tmp}}/a.json", 0, r"head +3,040 B .*as before"),
    Row("W7", f"verify {AUDIO} {{tmp}}/a.json --run", 0, r"predicted +3,040 B .*equal to the byte"),
    Row("W7", f"plan {KEYWORD} --plan {{tmp}}/k.json", 0, r"kTensorArenaSize +12,944 B"),
    Row("W7", f"verify {KEYWORD} {{tmp}}/k.json --run", 0, r"predicted +12,944 B .*equal to the byte"),
    Row("W8", "plan {tmp}/large.onnx --target onnxruntime --runtime-optimized {tmp}/o.onnx", 0, r"proved least"),
    Row("W9", "plan {tmp}/head_size.onnx", 0, r"proved least"),
    Row("A1", f"inspect {PERSON}", 0, r"kTensorArenaSize +85,264 B"),
    Row("A2", f"inspect {PERSON}", 0, r"Conv2d_1_pointwise/Relu6"),
    Row("A2", f"inspect {PERSON}", 0, r"!\.\.\.\w"),
    Row("A3", f"inspect {PERSON}", 0, r"1x48x48x16 int8 +CONV_2D"),
    Row("A4", f"check {PERSON} --board ESP32-S3 --bank sram=64KiB", 0, r"^fits: required sram 55,296 B"),
    Row("A5", "board esp32-s3", 0, r"size = 415504"),
    Row("A5", "board nrf5340", 0, r"Cortex-M33"),
    Row("A6", f"check {PERSON} {VWW} --budget 96K", 0, r"(?s)person.*fits.*vww96.*fits"),
    Row("A6", f"check {PERSON} {VWW} --budget 64K --format github", 3, r"::error file="),
    Row("A6", f"check {PERSON} --budget 64K --json", 3, r'"model": '),
    Row("A7", f"check {PERSON} --budget 1.7MiB", 0, r"^fits"),
    Row("A7", f"check {PERSON} --budget 40Q", 2, r"256KiB .*KB is 1000, KiB and K are 1024"),
    Row("A8", f"compare {PERSON}", 0, r"TFLM today +85,264 +55,296"),
    Row("A9", f"plan {VWW} --emit c --allow loops -o {{tmp}}/firmware", 0, r"C: arena +27,760 B"),
    Row("A9", f"plan {VWW} --emit c --allow loops --stream-input -o {{tmp}}/fw2", 0, r"C: arena +10,912 B"),
    Row("A3", f"inspect {PERSON}", 0, r"cuts could give +at most"),
    Row("B1", f"plan {NASNET}", 0, r"in use +3,425,024 B .* 1,835,008 B .*exact"),
    Row("B2", f"plan {SWIN}", 0, r"arena +66,060,288 B .*-81\.8 %"),
    Row("B3", f"plan {NASNET} --target onnxruntime --plan {{tmp}}/n.json", 0, r"proved least"),
    Row("B3", f"verify {NASNET} {{tmp}}/n.json --run --random-weights", 0, r"(?s)latency .*process "),
    Row("B4", f"plan {NASNET} --target onnxruntime --snippet {{tmp}}/s.py", 0, r"session"),
    Row("B5", "compare {onnx}/nasnetamobile.onnx", 0, r"left out, for they may take minutes: serenity"),
    Row("B6", f"plan {SWIN} --target onnxruntime --runtime-optimized {{tmp}}/o.onnx", 2, r"put it beside the model$"),
    Row("B", "plan {onnx}/branchy_bfs_dyn.onnx --dim N=1,2,4", 0, r"(?m)^4 +104,857,600 +21,626,880"),
    Row("B", "plan {onnx}/bert_tiny_dynamic.onnx", 2, r"--dim batch=1 --dim seq=1$"),
    Row("B7", "plan zoo:randwire_ws_one_stage --gap 5%", 0, r"peak"),
    Row("C1", "schema graph", 0, r"GraphDocument"),
    Row("C1", "plan {tmp}/misspelt.graph.json", 2, r"unknown key 'overwrite'.* did you mean overwrites"),
    Row("C2", "plan {tmp}/net.graph.json", 0, r"in place +1 op"),
    Row("C3", "plan {tmp}/net.graph.json --target {tmp}/mine.toml --plan {tmp}/mine.json", 0, r"^target +mine"),
    Row("C3", "verify {tmp}/net.graph.json {tmp}/mine.json", 0, r"the plan holds"),
    Row("C5", "allocate {tmp}/buffers.csv", 0, r"height 30 B, proved least"),
    Row("C2", "target generic", 0, r"^# Whether constants are counted: .never"),
    Row("C4", "compare zoo:swiftnet_cell_a --methods own,exakt", 2, r"did you mean exact"),
    Row("C6", "plan zoo:swiftnet_cell_a --memory fast=64K", 4, r"alone needs"),
    Row("D3", "plan {tmp}/m.pt", 2, r"torch\.export\.save"),
    Row("L", "", 0, r"usage: lowtide"),
    Row("L", "compare --help", 0, r"^  exact +Least peak over all orders"),
    Row("L", "pln x", 2, r"did you mean plan"),
    Row("L", "plan x --budgte 5", 2, r"did you mean --budget"),
    Row("L", "plan zoo:swiftnet_cell_a --allow fission seams", 2, r"commas between"),
    Row("L", "plan zoo:swiftnet_cell_a --plan {tmp}/none/p.json", 2, r"there is no folder .*make it first"),
    Row("L", "report zoo:swiftnet_cell_a -o {tmp}/r.html", 2, r"give the file of the plan"),
    Row("L", "completion bash", 0, r"^# Completion of lowtide in bash"),
    Row("L", "plan zoo:swiftnet_cell_a --target tfml", 2, r"did you mean tflm"),
)


@dataclass(frozen=True)
class Outcome:
    """A row, what it printed, and what is wrong with that; empty if nothing is."""

    row: Row
    printed: str
    wrong: str


def run(row: Row, folders: dict[str, str]) -> Outcome:
    """Run a row's command in this process, with the models that are built for it."""
    for name in (name for name in MODELS if f"{{tmp}}/{name}" in row.words):
        if not Path(folders["tmp"], name).exists():
            MODELS[name](Path(folders["tmp"], name))
    words = [word.format_map(folders) for word in shlex.split(row.words)]
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        status = command(words)
    printed = out.getvalue()
    wanted, pattern = not row.pattern.startswith("!"), row.pattern.removeprefix("!")
    wrong = f"exit status {status}, not {row.status}" if status != row.status else ""
    if bool(re.search(pattern, printed, re.MULTILINE)) != wanted:
        wrong = "; ".join(filter(None, (wrong, f"{'no' if wanted else 'there is'} {pattern!r} in it")))
    return Outcome(row, printed, wrong)


def replay(models: Path, only: tuple[str, ...] = ()) -> Iterator[Outcome | Row]:
    """Each row in turn; a row whose model is not there as it is."""
    with tempfile.TemporaryDirectory() as tmp:
        folders = {"tmp": tmp, "onnx": str(models / "onnx"), "tflite": str(models / "tflite")}
        for row in ROWS:
            if only and not row.name.startswith(only):
                continue
            paths = [Path(w.format_map(folders)) for w in row.words.split() if w.startswith(("{onnx}", "{tflite}"))]
            yield run(row, folders) if all(path.exists() for path in paths) else row


def main() -> int:
    """Print each command, what it prints, and whether that is right."""
    parser = argparse.ArgumentParser(description="The commands that users stumbled over, run again.")
    parser.add_argument("models", type=Path)
    parser.add_argument("--only", default="", help="names of rows, or how they begin, separated by commas")
    parser.add_argument("--quiet", action="store_true", help="only what is wrong, and how many there are")
    options = parser.parse_args()
    count = wrong = left_out = 0
    for outcome in replay(options.models, tuple(filter(None, options.only.split(",")))):
        if isinstance(outcome, Row):
            left_out += 1
            continue
        count, wrong = count + 1, wrong + bool(outcome.wrong)
        if outcome.wrong or not options.quiet:
            print(
                f"$ lowtide {outcome.row.words}\n{outcome.printed}-> {outcome.wrong or 'as it should be'}\n", flush=True
            )
    print(f"{count - wrong} of {count} as they should be, {left_out} left out for want of their model")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
