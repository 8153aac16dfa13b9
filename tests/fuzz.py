"""Damaged model files through `inspect` and `plan`: read or refused in one line, quickly and in little memory.

    python tests/fuzz.py 100000 --seed 7
    python tests/fuzz.py 200 --command
    python tests/fuzz.py 20000 --kind .pt2 --model exported.pt2

Each file is a small model with a few bytes, words or stretches changed, or cut off: flatbuffers (.tflite), protobufs
(.onnx), graph JSON, archives of torch.export (.pt2), and what --model gives; half the time it is fields of the protobuf
or of the JSON document, inside the archive too, that are changed. A flaw is an exception that is no `InputError`, a
message of several lines, more than `SLOW` CPU seconds beyond the time given, or a process that has grown beyond
`MEMORY`. With --command each file goes through the command line in a process of its own, ``--time 1``: there a status
that is neither 0 nor 2 is a flaw too, and an output beside status 2.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import io
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import zipfile
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import onnx

from lowtide import api
from lowtide.errors import InputError
from lowtide_research import zoo
from lowtide_research.bench.tflite_net import branches as tflite_branches
from lowtide_research.bench.tflite_net import residual
from support.light_models import light_paths
from support.pt2_builder import archive
from support.pt2_builder import branches as pt2_branches
from support.small_models import branches, graph_file, onnx_file

SECONDS = 0.2
COMMAND_SECONDS = 1.0
SLOW = 2.0
MEMORY = 1 << 30
WORDS = (0, 1, 2, 3, 0x7FFFFFFF, 0xFFFFFFFF, 0x80000000, 0x10000)


def seeds(folder: Path, further: list[Path]) -> list[tuple[str, bytes]]:
    """Whole models: the ending of their names, and their bytes."""
    whole = [(".tflite", bytes(net.bytes())) for net in (residual(8), tflite_branches())]
    for path in (onnx_file(folder), onnx_file(folder, "free.onnx", batch="n")):
        whole.append((".onnx", path.read_bytes()))
    for network in ("swiftnet_cell_a", "transformer:layers=1,width=16,heads=2,seq=8"):
        whole.append((".onnx", zoo.build(network).onnx(0).SerializeToString(deterministic=True)))
    whole.append((".onnx", light_paths()["squeezenet"].read_bytes()))
    whole.append((".graph.json", graph_file(folder, branches()).read_bytes()))
    for compression in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        whole.append((".pt2", archive(folder / "m.pt2", pt2_branches(), compression).read_bytes()))
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


def damaged_document(data: bytes, draw: Random) -> bytes:
    """JSON with a few values replaced, by odd ones or by copies of others."""
    document = json.loads(data)
    places: list[tuple[Any, Any]] = []
    waiting = [document]
    while waiting:
        at = waiting.pop()
        keys = list(at) if isinstance(at, dict) else range(len(at))
        places += [(at, key) for key in keys]
        waiting += [at[key] for key in keys if isinstance(at[key], dict | list)]
    for _ in range(draw.choice((1, 1, 2, 3))):
        holder, key = draw.choice(places)
        other, name = draw.choice(places)
        copied = json.dumps(other[name])
        holder[key] = draw.choice((None, -1, 2**62, 1e300, "", [], {}, True, "s0*2", *[json.loads(copied)] * 5))
    return json.dumps(document).encode()


def damaged_proto(data: bytes, draw: Random) -> bytes:
    """An ONNX model with a few fields changed, so that it can be read as one still."""
    model = onnx.ModelProto.FromString(data)
    messages: list[Any] = []
    waiting: list[Any] = [model]
    while waiting:
        at = waiting.pop()
        messages.append(at)
        for _, value in at.ListFields():
            inner = value if hasattr(value, "append") else [value]
            waiting += [v for v in inner if hasattr(v, "ListFields")]
    names = sorted({m.name for m in messages if getattr(m, "name", "")})
    for _ in range(draw.choice((1, 1, 2, 3))):
        at = draw.choice(messages)
        known = at.ListFields()
        if not known:
            continue
        field, value = draw.choice(known)
        if hasattr(value, "append"):
            k = draw.randrange(len(value))
            if draw.random() < 0.3:
                del value[k]
            elif hasattr(value[k], "ListFields"):
                value.add().CopyFrom(value[k])
            else:
                with contextlib.suppress(ValueError):  # a number that an enumeration has not
                    value[k] = _other(value[k], names, draw)
        elif hasattr(value, "ListFields"):
            at.ClearField(field.name)
        else:
            with contextlib.suppress(ValueError):
                setattr(at, field.name, _other(value, names, draw))
    return model.SerializeToString()


def _other(value: Any, names: list[str], draw: Random) -> Any:
    if isinstance(value, str):
        return draw.choice((*names, "", "other"))
    if isinstance(value, bytes):
        return value[: draw.randrange(len(value) + 1)]
    if isinstance(value, float):
        return draw.choice((0.0, -1.0, 1e30, float("nan")))
    return draw.choice((0, 1, -1, 2, 3, 7, 2**31 - 1, value + 1, value - 1)) if abs(value) < 2**31 - 1 else 0


def damaged_inside(data: bytes, draw: Random) -> bytes:
    """A zip whose one JSON document has a few faults, and whose checksums are right."""
    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(made, "w") as new:
        for info in old.infolist():
            content = old.read(info)
            if info.filename.endswith("models/model.json"):
                content = (damaged if draw.random() < 0.3 else damaged_document)(content, draw)
            new.writestr(info.filename, content, info.compress_type)
    return made.getvalue()


DEEPER = {".pt2": damaged_inside, ".graph.json": damaged_document, ".onnx": damaged_proto}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a file: ``"ok"``, ``"refused"``, or a flaw; CPU seconds; most bytes that a process held."""

    what: str
    seconds: float
    held_bytes: int


