"""What TFLM needs for a model, predicted and measured in builds of TFLM's own sources; see README.md for those.

    python bench/tflm32/measure.py BUILD MODELS -o results/tflm-32bit
    python bench/tflm32/measure.py BUILD --kinds 3 -o results/tflm-32bit-operators

BUILD holds what build.py made. Predictions are made from the file alone, before anything is run.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import lowtide
from lowtide.read.tflite.model import parse_file
from lowtide.read.tflite.reader import graph_of
from lowtide.rules.tflm.rule import TflmRule
from lowtide.runtimes.tflm.builds import I386, X86_64, Build
from lowtide.runtimes.tflm.layout import Abi
from lowtide.runtimes.tflm.persistent import ArenaParts, arena_parts
from lowtide.runtimes.tflm.planner import tflm_head
from lowtide_research.bench.machine import machine

COMMIT = "90b983c"
SEED, ROUNDS = 7, 3
BUILDS = {
    "32-reference": Build(I386, False, False, "reference"),
    "32-reference-arm": Build(Abi(4), False, False, "reference"),
    "32-reference-short": Build(Abi(4, enum=1), False, False, "reference"),
    "32-cmsis_nn": Build(I386, False, False, "cmsis_nn", "none"),
    "64-reference": Build(X86_64, False, False, "reference"),
}
"""By the names of the programs: -arm with -malign-double, -short with -fshort-enums too."""


@dataclass(frozen=True)
class Row:
    """A file in a build; sizes are bytes.

    `plan`: the kernels that the offline plan was made for; ``"own"``: the file as it stands. `outputs`: ``"equal"`` bit
    by bit to the file as it stands in the same build, ``"differ"``, or ``"none"``. Of models of one operator it says
    whether the arena is called ``"exact"``, or ``"enough"``: where preparing kernels takes most, by 16 bytes or so.
    """

    model: str
    build: str
    plan: str
    predicted_head: int
    head: int
    predicted_arena: int
    arena: int
    outputs: str = ""


def ask(program: Path, *words: str) -> str:
    """What the program prints; empty if it fails."""
    done = subprocess.run([str(program), *words], capture_output=True, text=True, timeout=600, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


def head_and_parts(data: bytes, build: Build) -> tuple[int, ArenaParts]:
    """Bytes of the head, and what stands beside it."""
    file = parse_file(data, "m")
    graph = graph_of(file.model, [], "m", "")
    rule = TflmRule(build.kernels, build.simd, build.abi.pointer)
    head = tflm_head(file.model, graph, graph.own_order, file.offline_plan(), rule)
    assert head is not None
    return head.bytes, arena_parts(file.model, graph, graph.own_order, build)


def predicted(data: bytes, build: Build) -> tuple[int, int, bool]:
    """Head, smallest arena, and whether that is said to be exact."""
    head, parts = head_and_parts(data, build)
    return head, parts.smallest_arena(head), parts.exact_for(head)


def measured(program: Path, path: Path) -> tuple[int, int]:
    """Head, and smallest arena of a plain MicroInterpreter; 0 where TFLM does not start."""
    parts = ask(program, "parts", str(path)).split()
    arena = ask(program, "smallest", str(path))
    return int(parts[-2]) if len(parts) >= 2 else 0, int(arena or 0)


def plans(path: Path, build: Build, folder: Path) -> Iterator[tuple[str, Path]]:
    """The file as it stands, and planned for kernels that the build has, each with what it is planned for."""
    yield "own", path
    for kernels in dict.fromkeys(("any", "reference", build.kernels)):
        target = f"tflm,kernels={kernels},pointer=32" + (",simd=none" if kernels == "cmsis_nn" else "")
        out = folder / f"{path.stem}.{kernels}.tflite"
        if not out.exists():
            lowtide.plan(path, target=target, time=20).apply(path, out)
        yield kernels, out


def models(program: Path, name: str, build: Build, files: list[Path], folder: Path) -> Iterator[Row]:
    """Rows of real files."""
    for path in files:
        own = ask(program, "outputs", str(path), str(SEED), str(ROUNDS))
        for plan, planned in plans(path, build, folder):
            head, arena, _ = predicted(planned.read_bytes(), build)
            seen = ask(program, "outputs", str(planned), str(SEED), str(ROUNDS))
            equal = "equal" if seen == own else "differ"
            yield Row(path.stem, name, plan, head, *_order(measured(program, planned), arena), equal if own else "none")


def _order(seen: tuple[int, int], arena: int) -> tuple[int, int, int]:
    return seen[0], arena, seen[1]


def drawn(count: int, folder: Path) -> Iterator[tuple[str, Path]]:
    """Models of one operator each, as many per kind, drawn at random; each lies where the one before lay."""
    from lowtide_research.bench.tflite_kinds import kinds
    from lowtide_research.bench.tflite_net import Net

    path = folder / "m.tflite"
    for (kind, variant), make in kinds().items():
        for seed in range(count):
            net = Net(seed)
            given, out = make(random.Random(f"{kind} {variant} {seed}"), net)
            net.ends(given, [out])
            path.write_bytes(net.bytes())
            yield f"{kind} {variant} {seed}", path


def operators(program: Path, name: str, build: Build, count: int, folder: Path) -> Iterator[Row]:
    """Rows of models of one operator each."""
    for model, path in drawn(count, folder):
        head, arena, exact = predicted(path.read_bytes(), build)
        row = _order(measured(program, path), arena)
        yield Row(model, name, "own", head, *row, "exact" if exact else "enough")


def arguments(description: str) -> argparse.Namespace:
    """What the command line names: builds, models or kinds of operators, an output."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("build", type=Path)
    parser.add_argument("models", type=Path, nargs="?", help="a folder of .tflite files")
    parser.add_argument("--kinds", type=int, default=0, help="models of one operator instead, so many of each kind")
    parser.add_argument("-o", "--output", type=Path)
    return parser.parse_args()


