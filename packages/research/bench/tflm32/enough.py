"""Is the arena that lowtide says enough, and are 16 bytes fewer not? Run in builds of TFLM's sources; see README.md.

    python bench/tflm32/enough.py BUILD MODELS -o results/tflm-enough

BUILD holds what `build.py --arm` made, for the reference kernels, CMSIS-NN with DSP and ESP-NN in C. Each file is
planned for any kernels and for each library by name. The figure of each plan is what TFLM is given: it must start and
give, bit by bit, the outputs that the file as it stands gives in a large arena. Then 16 bytes fewer: it must refuse,
under the kernels that decide the figure. Beside MODELS, which are not in this repository, the nets that are drawn here.
"""

from __future__ import annotations

import hashlib
import json
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import lowtide
from lowtide.rules.tflm.libraries import LIBRARIES, LIBRARY_NAMES
from lowtide_research.bench.pages import about, document, say, script, table
from lowtide_research.bench.tflite_kinds import kinds
from lowtide_research.bench.tflite_net import Net, branches, residual

COMMIT = "90b983c"
SEED, ROUNDS = 7, 1
DRAWN = "drawn"


@dataclass(frozen=True)
class Row:
    """A file planned for some kernels, and run with some: sizes are bytes.

    `plan`: ``"any"`` or the kernels that the plan is for. `bytes`: the figure. `decided_by`: whose kernels need them.
    `works`, `refused`: under each kernels that were run, whether the outputs were those of the file as it stands with
    so many bytes, and whether TFLM refuses 16 fewer. `exact`: whether the figure is said to be. `sha256`: of the file.
    """

    model: str
    source: str
    sha256: str
    plan: str
    bytes: int
    decided_by: str
    exact: bool
    arenas: dict[str, int]
    works: dict[str, bool]
    refused: dict[str, bool]


def drawn() -> Iterator[tuple[str, bytes]]:
    """Models that are made here: two nets, and one operator of each kind."""
    yield "residual", residual().bytes()
    yield "branches", branches().bytes()
    for (kind, variant), make in kinds().items():
        net = Net(0)
        given, out = make(random.Random(f"{kind} {variant}"), net)
        net.ends(given, [out])
        yield f"{kind} {variant}", net.bytes()


def files(models: Path | None, every: int) -> Iterator[tuple[str, str, bytes]]:
    """Name, where from, and bytes; of what is drawn every n-th, none for 0."""
    for path in sorted(models.glob("*.tflite")) if models is not None else ():
        yield path.stem, "file", path.read_bytes()
    for name, data in list(drawn())[::every] if every else ():
        yield name, DRAWN, data


def figures(path: Path, out: Path | None = None) -> Iterator[tuple[str, lowtide.Plan]]:
    """The plans of a file, by the kernels that they are for; written to `out`, one at a time, if that is given."""
    for kernels in ("any", *LIBRARIES):
        plan = lowtide.research.plan(path, target=f"tflm,pointer=32,kernels={kernels}", time=5)
        if out is not None:
            plan.apply(path, out)
        yield kernels, plan


def said(plan: lowtide.Plan) -> dict[str, object]:
    """What a plan says of its arena, as a row has it."""
    parts = plan.runtime_parts
    assert parts is not None
    return {"bytes": plan.required_bytes, "decided_by": parts.decided_by, "exact": parts.exact, "arenas": parts.arenas}


def ask(program: Path, *words: str) -> str:
    """What a program for Arm prints; empty if it fails."""
    try:
        call = ["qemu-arm", str(program), *words]
        done = subprocess.run(call, capture_output=True, text=True, timeout=300, check=False)
    except subprocess.TimeoutExpired:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def rows(name: str, source: str, data: bytes, folder: Path, programs: dict[str, Path]) -> Iterator[Row]:
    """The rows of a file; none if TFLM does not run it."""
    path, out = folder / "m.tflite", folder / "o.tflite"
    path.write_bytes(data)
    how = (str(SEED), str(ROUNDS))
    own = {kernels: ask(program, "outputs", str(path), *how) for kernels, program in programs.items()}
    for kernels, plan in figures(path, out):
        need = plan.required_bytes
        works, refused = {}, {}
        for run, program in programs.items():
            if not own[run] or kernels not in ("any", run):
                continue
            works[run] = ask(program, "at", str(out), *how, str(need)) == own[run]
            refused[run] = ask(program, "at", str(out), *how, str(need - 16)) == "refused"
        if works:
            digest = hashlib.sha256(data).hexdigest()
            yield Row(name, source, digest, kernels, **said(plan), works=works, refused=refused)  # type: ignore[arg-type]


