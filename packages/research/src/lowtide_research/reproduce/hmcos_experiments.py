"""Why ours differs from HMCOS's figures, by experiments: arenas of other orders, and SERENITY without sequences."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache, partial
from random import Random

from lowtide.analyse.storage import MemoryModel, memory_model
from lowtide.graph import Graph
from lowtide.schedule.order import Rpo
from lowtide.stop import Limits
from lowtide_research.bench.parts import PARTS
from lowtide_research.bench.simple_arena import simple_arena
from lowtide_research.reproduce.cells import cell_of, subject_of
from lowtide_research.reproduce.row import Measured, Row
from lowtide_research.schedule.serenity import Serenity
from lowtide_research.zoo.published import printed as published
from lowtide_research.zoo.published.cases import HMCOS, RANDWIRE, Case

SAMPLES, MOVES = 30, 30
"""Orders of the same peak that are placed, and moves from each to the next."""


@cache
def arenas(case: Case, method: str, seconds: float) -> tuple[float, ...]:
    """MiB of TensorFlow Lite's simple arena for orders of the same peak as a method's."""
    model = subject_of("main", case).model
    run = next(r for r in PARTS["main"].runs(case, model, [method]))
    order = list(run.method.schedule(model, Limits(seconds)).order)
    random, found = Random(0), [simple_arena(model, order) / 2**20]
    for _ in range(SAMPLES):
        order = moved(model, order, random)
        found.append(simple_arena(model, order) / 2**20)
    return tuple(found)


def moved(model: MemoryModel, order: Sequence[int], random: Random) -> list[int]:
    """An order with ops moved to other places that their operands and readers allow; its peak is no higher."""
    now, peak = list(order), model.core.peak(list(order))
    before: list[set[int]] = [set(p) for p in model.graph.predecessors]
    after: list[set[int]] = [set() for _ in now]
    for i, each in enumerate(before):
        for j in each:
            after[j].add(i)
    for _ in range(MOVES):
        place = {i: k for k, i in enumerate(now)}
        op = random.choice(now)
        low = max((place[j] for j in before[op]), default=-1) + 1
        high = min((place[j] for j in after[op]), default=len(now)) - 1
        changed = [i for i in now if i != op]
        changed.insert(random.randint(low, high), op)
        if model.core.peak(changed) <= peak:
            now = changed
    return now


def _closest(found: Sequence[float], printed: float, of: str) -> Measured:
    return Measured(min(found, key=lambda a: abs(a - printed)), f"{of}: {min(found):.2f} to {max(found):.2f}")


def _same_peak(case: Case, method: str, printed: float, limits: Limits) -> Measured:
    found = arenas(case, method, limits.seconds)
    return _closest(found, printed, f"{len(found)} orders of the same peak")


def shuffled(graph: Graph, random: Random) -> Graph:
    """A graph that lists the inputs of each op in random order."""
    ops = [replace(op, inputs=tuple(random.sample(op.inputs, len(op.inputs))), operands=()) for op in graph.ops]
    return replace(graph, ops=tuple(ops))


def _other_inputs(case: Case, printed: float, limits: Limits) -> Measured:
    subject, random = subject_of("main", case), Random(0)
    own = subject.model.core.peak(list(Rpo().schedule(subject.model, limits).order))
    found: list[float] = []
    for _ in range(SAMPLES):
        model = memory_model(shuffled(subject.model.graph, random), subject.model.target)
        order = list(Rpo().schedule(model, limits).order)
        if subject.model.core.peak(order) == own:
            found.append(simple_arena(subject.model, order) / 2**20)
    return _closest(found, printed, f"{len(found)} of {SAMPLES} orders have the same peak")


def _without_sequences(case: Case, limits: Limits) -> Measured:
    model = subject_of("main", case).model
    found = Serenity(soft_budget=False, sequences=False).schedule(model, limits)
    hmcos = cell_of("main", case, "hmcos", "", limits).cpu_seconds
    ended = found.stopped == "proof"
    seconds = limits.seconds - limits.left_seconds if ended else limits.seconds
    return Measured(seconds / hmcos, "" if ended else f"more: it did not end in {limits.seconds:g} s")


def experiments() -> Iterator[Row]:
    """Rows that other rows name as their reason."""
    for case in HMCOS:
        for method in ("serenity", "hmcos"):
            shown = next(f for f in published(case.network, case.target, method) if f.figure == "arena")
            measure = partial(_same_peak, case, method, float(shown.value))
            what = f"the arena closest to {shown.text} of orders of the same peak"
            yield _row(f"same-peak/{case.network}/{method}/arena", what, "MiB", measure)
    shown = next(f for f in published(HMCOS[0].network, HMCOS[0].target, "rpo") if f.figure == "arena")
    yield _row(f"other-inputs/{HMCOS[0].network}/rpo/arena", f"the arena closest to {shown.text}, inputs of ops listed "
               "in random order", "MiB", partial(_other_inputs, HMCOS[0], float(shown.value)))  # fmt: skip
    for case in RANDWIRE:
        what = "SERENITY without HMCOS's sequences: its limit over HMCOS's seconds"
        yield _row(f"without-sequences/{case.network}", what, "x", partial(_without_sequences, case))


def _row(name: str, what: str, unit: str, measure: Callable[[Limits], Measured]) -> Row:
    return Row(name, "experiment", what, "", unit, measure, "neither", explains=True)