def main() -> int:
    """Measure in every build that is there; exit with 1 if a figure called exact was missed."""
    given = arguments(__doc__ or "")
    rows: list[Row] = []
    sizes: dict[str, list[str]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, build in BUILDS.items():
            program = given.build / f"arena-{name}"
            if not program.exists():
                continue
            sizes[name] = ask(program, "sizes").splitlines()
            if given.kinds:
                rows += operators(program, name, build, given.kinds, Path(folder))
            else:
                rows += models(program, name, build, sorted(given.models.glob("*.tflite")), Path(folder))
            print(name, len(rows), file=sys.stderr)
    wrong = [r for r in rows if (r.predicted_head, r.predicted_arena) != (r.head, r.arena)]
    for row in wrong:
        print(row)
    print(f"{len(rows) - len(wrong)} of {len(rows)} heads and arenas as predicted")
    if given.output is not None:
        write(given.output, rows, sizes)
    return int(any(r.outputs != "enough" for r in wrong))


def write(output: Path, rows: list[Row], sizes: dict[str, list[str]]) -> None:
    """The rows as JSON, and as tables."""
    here = machine()
    document: dict[str, Any] = {"tflite_micro": COMMIT, "machine": asdict(here), "sizeof": sizes}
    document["rows"] = [asdict(r) for r in rows]
    text = json.dumps(document, indent=None, separators=(",", ":")).replace('{"model"', '\n{"model"')
    output.with_suffix(".json").write_text(text + "\n")
    lines = [
        "# TFLM built from its sources: head and smallest arena, predicted and measured",
        "",
        f"tflite-micro {COMMIT}, GCC; {here.cpu}; lowtide {here.lowtide} ({here.commit}). Bytes. *own*: the file as it",
        "stands; else the kernels that its offline plan is for. Predicted before anything ran; measured by bisection",
        "with a plain MicroInterpreter. Outputs: 3 random inputs, against the file as it stands in the same build; a",
        "plan for the reference kernels is not meant to run with others.",
        "",
        "| model | build | plan | head predicted | measured | arena predicted | measured | outputs |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for r in rows:
        figures = (r.predicted_head, r.head, r.predicted_arena, r.arena)
        lines.append(f"| {r.model} | {r.build} | {r.plan} | {' | '.join(f'{n:,}' for n in figures)} | {r.outputs} |")
    right = sum((r.predicted_head, r.predicted_arena) == (r.head, r.arena) for r in rows)
    lines += ["", f"{right:,} of {len(rows):,} heads and arenas as predicted, to the byte."]
    output.with_suffix(".md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    sys.exit(main())