def in_process(path: Path, folder: Path, index: int) -> Outcome:
    """`inspect` or `plan`, called."""
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
    if spent > SECONDS + SLOW:
        what = f"{what}, but in {spent:.1f} s"
    return Outcome(what, spent, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10)


def by_command(path: Path, folder: Path, index: int) -> Outcome:
    """`inspect` or `plan` on the command line."""
    out = folder / f"out{path.suffix}"
    out.unlink(missing_ok=True)
    words = ["inspect", str(path)] if index % 2 else ["research", "plan", str(path), "-o", str(out)]
    with tempfile.TemporaryFile() as said:
        child = subprocess.Popen(
            [sys.executable, "-m", "lowtide", *words, "--time", str(COMMAND_SECONDS), "-q"],
            stdout=subprocess.DEVNULL, stderr=said,
        )  # fmt: skip
        _, ended, used = os.wait4(child.pid, 0)
        status = child.returncode = os.waitstatus_to_exitcode(ended)
        said.seek(0)
        lines = said.read().decode("utf-8", "replace").splitlines()
    spent = used.ru_utime + used.ru_stime
    what = {0: "ok", 2: "refused"}.get(status, f"status {status}: {lines[-1:]}")
    if status == 2 and (len(lines) != 1 or out.exists()):
        what = f"status 2, {len(lines)} lines, output {'written' if out.exists() else 'not written'}"
    elif spent > COMMAND_SECONDS + SLOW:
        what = f"{what}, but in {spent:.1f} s"
    return Outcome(what, spent, used.ru_maxrss << 10)


def main() -> int:
    """Exit status 1 if there is a flaw; the files that show it are kept."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--model", type=Path, action="append", default=[], help="a further model to damage")
    parser.add_argument("--kind", default="", help="only files whose names end so, such as .pt2")
    parser.add_argument("--command", action="store_true", help="through the command line, a process for each file")
    given = parser.parse_args()
    seen: collections.Counter[str] = collections.Counter()
    flaws = largest = 0
    longest = 0.0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        whole = [w for w in seeds(folder, given.model) if w[0].endswith(given.kind)]
        kinds = sorted({suffix for suffix, _ in whole})
        for index in range(given.count):
            draw = Random(f"{given.seed} {index}")
            kind = draw.choice(kinds)
            suffix, data = draw.choice([w for w in whole if w[0] == kind])
            path = folder / f"damaged{suffix}"
            path.write_bytes((DEEPER.get(suffix, damaged) if draw.random() < 0.5 else damaged)(data, draw))
            found = (by_command if given.command else in_process)(path, folder, index)
            known = found.what in ("ok", "refused")
            seen[f"{suffix} {found.what if known else 'flaw'}"] += 1
            longest, largest = max(longest, found.seconds), max(largest, found.held_bytes)
            if not known:
                flaws += 1
                kept = Path(f"fuzz-{given.seed}-{index}{suffix}")
                kept.write_bytes(path.read_bytes())
                print(f"{kept}: {found.what}", flush=True)
            if index % 1000 == 999:
                print(f"{index + 1} files: {json.dumps(seen)}", file=sys.stderr, flush=True)
    counts = json.dumps(seen, sort_keys=True)
    print(f"{given.count} files: {counts}; at most {longest:.1f} CPU s and {largest >> 20} MiB")
    return 1 if flaws or largest > MEMORY else 0


if __name__ == "__main__":
    sys.exit(main())
