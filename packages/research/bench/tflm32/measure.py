"""What TFLM needs for a model, predicted and measured in builds of TFLM's own sources; see README.md for those.

    python bench/tflm32/measure.py BUILD MODELS -o results/tflm-32bit
    python bench/tflm32/measure.py BUILD --kinds 3 -o results/tflm-32bit-operators
    python bench/tflm32/measure.py BUILD MODELS --apart -o results/tflm-apart
    python bench/tflm32/measure.py BUILD --kinds 1 --apart -o results/tflm-apart-operators

BUILD holds what build.py made; of models the pip package is measured, too, and tflm-kernels is made, which has three
kinds of kernels next to each other. Predictions are made from the file alone, before anything is run. With `--apart`
the head and the tail have an array each (`MicroAllocator::Create`): measured by bisection of one while the other is
large, with an inference; then run with both as large as predicted, and compared with one arena.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import lowtide
from lowtide.read.tflite.model import parse_file
from lowtide.read.tflite.reader import graph_of
from lowtide.rules.tflm.rule import TflmRule
from lowtide.run.tflite import ask as ask_package
from lowtide.runtimes.tflm.builds import I386, PIP, X86_64, Build
from lowtide.runtimes.tflm.layout import Abi
from lowtide.runtimes.tflm.persistent import arena_parts
from lowtide.runtimes.tflm.planner import tflm_head
from lowtide_research.bench.pages import about, document, say, script, table
from lowtide_research.bench.tflite_kinds import kinds
from lowtide_research.bench.tflite_net import Net

COMMIT = "90b983c"
SEED, ROUNDS = "7", "3"
BUILDS = {
    "32-reference": Build(I386, False, False, "reference"),
    "32-reference-arm": Build(Abi(4), False, False, "reference"),
    "32-reference-short": Build(Abi(4, enum=1), False, False, "reference"),
    "32-cmsis_nn": Build(I386, False, False, "cmsis_nn", "none"),
    "64-reference": Build(X86_64, False, False, "reference"),
    "pip": PIP,
}
"""By the names of the programs: -arm with -malign-double, -short with -fshort-enums too."""
COLUMNS = {
    "pip": "reference, pip package", "32-reference": "reference, 32 bits",
    "32-cmsis_nn": "CMSIS-NN in plain C, 32 bits",
}  # fmt: skip
ESP32_PERSON_DETECT = 82_300
"""Bytes that an ESP32 reports as used for person_detect as it stands (mcufit 0.5.2)."""
Row = dict[str, Any]
"""A file in a build; sizes are bytes. `plan`: the kernels that the offline plan is for; ``"own"``: the unmodified file.
`outputs`: ``"equal"`` bit by bit to the unmodified file's in the same build, ``"differ"``, or ``"none"``."""


def ask(program: Path, *words: str) -> list[str]:
    """What the program prints, in words; nothing if it fails."""
    done = subprocess.run([str(program), *words], capture_output=True, text=True, timeout=600, check=False)
    return done.stdout.split() if done.returncode == 0 else []


def predicted(data: bytes, build: Build) -> tuple[int, int, bool]:
    """Head, and the smallest arena or, where they are apart, the tail; and whether both are said to be exact."""
    file = parse_file(data, "m")
    graph = graph_of(file.model, [], "m", "")
    rule = TflmRule(build.kernels, build.simd, build.abi.pointer)
    head = tflm_head(file.model, graph, graph.own_order, file.offline_plan(), rule)
    assert head is not None
    parts = arena_parts(file.model, graph, graph.own_order, build)
    if not build.two_arenas:
        return head.bytes, parts.smallest_arena(head.bytes), parts.exact_for(head.bytes)
    size = parts.head_arena(head.bytes)
    return size, parts.persistent_bytes, parts.exact and size > parts.preparing_bytes


