"""Damaged model files through `inspect` and `plan`: read or refused in one line, quickly and in little memory.

    python tests/fuzz.py 100000 --seed 7

Each file is a small model with a few bytes, words or stretches changed, or cut off. Flatbuffers (.tflite), protobufs
(.onnx), graph JSON, and what --model gives. A flaw is an exception that is no `InputError`, a message
of several lines, more than `SLOW` CPU seconds beyond the time given, or a process that has grown beyond `MEMORY`.
"""

from __future__ import annotations

import argparse
import collections
import json
import resource
import sys
import tempfile
import time
from pathlib import Path
from random import Random

from lowtide import api
from lowtide.bench.tflite_net import branches as tflite_branches
from lowtide.bench.tflite_net import residual
from lowtide.errors import InputError
from small_models import branches, graph_file, onnx_file

SECONDS = 0.2
SLOW = 2.0
MEMORY = 1 << 30
WORDS = (0, 1, 2, 3, 0x7FFFFFFF, 0xFFFFFFFF, 0x80000000, 0x10000)


def seeds(folder: Path, further: list[Path]) -> list[tuple[str, bytes]]:
    """Whole models: the ending of their names, and their bytes."""
    whole = [(".tflite", bytes(net.bytes())) for net in (residual(8), tflite_branches())]
    for path in (onnx_file(folder), onnx_file(folder, batch="n")):
        whole.append((".onnx", path.read_bytes()))
    whole.append((".graph.json", graph_file(folder, branches()).read_bytes()))
    return whole + [("".join(p.suffixes[-1:]), p.read_bytes()) for p in further]


def damaged(data: bytes, draw: Random) -> bytes:
    """A copy with a few faults."""
    made = bytearray(data)
    if draw.random() < 0.05:
        return bytes(made[: draw.randrange(len(made))])
    for _ in range(draw.choice((1, 1, 1, 2, 3, 6))):
        at = draw.randrange(max(len(made) - 4, 1))
        fault = draw.randrange(7)
        if fault == 0:
            made[at] = draw.randrange(256)
        elif fault == 1:
            made[at] ^= 1 << draw.randrange(8)
        elif fault == 2:
            made[at : at + 4] = draw.choice((*WORDS, len(made), draw.randrange(2**32))).to_bytes(4, "little")
        elif fault == 3:
            other = draw.randrange(max(len(made) - 4, 1))
            made[at : at + 4] = made[other : other + 4]
        elif fault == 4:
            value = (int.from_bytes(made[at : at + 4], "little") + draw.choice((-4, -1, 1, 4, 16))) % 2**32
            made[at : at + 4] = value.to_bytes(4, "little")
        elif fault == 5:
            del made[at : at + draw.randrange(1, 20)]
        else:
            other = draw.randrange(len(made))
            made[at:at] = made[other : other + draw.randrange(1, 20)]
        if not made:
            return b""
    return bytes(made)


def outcome(path: Path, folder: Path, index: int) -> str:
    """What became of a file: "ok", "refused", or a flaw."""
    began = time.process_time()
    try:
        if index % 2:
            api.inspect(path, time=SECONDS)
        else:
            plan = api.plan(path, time=SECONDS)
            if index % 4 == 0 and path.suffix != ".json":
                plan.apply(path, folder / f"out{path.suffix}")
        what = "ok"
    except InputError as error:
        what = "refused" if "\n" not in str(error) else f"several lines: {error!s:.100}"
    except Exception as error:  # the fuzzer reports what nothing should raise
        what = f"{type(error).__name__}: {error!s:.100}"
    spent = time.process_time() - began
    return f"{what}, but in {spent:.1f} s" if spent > SECONDS + SLOW else what


def main() -> int:
    """Exit status 1 if there is a flaw; the files that show it are kept."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--model", type=Path, action="append", default=[], help="a further model to damage")
    given = parser.parse_args()
    seen: collections.Counter[str] = collections.Counter()
    flaws = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        whole = seeds(folder, given.model)
        for index in range(given.count):
            draw = Random(f"{given.seed} {index}")
            suffix, data = draw.choice(whole)
            path = folder / f"damaged{suffix}"
            path.write_bytes(damaged(data, draw))
            what = outcome(path, folder, index)
            seen[what if what in ("ok", "refused") else "flaw"] += 1
            if what not in ("ok", "refused"):
                flaws += 1
                kept = Path(f"fuzz-{given.seed}-{index}{suffix}")
                kept.write_bytes(path.read_bytes())
                print(f"{kept}: {what}", flush=True)
            if index % 1000 == 999:
                print(f"{index + 1} files: {json.dumps(seen)}", file=sys.stderr, flush=True)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(f"{given.count} files: {json.dumps(seen)}; at most {grown >> 20} MiB")
    return 1 if flaws or grown > MEMORY else 0


if __name__ == "__main__":
    sys.exit(main())
