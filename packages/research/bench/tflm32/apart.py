"""TFLM's head and tail in two memories, predicted and measured in builds of TFLM's own sources; see README.md.

    python bench/tflm32/apart.py BUILD MODELS -o results/tflm-apart
    python bench/tflm32/apart.py BUILD --kinds 1 -o results/tflm-apart-operators

`MicroAllocator::Create` takes an array for each. Measured by bisection of one array while the other is large, with an
inference; then run with both as large as predicted, and the outputs compared with those of one arena.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from measure import BUILDS, COMMIT, ROUNDS, SEED, arguments, ask, drawn, head_and_parts, plans

from lowtide.runtimes.tflm.builds import Build
from lowtide_research.bench.machine import machine


@dataclass(frozen=True)
class Row:
    """A file in a build; sizes are bytes.

    `outputs`: ``"equal"`` if they are, with both arrays as large as predicted, those of one large arena; ``"none"`` if
    the build does not run the model.
    """

    model: str
    build: str
    plan: str
    predicted_head: int
    head: int
    predicted_tail: int
    tail: int
    exact: bool
    outputs: str


def predicted(data: bytes, build: Build) -> tuple[int, int, bool]:
    """Bytes of the two arrays, and whether that is said to be exact."""
    head, parts = head_and_parts(data, build)
    size = parts.head_arena(head)
    return size, parts.persistent_bytes, parts.exact and size > parts.preparing_bytes


def row(program: Path, name: str, plan: str, path: Path, model: str) -> Row:
    """Predict, then measure."""
    head, tail, exact = predicted(path.read_bytes(), replace(BUILDS[name], apart=True))
    seen = [int(word) for word in ask(program, "apart", str(path)).split()] or [0, 0]
    whole = ask(program, "outputs", str(path), str(SEED), str(ROUNDS))
    apart = ask(program, "outputs-apart", str(path), str(SEED), str(ROUNDS), str(head), str(tail))
    outputs = "none" if not whole else "equal" if apart == whole else "differ"
    return Row(model, name, plan, head, seen[0], tail, seen[1], exact, outputs)


def models(program: Path, name: str, files: list[Path], folder: Path) -> Iterator[Row]:
    """Rows of real files, as they stand and planned for kernels that the build has."""
    for path in files:
        for plan, planned in plans(path, BUILDS[name], folder):
            if plan in ("own", "any", BUILDS[name].kernels):
                yield row(program, name, plan, planned, path.stem)


def operators(program: Path, name: str, count: int, folder: Path) -> Iterator[Row]:
    """Rows of models of one operator each."""
    for model, path in drawn(count, folder):
        yield row(program, name, "own", path, model)


def main() -> int:
    """Measure in every build that is there; exit with 1 if a figure called exact was missed."""
    given = arguments(__doc__ or "")
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        for name in BUILDS:
            program = given.build / f"arena-{name}"
            if not program.exists():
                continue
            if given.kinds:
                rows += operators(program, name, given.kinds, Path(folder))
            else:
                rows += models(program, name, sorted(given.models.glob("*.tflite")), Path(folder))
            print(name, len(rows), file=sys.stderr)
    ran = [r for r in rows if r.outputs != "none"]
    wrong = [r for r in ran if (r.predicted_head, r.predicted_tail) != (r.head, r.tail) or r.outputs == "differ"]
    for r in wrong:
        print(r)
    print(f"{len(ran) - len(wrong)} of {len(ran)} as predicted, outputs equal; {len(rows) - len(ran)} do not run")
    if given.output is not None:
        write(given.output, rows)
    return int(any(r.exact for r in wrong))


def write(output: Path, rows: list[Row]) -> None:
    """The rows as JSON, and as tables."""
    here = machine()
    document = {"tflite_micro": COMMIT, "machine": asdict(here), "rows": [asdict(r) for r in rows]}
    text = json.dumps(document, separators=(",", ":")).replace('{"model"', '\n{"model"')
    output.with_suffix(".json").write_text(text + "\n")
    lines = [
        "# TFLM with an arena for its head and one for its tail: predicted and measured",
        "",
        f"tflite-micro {COMMIT}, GCC; {here.cpu}; lowtide {here.lowtide} ({here.commit}). Bytes. *own*: the file as it",
        "stands; else the kernels that its offline plan is for. Outputs: 3 random inputs with both arrays as large as",
        "predicted, against one large arena. `python bench/tflm32/apart.py BUILD MODELS`",
        "",
        "| model | build | plan | head predicted | measured | tail predicted | measured | outputs |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for r in rows:
        figures = (r.predicted_head, r.head, r.predicted_tail, r.tail)
        lines.append(f"| {r.model} | {r.build} | {r.plan} | {' | '.join(f'{n:,}' for n in figures)} | {r.outputs} |")
    right = sum((r.predicted_head, r.predicted_tail) == (r.head, r.tail) for r in rows)
    lines += ["", f"{right:,} of {len(rows):,} heads and tails as predicted, to the byte."]
    output.with_suffix(".md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    sys.exit(main())