def measured(
    program: Path, original: Path, path: Path, sizes: tuple[int, int], two_arenas: bool
) -> tuple[int, int, str]:
    """The same of a program, by bisection, 0 where TFLM does not start; and how the outputs compare."""
    if program.name == "arena-pip":
        answer = ask_package("tflm", [str(original), str(path)], int(SEED), int(ROUNDS), [(), ()])
        if "error" in answer:
            return 0, 0, "none"
        seen, equal = answer["measured"][-1], all(o["equal"] for o in answer["outputs"])
        return seen["head_bytes"], seen["smallest_arena_bytes"], "equal" if equal else "differ"
    own = ask(program, "outputs", str(original), SEED, ROUNDS)
    if two_arenas:
        head, tail = map(int, ask(program, "apart", str(path)) or (0, 0))
        own = ask(program, "outputs", str(path), SEED, ROUNDS)
        found = ask(program, "outputs-apart", str(path), SEED, ROUNDS, *map(str, sizes))
        return head, tail, "none" if not own else "equal" if found == own else "differ"
    parts, arena = ask(program, "parts", str(path)), ask(program, "smallest", str(path))
    found = own if path == original else ask(program, "outputs", str(path), SEED, ROUNDS)
    outputs = "none" if not own else "equal" if found == own else "differ"
    return int(parts[-2]) if len(parts) >= 2 else 0, int(arena[0] if arena else 0), outputs


def plans(path: Path, build: Build, folder: Path) -> Iterator[tuple[str, Path]]:
    """The unmodified file, and planned for kernels that the build has, each with what it is planned for."""
    yield "own", path
    for kernels in dict.fromkeys(("any", build.kernels)):
        target = f"tflm,kernels={kernels},pointer=32" + (",simd=none" if kernels == "cmsis_nn" else "")
        out = folder / f"{path.stem}.{kernels}.tflite"
        if not out.exists():
            lowtide.research.plan(path, target=target, time=20).apply(path, out)
        yield kernels, out


def drawn(count: int, folder: Path) -> Iterator[tuple[str, Path]]:
    """Models of one operator each, as many per kind, drawn at random; each lies where the one before lay."""
    path = folder / "m.tflite"
    for (kind, variant), make in kinds().items():
        for seed in range(count):
            net = Net(seed)
            given, out = make(random.Random(f"{kind} {variant} {seed}"), net)
            net.ends(given, [out])
            path.write_bytes(net.bytes())
            yield f"{kind} {variant} {seed}", path


def rows_of(program: Path, name: str, given: Any, folder: Path) -> Iterator[Row]:
    """All rows of a build."""
    build, second = replace(BUILDS[name], two_arenas=given.apart), "tail" if given.apart else "arena"
    files = sorted(given.models.glob("*.tflite")) if given.models else ()
    cases = [(path.stem, path, plan, out) for path in files for plan, out in plans(path, build, folder)]
    for model, path, plan, out in cases or ((m, p, "own", p) for m, p in drawn(given.kinds, folder)):
        head, other, exact = predicted(out.read_bytes(), build)
        seen = measured(program, path, out, (head, other), given.apart)
        yield {
            "model": model, "build": name, "plan": plan, "predicted_head": head, "head": seen[0],
            f"predicted_{second}": other, second: seen[1], "exact": exact, "outputs": seen[2],
        }  # fmt: skip


def right(row: Row) -> bool:
    """Whether both figures were predicted to the byte."""
    return all(row[key] == row[key.removeprefix("predicted_")] for key in row if key.startswith("predicted_"))


def write(out: Path, results: dict[str, Any]) -> None:
    """The rows as JSON, a line each, and as a table."""
    text = json.dumps(results, separators=(",", ":")).replace('{"model"', '\n{"model"')
    out.with_suffix(".json").write_text(text + "\n", encoding="utf-8")
    rows = results["rows"]
    names = [key for key in rows[0] if key != "exact"]
    lines = [
        f"# TFLM built from its sources: head and {names[6]}, predicted and measured", "",
        f"tflite-micro {COMMIT}, GCC; {about(results['machine'])}. Bytes. *own*: the unmodified file; else the kernels",
        "that its offline plan is for. Predicted before anything ran; measured by bisection. Outputs: 3 random inputs.",
        "", *table([name.replace("_", " ") for name in names], [[row[name] for name in names] for row in rows]), "",
        f"{sum(map(right, rows)):,} of {len(rows):,} as predicted, to the byte.",
    ]  # fmt: skip
    out.with_suffix(".md").write_text("\n".join(lines) + "\n", encoding="utf-8")


