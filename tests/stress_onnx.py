"""Random ONNX models, planned, written and run beside what they were made of: as many as asked for.

    python tests/stress_onnx.py --count 5000 --seed 1

Models of the versions 7 to 24 are drawn (`support/drawn_onnx.py`), and of each two plans are made that may change it:
cuts, halos, seams, rounds, pieces, runs again, aliases, for several targets. What is written has to open in onnxruntime
with its optimiser on (the default level) and off. With it off the outputs have to be what `exactness` says: equal for
`bits`, else within `lowtide.run_reports.rounding`. With it on nothing is promised; how many are equal is counted, and a
float32 output that is further away than rounding moves it is a flaw.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from multiprocessing import Pipe, Process, Value
from pathlib import Path
from queue import SimpleQueue
from random import Random
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import numpy as np
import onnx
import onnxruntime as ort

import lowtide
from lowtide.run.optimise_process import optimize
from lowtide.run_reports import rounding
from lowtide_research.bench.machine import machine
from support.drawn_onnx import drawn_model

WORDS = (
    "tile", "tile", "tile,recompute-halos", "tile,recompute-halos", "tile,concat,recompute-halos", "concat",
    "tile,nest-tiles", "tile,unmaterialised", "tile,recompute", "recompute", "alias", "tile,alias", "tile,exact",
    "tile,recompute-halos,nest-tiles,recompute", "tile,unmaterialised,recompute,alias",
)  # fmt: skip
TARGETS = ("strict", "generic", "generic", "onnxruntime")
PLANS, ASKED = 2, 5
"""Plans of each model that change it, and how many are asked for at the most."""
SECONDS = 0.5
OPTIMISED = 0.2
"""Share of the models that onnxruntime optimises before they are planned."""
TRIES = 60
LEVELS = (ort.GraphOptimizationLevel.ORT_DISABLE_ALL, ort.GraphOptimizationLevel.ORT_ENABLE_ALL)
"""The optimiser off, and its default level."""
OFF, ON = 0, 1
LAST_BITS = 2.0**-20
"""By what part an input changes at the most where a model is held against itself."""
CHUNK = 250
"""Models that a process does before the next one is started."""
DRAWN = 1
"""Stage of a model: onnxruntime ran it as it was drawn."""


class Flaw(Exception):
    """What is wrong with a written model."""


def outputs(model: Path, level: int, feeds: list[dict[str, np.ndarray]]) -> list[list[np.ndarray]]:
    """What a model makes of each feed, with the optimiser off or on."""
    options = ort.SessionOptions()
    options.graph_optimization_level = LEVELS[level]
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    session = ort.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    return [session.run(None, feed) for feed in feeds]


def drawn(random: Random, path: Path, count: Counter[str]) -> tuple[str, list[dict[str, np.ndarray]], list[Any]]:
    """A model that onnxruntime runs, written to a file: its kind, feeds, and what it makes of them at either level."""
    for _ in range(TRIES):
        try:
            kind, model = drawn_model(random)
        except (AssertionError, IndexError, ValueError, onnx.shape_inference.InferenceError):
            continue
        path.write_bytes(model.SerializeToString())
        (value,) = model.graph.input
        shape = [d.dim_value for d in value.type.tensor_type.shape.dim]
        dtype = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        rng = np.random.default_rng(random.randrange(2**32))
        feeds = [{value.name: (scale * rng.standard_normal(shape)).astype(dtype)} for scale in (1, 4)]
        try:
            if random.random() < OPTIMISED:
                kind = f"{kind}, optimised"
                optimize(path, path.with_name("opt.onnx"), {}, random.choice(("extended", "all")))
                path.with_name("opt.onnx").replace(path)
            before = [outputs(path, level, feeds) for level in (OFF, ON)]
        except Exception:  # onnxruntime's own kinds of error have no common base
            count["drawn, not run by onnxruntime"] += 1
            continue
        if all(np.isfinite(a).all() for made in before[OFF] for a in made) and not overflows(path, feeds):
            return kind, feeds, before
        count["drawn, not finite"] += 1
    raise RuntimeError("no model that onnxruntime runs was drawn")


def overflows(path: Path, feeds: list[dict[str, np.ndarray]]) -> bool:
    """Whether a tensor of a model is not finite: in half precision onnxruntime rounds it or not, by its neighbours."""
    model = onnx.load(path)
    made = {name for node in model.graph.node for name in node.output if name}
    more = sorted(made.difference(value.name for value in model.graph.output))
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in more)
    inner = path.with_name("inner.onnx")
    inner.write_bytes(model.SerializeToString())
    return not all(np.isfinite(a).all() for run in outputs(inner, OFF, feeds) for a in run if a.dtype.kind == "f")


def apart(before: list[list[np.ndarray]], after: list[list[np.ndarray]]) -> float:
    """Largest difference of an output, as a share of its largest number; 0: equal to the bit."""
    worst = 0.0
    for a, b in (pair for made in zip(before, after, strict=True) for pair in zip(*made, strict=True)):
        if a.shape != b.shape or a.dtype != b.dtype:
            return float("inf")
        if np.array_equal(a, b):
            continue
        one, other = a.astype(np.float64), b.astype(np.float64)
        if not np.isfinite(other).all():
            return float("inf")
        worst = max(worst, float(np.abs(one - other).max() / max(1e-30, np.abs(one).max())))
    return worst


def settings(random: Random) -> dict[str, Any]:
    """What a plan is asked for."""
    words = random.choice(WORDS)
    given: dict[str, Any] = {"allow": words, "target": random.choice(TARGETS), "time": SECONDS, "seed": 1}
    if words == "tile,exact":
        given |= {"allow": "tile", "exact_bits": True}
    if "recompute" in words:
        given["max_overhead"] = random.choice(("10%", "50%", "100%"))
        given["target"] = "strict" if given["target"] == "onnxruntime" else given["target"]
    elif random.random() < 0.3:
        given["budget"] = random.choice(("40%", "60%", "80%"))
    if "alias" in words:
        given["target"] = "generic"
    return given


def check(seed: int, count: Counter[str], stage: Any = None) -> None:
    """Draw a model and plans of it, and run what they write. Raises `Flaw`."""
    random = Random(seed)
    with TemporaryDirectory() as name:
        source, target = Path(name) / "m.onnx", Path(name) / "out.onnx"
        kind, feeds, before = drawn(random, source, count)
        if stage is not None:
            stage.value = DRAWN
        model = onnx.load(source)
        count["models"] += 1
        count[f"models, {kind}"] += 1
        count[f"models, opset {next(o.version for o in model.opset_import if not o.domain):2}"] += 1
        changed = 0
        for _ in range(ASKED):
            if changed == PLANS:
                break
            given = settings(random)
            try:
                plan = lowtide.research.plan(source, **given)
            except lowtide.InputError as error:
                count[f"plans, refused: {str(error).split(':', 1)[-1].strip()[:60]}"] += 1
                continue
            except lowtide.VerificationError as error:
                raise Flaw(f"{kind} {given}: its own plan is refused, {error}") from None
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("error")
                    plan.apply(source, target)
                after = [outputs(target, level, feeds) for level in (OFF, ON)]
            except Exception as error:  # onnxruntime's own kinds of error have no common base
                if getattr(error, "failure", "") == "open" and opens_without_optimiser(plan, source, target, feeds):
                    count["plans not written: onnxruntime's optimiser breaks on what opens without it"] += 1
                    continue
                raise Flaw(f"{kind} {given}: {type(error).__name__}: {str(error)[:300]}") from None
            changed += bool(plan.rewrites)
            far = [apart(a, b) for a, b in zip(before, after, strict=True)]
            compare(plan, kind, far, given, count, lambda: moved(source, feeds, before[OFF]))


def moved(source: Path, feeds: list[dict[str, np.ndarray]], before: list[list[np.ndarray]]) -> float:
    """How far a model's own outputs move when its inputs change in their last bits: half precision, or the difference
    of nearly equal numbers, makes much of little."""
    rng = np.random.default_rng(0)

    def near(value: np.ndarray) -> np.ndarray:
        return (value * (1 + LAST_BITS * rng.uniform(-1, 1, value.shape))).astype(value.dtype)

    made = (outputs(source, OFF, [{n: near(v) for n, v in feed.items()} for feed in feeds]) for _ in range(8))
    return max(apart(before, other) for other in made)


def opens_without_optimiser(plan: lowtide.Plan, source: Path, target: Path, feeds: list[dict[str, np.ndarray]]) -> bool:
    """Whether a file that was refused is sound: it runs as it stands, and it is the optimiser that fails."""
    with patch("lowtide.api.writing.open_written"):
        plan.apply(source, target)
    try:
        outputs(target, OFF, feeds)
    except Exception:  # onnxruntime's own kinds of error have no common base
        return False
    return True


def compare(
    plan: lowtide.Plan, kind: str, far: list[float], given: dict[str, Any], count: Counter[str],
    own: Callable[[], float],
) -> None:  # fmt: skip
    """Whether what was written makes what the plan says, or comes as near as the model to itself (`own`). Raises
    `Flaw`."""
    exactness = plan.exactness or "bits"
    what = f"{given['allow']}" if plan.rewrites else "order alone"
    count["plans"] += 1
    count[f"plans, {what}"] += 1
    promised = f"outputs {exactness}" if plan.rewrites else "outputs of an order alone"
    count[promised] += 1
    count[f"{promised}, equal with the optimiser off"] += far[OFF] == 0
    count[f"{promised}, equal with the optimiser on"] += far[ON] == 0
    most = 0.0 if exactness == "bits" else rounding(t.dtype for t in plan.tensors)
    off, on = far[OFF] > most, kind.startswith("float32") and far[ON] > rounding(())
    if not off and not on:
        return
    if (exactness != "bits" or not off) and max(far[OFF] if off else 0.0, far[ON] if on else 0.0) <= own():
        count["outputs that the model's own last bits move as far"] += 1
        return
    level = OFF if off else ON
    raise Flaw(f"{kind} {given}: {exactness}, apart by {far[level]:.3g} with the optimiser {'off' if off else 'on'}")


def judged(seed: int, stage: Any) -> tuple[Counter[str], str]:
    """What one model adds to the counts, and its flaw, if it has one. `stage` is `DRAWN` once onnxruntime ran it."""
    count, flaw = Counter[str](), ""
    stage.value = 0
    try:
        check(seed, count, stage)
    except Flaw as error:
        flaw = f"{seed}: {error}"
    except Exception as error:  # a bug of lowtide's, or of the drawing: neither ends a campaign of hours
        flaw = f"{seed}: {type(error).__name__}: {error}"
    return count, flaw


def surviving(seeds: Sequence[int]) -> Iterator[tuple[Counter[str], str]]:
    """`judged` of each seed, in processes that onnxruntime may crash.

    A crash on the model as it was drawn is counted; a crash on a written file is a flaw.
    """
    at = 0
    while at < len(seeds):
        stage = Value("i", 0)
        ours, theirs = Pipe(duplex=False)
        worker = Process(target=_worker, args=(seeds[at : at + CHUNK], stage, theirs))
        worker.start()
        theirs.close()
        end = min(at + CHUNK, len(seeds))
        with suppress(EOFError):
            while at < end:
                yield ours.recv()
                at += 1
        worker.join()
        if at < end:
            crash = f"{seeds[at]}: onnxruntime crashes ({worker.exitcode}) on a written file"
            drawn_alone = Counter({"drawn, onnxruntime crashes on the model itself": 1})
            yield (Counter(), crash) if stage.value == DRAWN else (drawn_alone, "")
            at += 1


def side_by_side(seeds: Sequence[int], jobs: int) -> Iterator[tuple[Counter[str], str]]:
    """`surviving` of all seeds, in as many processes at a time as `jobs`; in the order in which they end."""
    results: SimpleQueue[tuple[Counter[str], str]] = SimpleQueue()

    def feed(own: Sequence[int]) -> None:
        for result in surviving(own):
            results.put(result)

    with ThreadPoolExecutor(jobs) as pool:
        fed = [pool.submit(feed, seeds[k::jobs]) for k in range(jobs)]
        for _ in seeds:
            while results.empty():
                time.sleep(0.05)
                for one in fed:
                    if one.done():
                        one.result()  # raises what ended it
            yield results.get()


def _worker(seeds: Sequence[int], stage: Any, results: Any) -> None:
    ort.set_default_logger_severity(4)
    for seed in seeds:
        results.send(judged(seed, stage))


def page(count: Counter[str], flaws: list[str], command: str, seconds: float) -> str:
    """The results as Markdown."""
    on = machine()
    lines = [
        "# Random ONNX models, planned, written and run", "",
        f"{on.cpu}, lowtide {on.commit}, onnxruntime {ort.__version__}, {seconds:.0f} s;", f"`{command}`.", "",
        f"{count['models']:,} models, {count['plans']:,} plans that were written: all open in onnxruntime at its",
        f"default level and with its optimiser off, all as they say; {len(flaws)} flaws.", "", "| | |", "|---|--:|",
        *(f"| {what} | {many:,} |" for what, many in sorted(count.items())), "", *(f"- {flaw}" for flaw in flaws),
    ]  # fmt: skip
    return "\n".join(lines).rstrip() + "\n"


def main() -> int:
    """Check as many models as asked for; 1 if there is a flaw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--only", type=int, help="this one model alone, by the number that a flaw begins with")
    given = parser.parse_args()
    count, flaws, began = Counter[str](), list[str](), time.perf_counter()
    seeds = [given.only] if given.only is not None else [given.seed * 1_000_003 + k for k in range(given.count)]
    for done, (seen, flaw) in enumerate(side_by_side(seeds, given.jobs), 1):
        count += seen
        if flaw:
            flaws.append(flaw)
            print(flaw, flush=True)
        if done % 250 == 0:
            print(f"{done:,} models, {time.perf_counter() - began:.0f} s, {len(flaws)} flaws", file=sys.stderr)
    command = f"python tests/stress_onnx.py --count {given.count} --seed {given.seed}"
    print(page(count, flaws, command, time.perf_counter() - began))
    return 1 if flaws else 0


if __name__ == "__main__":
    raise SystemExit(main())
