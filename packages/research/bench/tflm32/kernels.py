"""Heads and arenas of .tflite files under three kernel columns, predicted and measured; see README.md.

    python bench/tflm32/kernels.py BUILD MODELS -o results/tflm-kernels

The reference kernels in the pip package (64 bits, recording), the reference kernels in a 32-bit build, and CMSIS-NN's
plain C in a 32-bit build: each with the file as it stands, planned for any kernels (the default), and planned for the
kernels of the column. Outputs are compared with those of the file as it stands in the same build.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from measure import BUILDS, COMMIT, ROUNDS, SEED, ask, measured, plans, predicted

from lowtide.run.tflite import ask as ask_package
from lowtide.runtimes.tflm.builds import PIP
from lowtide_research.bench.machine import machine

COLUMNS = {"pip": PIP, "32-reference": BUILDS["32-reference"], "32-cmsis_nn": BUILDS["32-cmsis_nn"]}
WORDS = {
    "pip": "reference, pip package",
    "32-reference": "reference, 32 bits",
    "32-cmsis_nn": "CMSIS-NN in plain C, 32 bits",
}
ESP32_PERSON_DETECT = 82_300
"""Bytes that an ESP32 reports as used for person_detect as it stands (mcufit 0.5.2)."""


@dataclass(frozen=True)
class Row:
    """A file in a column; sizes are bytes. `plan`: what it is planned for, ``"own"`` as it stands."""

    model: str
    column: str
    plan: str
    predicted_head: int
    head: int
    predicted_arena: int
    arena: int
    exact: bool
    outputs: str

    @property
    def right(self) -> bool:
        """Whether both figures were predicted to the byte."""
        return (self.predicted_head, self.predicted_arena) == (self.head, self.arena)


def in_package(original: Path, path: Path) -> tuple[int, int, str]:
    """Head, smallest arena and outputs in the pip package."""
    answer = ask_package("tflm", [str(original), str(path)], SEED, ROUNDS, [(), ()])
    if "error" in answer:
        return 0, 0, "none"
    seen = answer["measured"][-1]
    equal = all(o["equal"] for o in answer["outputs"])
    return seen["head_bytes"], seen["smallest_arena_bytes"], "equal" if equal else "differ"


def in_build(program: Path, original: Path, path: Path) -> tuple[int, int, str]:
    """The same in a build of the sources."""
    head, arena = measured(program, path)
    own, seen = (ask(program, "outputs", str(p), str(SEED), str(ROUNDS)) for p in (original, path))
    return head, arena, "none" if not own else "equal" if own == seen else "differ"


def rows_of(path: Path, folder: Path, build: Path) -> Iterator[Row]:
    """All columns of a file."""
    for column, how in COLUMNS.items():
        for plan, planned in plans(path, how, folder):
            if plan not in ("own", "any", how.kernels):
                continue
            head, arena, exact = predicted(planned.read_bytes(), how)
            program = build / f"arena-{column}"
            seen = in_package(path, planned) if column == "pip" else in_build(program, path, planned)
            yield Row(path.stem, column, plan, head, seen[0], arena, seen[1], exact, seen[2])


def main() -> int:
    """Measure; exit with 1 if a figure called exact was missed, or an output differs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("build", type=Path)
    parser.add_argument("models", type=Path, help="a folder of .tflite files")
    parser.add_argument("-o", "--output", type=Path)
    given = parser.parse_args()
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        for path in sorted(given.models.glob("*.tflite")):
            rows += rows_of(path, Path(folder), given.build)
            print(path.stem, sum(r.right for r in rows), len(rows), file=sys.stderr)
    for row in rows:
        if not row.right or row.outputs != "equal":
            print(row)
    print(f"{sum(r.right for r in rows)} of {len(rows)} heads and arenas as predicted")
    if given.output is not None:
        here = machine()
        text = json.dumps({"tflite_micro": COMMIT, "machine": asdict(here), "rows": [asdict(r) for r in rows]})
        given.output.with_suffix(".json").write_text(text.replace('{"model"', '\n{"model"') + "\n")
        given.output.with_suffix(".md").write_text("\n".join(page(rows, f"{here.cpu}; lowtide {here.lowtide}")))
    return int(any(r.outputs == "differ" or (r.exact and r.outputs != "none" and not r.right) for r in rows))


def page(rows: Sequence[Row], where: str) -> list[str]:
    """The tables."""
    found = {(r.model, r.column, r.plan): r for r in rows}
    ran = [r for r in rows if r.outputs != "none"]
    models = list(dict.fromkeys(r.model for r in ran))
    refused = sorted({r.model for r in rows} - set(models))
    lines = [
        f"# TFLM's head and arena on {len(models)} files, under three kernel columns",
        "",
        f"tflite-micro {COMMIT}, and the pip package; {where}. Bytes, as predicted from the files alone;",
        "behind a slash what was measured, where that is another number. Each cell: the file as it stands, planned for",
        "any kernels (lowtide's default), planned for the column's own kernels.",
        "`python bench/tflm32/kernels.py BUILD MODELS`; bench/tflm32/README.md says where the files are from.",
        "",
        f"{sum(r.right for r in ran)} of {len(ran)} heads and arenas are as predicted, to the byte, and",
        f"{sum(r.outputs == 'equal' for r in ran)} of {len(ran)} give the outputs of the file as it stands,",
        f"bit by bit, on {ROUNDS} random inputs.",
    ]
    lines += [f"TFLM itself does not run {', '.join(refused)}."] if refused else []
    for what, key in (("Head: tensors and scratch", "head"), ("Arena: the smallest kTensorArenaSize", "arena")):
        lines += ["", f"## {what}", "", "| model | " + " | ".join(WORDS.values()) + " |", "|---|---|---|---|"]
        for model in models:
            cells = [cell([found.get((model, c, p)) for p in shown(c)], key) for c in COLUMNS]
            lines.append(f"| {model} | " + " | ".join(cells) + " |")
    person = found.get(("tflm_person_detect_int8", "32-reference", "own"))
    if person is not None:
        above = person.predicted_arena - ESP32_PERSON_DETECT
        lines += [
            "",
            f"An ESP32 reports {ESP32_PERSON_DETECT:,} B used for person_detect as it stands: {above:,} B less.",
        ]
    return [*lines, ""]


def shown(column: str) -> tuple[str, str, str]:
    """The plans of a cell."""
    return "own", "any", COLUMNS[column].kernels


def cell(rows: Sequence[Row | None], key: str) -> str:
    """Figures of the file as it stands and planned."""
    texts = []
    for row in rows:
        if row is None:
            continue
        said, seen = (row.predicted_head, row.head) if key == "head" else (row.predicted_arena, row.arena)
        texts.append(f"{said:,}" if said == seen else f"{said:,} / {seen:,}" if seen else f"{said:,} / not run")
    return ", ".join(texts)


if __name__ == "__main__":
    sys.exit(main())