def kernels_page(results: dict[str, Any]) -> list[str]:
    """Heads and arenas of files under three kinds of kernels."""
    found = {(r["model"], r["build"], r["plan"]): r for r in results["rows"] if r["build"] in COLUMNS}
    ran = [r for r in found.values() if r["outputs"] != "none"]
    models = list(dict.fromkeys(r["model"] for r in ran))
    lines = [
        f"# TFLM's head and arena on {len(models)} files, under three kernel columns", "",
        f"tflite-micro {COMMIT}, and the pip package; {about(results['machine'])}. Bytes, as predicted from the files",
        "alone; behind a slash what was measured, where that is another number. Each cell: the file itself, planned",
        "for any kernels (lowtide's default), planned for the column's own kernels.",
        "`python bench/tflm32/measure.py BUILD MODELS`; bench/tflm32/README.md says where the files are from.", "",
        f"{sum(map(right, ran))} of {len(ran)} heads and arenas are as predicted, to the byte, and",
        f"{sum(r['outputs'] == 'equal' for r in ran)} of {len(ran)} give the outputs of the unmodified file,",
        f"bit by bit, on {ROUNDS} random inputs.",
    ]  # fmt: skip
    refused = sorted({r["model"] for r in found.values()} - set(models))
    lines += [f"TFLM itself does not run {', '.join(refused)}."] if refused else []
    for what, key in (("Head: tensors and scratch", "head"), ("Arena: the smallest kTensorArenaSize", "arena")):
        cells = [(m, *(", ".join(_cell(found.get((m, c, plan)), key) for plan in ("own", "any", BUILDS[c].kernels))
                       for c in COLUMNS)) for m in models]  # fmt: skip
        lines += ["", f"## {what}", "", *table(("model", *COLUMNS.values()), cells)]
    person = found.get(("tflm_person_detect_int8", "32-reference", "own"))
    if person is not None:
        above = f"{person['predicted_arena'] - ESP32_PERSON_DETECT:,} B less"
        lines += ["", f"An ESP32 reports {ESP32_PERSON_DETECT:,} B used for person_detect: {above}."]
    return lines


def _cell(row: Row | None, key: str) -> str:
    if row is None:
        return ""
    said, seen = row[f"predicted_{key}"], row[key]
    return f"{said:,}" if said == seen else f"{said:,} / {seen:,}" if seen else f"{said:,} / not run"


def main() -> int:
    """Measure in every build that is there; exit with 1 if a figure called exact was missed, or an output differs."""
    parser = script(__doc__)
    parser.add_argument("build", type=Path)
    parser.add_argument("models", type=Path, nargs="?", help="a folder of .tflite files")
    parser.add_argument("--kinds", type=int, default=0, help="models of one operator instead, so many of each kind")
    parser.add_argument("--apart", action="store_true", help="head and tail in two memories")
    given = parser.parse_args()
    results = document(tflite_micro=COMMIT, sizeof={}, rows=[])
    with tempfile.TemporaryDirectory() as folder:
        for name in BUILDS:
            program = given.build / f"arena-{name}"
            if (name == "pip" and (given.kinds or given.apart)) or (name != "pip" and not program.exists()):
                continue
            if name != "pip":
                done = subprocess.run([str(program), "sizes"], capture_output=True, text=True, check=False)
                results["sizeof"][name] = done.stdout.splitlines()
            results["rows"] += rows_of(program, name, given, Path(folder))
            say(f"{name} {len(results['rows'])}")
    ran = [row for row in results["rows"] if row["outputs"] != "none"]
    wrong = [row for row in ran if not right(row) or row["outputs"] == "differ"]
    for row in wrong:
        print(row)
    print(
        f"{len(ran) - len(wrong)} of {len(ran)} as predicted, outputs equal; {len(results['rows']) - len(ran)} not run"
    )
    if given.out is not None:
        write(given.out, results)
        if not (given.kinds or given.apart):
            page = given.out.with_name("tflm-kernels.md")
            page.write_text("\n".join(kernels_page(results)) + "\n", encoding="utf-8")
    return int(any(row["exact"] or row["outputs"] == "differ" for row in wrong))


if __name__ == "__main__":
    sys.exit(main())
