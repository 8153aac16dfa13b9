"""What README.md and docs/results.md say, checked: one line for each claim, with what was found; exit status 1 if one
does not hold.

    python bench/claims.py MODELS [--run]

`MODELS` has `graphs/*.graph.json`, `onnx/*.onnx`, `tflite/*.tflite` and `alloc/*.csv`; what is not there is
said to be left out. `--run` also runs ONNX files in onnxruntime (random weights where theirs are missing): minutes.
Times are processor time, and hold if they are below three times what is claimed: other machines, and other work here.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import lowtide
from lowtide.analyse.liveness import profile
from lowtide.analyse.storage import memory_model, rounded_up
from lowtide.api.models import load
from lowtide.run_reports import RunReport
from lowtide.schedule.exact import Exact
from lowtide.stop import Limits
from lowtide.target import resolve
from lowtide_research.bench.in_turn import optimised_model

ROOT = Path(__file__).parents[3]
README = "\n".join((ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "docs/results.md"))
PATIENCE = 3.0
Finding = tuple[bool, str]
"""Whether a claim holds, and what was found."""


def graphs_proved(models: Path) -> Finding:
    """Every graph is proved, in so much search."""
    runs = [_search(load(path)) for path in sorted((models / "graphs").glob("*.graph.json"))]
    proved, seconds = sum(optimal for optimal, _ in runs), sum(least for _, least in runs)
    said = re.search(r"(\d+) of \1, ([\d.]+) s of search", README)
    assert said is not None
    holds = proved == len(runs) == int(said[1]) and seconds <= PATIENCE * float(said[2])
    return holds, f"{proved} of {len(runs)} proved, {seconds:.2f} s of search"


def _search(graph: lowtide.Graph) -> tuple[bool, float]:
    """Whether the exact search proves a graph under strict, and its processor time: the least of three."""
    memory = memory_model(graph, resolve("strict"))
    taken: list[float] = []
    stopped = ""
    for _ in range(3):
        began = time.process_time()
        stopped = Exact().schedule(memory, Limits(60)).stopped
        taken.append(time.process_time() - began)
    return stopped == "proof", min(taken)


def large_network(_: Path) -> Finding:
    """NASNet with 50,256 ops, its search."""
    graph = lowtide.load("zoo:nasnet_a_cifar:n=440")
    proved, seconds = _search(graph)
    return proved and len(graph.ops) == 50_256 and seconds <= PATIENCE * 0.5, f"{len(graph.ops):,} ops, {seconds:.2f} s"


def arenas(models: Path) -> Finding:
    """The arena is the peak of the sizes rounded up, under alignments 1 and 64."""
    above: list[str] = []
    count = 0
    for path in (*sorted((models / "graphs").glob("*.graph.json")), *sorted((models / "onnx").glob("*.onnx"))):
        for name in ("strict", "generic"):
            try:
                plan, target = lowtide.research.plan(path, target=name), resolve(name)
            except lowtide.InputError:  # free dimensions: nothing is claimed of these
                continue
            graph = target.as_seen(load(path))
            order = [graph.index_of[op] for op in plan.order]
            peak = profile(rounded_up(memory_model(graph, target)), order).peak
            count += 1
            if (plan.arena_bytes or 0) > peak:
                above.append(f"{path.name} under {name}: {plan.arena_bytes} above {peak}")
    return not above, f"{count - len(above)} of {count} {above[:2] or ''}"


def allocation_instances(models: Path) -> Finding:
    """minimalloc's eleven fit their capacity, in so much time."""
    began, fit = time.process_time(), 0
    files = sorted((models / "alloc").glob("[A-K].1048576.csv"))
    for path in files:
        fit += lowtide.research.allocate(path, "1MiB", time=60).height_bytes <= 2**20
    seconds = time.process_time() - began
    return fit == len(
        files
    ) == 11 and seconds <= PATIENCE * 2.5, f"{fit} of {len(files)} fit, {seconds:.2f} s of CPU time"