def held(row: Row) -> bool:
    """Whether a row is as it should be: enough for all, and for those that decide 16 bytes fewer are not."""
    tight = row.refused.get(row.decided_by, True) or not row.exact
    return all(row.works.values()) and tight


def main() -> int:
    """Run; exit with 1 if a figure was too small, or one called exact too large."""
    parser = script(__doc__)
    parser.add_argument("build", type=Path)
    parser.add_argument("models", type=Path, nargs="?", help="a folder of .tflite files")
    parser.add_argument("--every", type=int, default=1, help="of the models that are drawn every n-th; 0: none")
    given = parser.parse_args()
    there = {kernels: given.build / f"arena-arm-{kernels}" for kernels in LIBRARIES}
    programs = {kernels: program for kernels, program in there.items() if program.exists()}
    made: list[Row] = []
    left: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        for name, source, data in files(given.models, given.every):
            found = list(rows(name, source, data, Path(folder), programs))
            made += found
            left += [] if found else [name]
            say(f"{name} {sum(map(held, made))} {len(made)} {[row for row in found if not held(row)] or ''}")
    print(f"{sum(map(held, made))} of {len(made)} figures held; TFLM runs none of {', '.join(left) or 'no file'}")
    if given.out is not None:
        write(given.out, made, left, list(programs), given.every)
    return int(not all(map(held, made)))


def write(output: Path, made: list[Row], left: list[str], programs: list[str], every: int) -> None:
    """The rows as JSON, and a table of the real files."""
    results = document(tflite_micro=COMMIT, kernels=programs, every=every, not_run=left, rows=list(map(asdict, made)))
    text = json.dumps(results, separators=(",", ":")).replace('{"model"', '\n{"model"')
    output.with_suffix(".json").write_text(text + "\n")
    exact = [r for r in made if r.exact]
    works = sum(sum(r.works.values()) for r in made)
    runs = sum(len(r.works) for r in made)
    tight = [r.refused[r.decided_by] for r in exact if r.decided_by in r.refused]
    models, enough = len({r.model for r in made}), len(made) - len(exact)
    own, planned = (
        [f"{LIBRARY_NAMES[k]}, of the same plan" for k in LIBRARIES],
        [f"planned for {LIBRARY_NAMES[k]}" for k in LIBRARIES],
    )
    heads = ["file", "any", "decided by", *own, "works at N", "refused at N - 16", *planned]
    lines = [
        "# An arena that is enough, whichever kernels: run with so many bytes, and with 16 fewer",
        "",
        f"tflite-micro {COMMIT}, compiled for Armv7-A (32 bits, AAPCS) with the kernels of",
        f"{', '.join(LIBRARY_NAMES[k] for k in programs)}: CMSIS-NN's with DSP, ESP-NN's in C; run by qemu-arm;",
        f"{about(results['machine'])}. Bytes. Each file is planned for any kernels and for each library by name. With",
        "the figure TFLM starts and gives the outputs of the unmodified file, bit by bit",
        "(random inputs); with 16 bytes fewer the library that decides it is refused.",
        "`python bench/tflm32/enough.py BUILD MODELS`; bench/tflm32/README.md says how to build.",
        "",
        f"{works:,} of {runs:,} runs with the figure work: {models} models. 16 bytes fewer are refused in",
        f"{sum(tight):,} of {len(tight):,} cases whose figure is called exact; {enough:,} more are called enough.",
        "",
    ]
    by, body = {(r.model, r.plan): r for r in made if r.source != DRAWN}, list[tuple[str, ...]]()
    for model in dict.fromkeys(name for name, _ in by):
        row = by.get((model, "any"))
        if row is None:
            continue
        named = [by.get((model, k)) for k in LIBRARIES]
        cells = [model, f"{row.bytes:,}", LIBRARY_NAMES[row.decided_by], *(f"{row.arenas[k]:,}" for k in LIBRARIES)]
        cells += [", ".join(LIBRARY_NAMES[k] for k, ok in row.works.items() if ok)]
        cells += [", ".join(LIBRARY_NAMES[k] for k, no in row.refused.items() if no)]
        cells += ["" if r is None else f"{r.bytes:,}" + ("" if held(r) else " (missed)") for r in named]
        body.append(tuple(cells))
    output.with_suffix(".md").write_text("\n".join([*lines, *table(heads, body)]) + "\n")


if __name__ == "__main__":
    sys.exit(main())