def microcontrollers(models: Path) -> Finding:
    """VWW's arena, whichever kernels run."""
    plan = lowtide.research.plan(
        models / "tflite" / "mlperf_tiny_vww96_int8.tflite", target="tflm,pointer=32,kernels=any"
    )
    arena = next(figure for figure in plan.runtime_figures or () if figure.what == "kTensorArenaSize")
    found = f"{arena.planned_bytes:,} of {arena.default_bytes:,} B"
    return f"VWW {found}" in README, found


def as_measured(models: Path) -> Finding:
    """What onnxruntime measures is what the plan says: every figure that is called exact."""
    held, missed = 0, []
    for path in sorted((models / "onnx").glob("*.onnx")):
        try:
            plan = lowtide.research.plan(path, target="onnxruntime")
            lowtide.verify(path, plan, run=True, random_weights=True)
            held += 1
        except lowtide.VerificationError as error:
            missed.append(f"{path.name}: {error}")
        except lowtide.LowtideError:  # free dimensions, or a model that onnxruntime does not run
            continue
    return not missed, f"{held} held {missed[:2] or ''}"


def below(models: Path) -> Finding:
    """With cuts onnxruntime has in use what is said, in millions of bytes, before and after."""
    said = next(line for line in README.splitlines() if line.startswith("| Tiling goes below every order"))
    names = {"MobileNetV2": "mobilenet_v2", "ResNet-50": "resnet50", "DenseNet-121": "densenet121"}
    wrong: list[str] = []
    found: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        for name, stem in names.items():
            optimised = optimised_model(models / "onnx" / f"{stem}.onnx", Path(folder))
            plan = lowtide.research.plan(optimised, target="onnxruntime", time=24, allow="fission")
            ran = lowtide.verify(optimised, plan, run=True).run
            assert isinstance(ran, RunReport)
            figures = [ran.original.peak_bytes / 1e6, ran.planned.peak_bytes / 1e6]
            found.append(f"{name} {figures[0]:.2f} to {figures[1]:.2f}")
            pair = re.search(rf"{name}\s+([\d.]+)\s+to\s+([\d.]+)", said)
            close = pair is not None and all(
                abs(f - float(s)) <= 0.05 for f, s in zip(figures, pair.groups(), strict=True)
            )
            wrong += [] if close else [name]
    return not wrong, f"{'; '.join(found)} {wrong or ''}"


CLAIMS: dict[str, tuple[str, Callable[[Path], Finding]]] = {
    "order: real graphs": ("graphs", graphs_proved),
    "order: 50,256 ops": ("", large_network),
    "arena: the peak": ("onnx", arenas),
    "arena: minimalloc's eleven": ("alloc", allocation_instances),
    "microcontrollers: VWW": ("tflite", microcontrollers),
}


RUN: dict[str, tuple[str, Callable[[Path], Finding]]] = {
    "onnxruntime: as measured": ("onnx", as_measured),
    "below every order": ("onnx", below),
}
"""Those that run models."""


def check(models: Path, claims: dict[str, tuple[str, Callable[[Path], Finding]]]) -> Iterator[tuple[str, str, str]]:
    """Each claim with ``holds``, ``FAILS`` or ``left out``, and what was found."""
    for name, (needs, claim) in claims.items():
        if needs and not (models / needs).is_dir():
            yield name, "left out", f"{models} has no folder {needs}"
            continue
        holds, found = claim(models)
        yield name, "holds" if holds else "FAILS", found


def main() -> int:
    """Print a line for each claim."""
    parser = argparse.ArgumentParser(description="README's claims, checked: one line each.")
    parser.add_argument("models", type=Path)
    parser.add_argument("--run", action="store_true", help="run ONNX files in onnxruntime too")
    options = parser.parse_args()
    claims = CLAIMS | (RUN if options.run else {})
    failed = False
    for name, verdict, found in check(options.models, claims):
        failed |= verdict == "FAILS"
        print(f"{verdict:9} {name:28} {found}".rstrip(), flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
