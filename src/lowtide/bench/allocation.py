"""`lowtide bench allocate`: what arenas need, by greedy rule, by engine, by order, beside the bytes that are live."""

from __future__ import annotations

import time as clock
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from lowtide import zoo
from lowtide.allocate.buffers import Problem, arena_buffers
from lowtide.allocate.csv_buffers import read_buffers
from lowtide.analyse.liveness import profile
from lowtide.analyse.storage import MemoryModel, memory_model
from lowtide.bench.cases import HMCOS
from lowtide.bench.machine import Machine, machine
from lowtide.bench.parts import METHODS
from lowtide.bench.placing import OURS, OURS_TO_CAPACITY, Ours, Row, allocators, measure
from lowtide.errors import InputError
from lowtide.graph import Graph
from lowtide.schedule.registry import make
from lowtide.stop import Limits
from lowtide.target import Target, resolve
from lowtide.zoo.published import Figure, printed

PARTS = MappingProxyType(
    {
        "instances": "buffers from files",
        "training": "training steps of the zoo, own order",
        "hmcos-1": "HMCOS's networks, target hmcos, alignment 64",
        "orders": "networks by the order of each method, target generic",
        "layout": "order and arena together",
    }
)
"""What is run, in this order."""

TRAINING = ("gpt_training:layers=72,ahead=1", "gpt_training:layers=60,micro=4,ahead=2")
"""Some 18,000 and 25,000 tensors."""

TARGETS = ("strict", "hmcos", "generic")
ALIGNMENTS = (1, 64)
"""Of ``"layout"``: every network under each of them."""

MODELS = (".graph.json", ".onnx")


@dataclass(frozen=True)
class Arenas:
    """What a run of the suite gave. `complete` is False if Ctrl-C ended it: the rows are those that were done.

    `published` are the figures of papers that stand beside a row.
    """

    suite: str
    schema: int
    machine: Machine
    options: dict[str, Any]
    complete: bool
    cpu_seconds: float
    rows: tuple[Row, ...]
    published: tuple[Figure, ...]


@dataclass(frozen=True)
class Settings:
    """What a run was asked for, checked."""

    parts: tuple[str, ...]
    networks: tuple[str, ...]
    instances: Path | None
    graphs: Path | None
    methods: tuple[str, ...]
    allocators: tuple[str, ...]
    time: float


def allocate(
    *,
    parts: Sequence[str] = (),
    networks: Sequence[str] = (),
    instances: str | Path | None = None,
    graphs: str | Path | None = None,
    methods: Sequence[str] = (),
    allocators_named: Sequence[str] = (),
    time: float = 20.0,
    done: Callable[[Row], None] | None = None,
) -> Arenas:
    """Place buffers with every allocator, beside the load bound.

    Parameters
    ----------
    parts
        Keys of `PARTS`; all of them if empty, without ``"instances"`` where there are none.
    networks
        Names of the zoo; all of them if empty.
    instances
        Directory of ``*.csv`` as minimalloc's; a number before the ending (``A.1048576.csv``) is the capacity.
    graphs
        Directory of ``*.graph.json`` and ``*.onnx``; ``"layout"`` is run on these too.
    methods
        Whose orders; those of the papers' comparisons if empty.
    allocators_named
        Names of `lowtide.bench.placing.allocators`; all if empty.
    time
        Seconds of wall time of each search, for an order and for its arena.
    done
        Called with each finished row.

    Raises
    ------
    InputError
        No such part, network, method, allocator or directory.
    """
    began = clock.process_time()
    asked = _checked(parts, networks, instances, graphs, methods, allocators_named, time)
    rows: list[Row] = []
    complete = True
    try:
        for row in _rows(asked):
            rows.append(row)
            if done is not None:
                done(row)
    except KeyboardInterrupt:
        complete = False
    options = {
        "parts": list(asked.parts),
        "networks": list(asked.networks),
        "instances": [] if asked.instances is None else [p.name for p in _files(asked.instances, (".csv",))],
        "graphs": [] if asked.graphs is None else [p.name for p in _files(asked.graphs, MODELS)],
        "methods": list(asked.methods),
        "allocators": list(asked.allocators),
        "time": time,
    }
    figures = tuple(
        f
        for case in HMCOS
        for method in ("rpo", "serenity", "hmcos")
        for f in printed(case.network, case.target, method)
        if f.figure in ("arena", "peak") and any(r.part == "hmcos-1" and r.instance == case.name for r in rows)
    )
    cpu = round(clock.process_time() - began, 3)
    return Arenas("allocate", 1, machine(), options, complete, cpu, _with_best_bound(rows), figures)


def _checked(
    parts: Sequence[str],
    networks: Sequence[str],
    instances: str | Path | None,
    graphs: str | Path | None,
    methods: Sequence[str],
    named: Sequence[str],
    time: float,
) -> Settings:
    for part in parts:
        if part not in PARTS:
            raise InputError(f"there is no part {part!r}; use one of {', '.join(PARTS)}")
    if "instances" in parts and instances is None:
        raise InputError("part instances needs files; give --instances their directory")
    for name in (n.removeprefix("zoo:") for n in networks):
        zoo.network(name)
    for method in methods:
        make(method)
    known = allocators()
    for name in named:
        if name not in known:
            raise InputError(f"there is no allocator {name!r}; use one of {', '.join(known)}")
    for directory, ends in ((instances, (".csv",)), (graphs, MODELS)):
        if directory is not None:
            _files(Path(directory), ends)
    return Settings(
        tuple(parts) or tuple(p for p in PARTS if p != "instances" or instances is not None),
        tuple(n.removeprefix("zoo:") for n in networks) or tuple(zoo.names()),
        None if instances is None else Path(instances),
        None if graphs is None else Path(graphs),
        tuple(methods) or METHODS,
        tuple(named) or tuple(known),
        time,
    )


def _files(directory: Path, ends: tuple[str, ...]) -> list[Path]:
    """Files with one of these endings, the smallest first."""
    try:
        found = sorted((p.stat().st_size, p.name) for p in directory.iterdir() if p.name.endswith(ends))
    except OSError as error:
        raise InputError(f"cannot read this directory: {error.strerror}; name another one", str(directory)) from None
    if not found:
        raise InputError(f"there is no *{' or *'.join(ends)} here; name another directory", str(directory))
    return [directory / name for _, name in found]


def _rows(asked: Settings) -> Iterator[Row]:
    known = allocators()
    wanted = [known[name] for name in asked.allocators]
    if "instances" in asked.parts and asked.instances is not None:
        for path in _files(asked.instances, (".csv",)):
            problem = Problem(read_buffers(path))
            name, _, capacity = path.name.removesuffix(".csv").rpartition(".")
            about: dict[str, Any] = {"part": "instances", "instance": name or capacity}
            if name and capacity.isdigit():
                about["capacity_bytes"] = int(capacity)
            else:
                about["instance"] = path.name.removesuffix(".csv")
            for allocator in wanted:
                yield measure(problem, allocator, asked.time, about)
                if allocator.name == OURS and "capacity_bytes" in about:
                    fitting = Ours(OURS_TO_CAPACITY, capacity=about["capacity_bytes"])
                    yield measure(problem, fitting, asked.time, about)
    if "training" in asked.parts:
        for name in TRAINING:
            graph = zoo.build(name).graph()
            for target in ("strict", "generic"):
                model = memory_model(graph, resolve(target))
                problem, about = _of_order(model, tuple(range(len(graph.ops))), "training", name, "own")
                for allocator in wanted:
                    yield measure(problem, allocator, asked.time, about)
    if "hmcos-1" in asked.parts:
        target = replace(resolve("hmcos"), alignment=64)
        for case in (c for c in HMCOS if c.name in asked.networks):
            graph = case.graph()
            yield from _orders(graph, target, "hmcos-1", case.name, ("rpo", "serenity", "hmcos"), asked.time)
            yield _layout(graph, target, "hmcos-1", case.name, asked.time)
    if "orders" in asked.parts:
        for name in asked.networks:
            yield from _orders(zoo.build(name).graph(), resolve("generic"), "orders", name, asked.methods, asked.time)
    if "layout" in asked.parts:
        yield from _layouts(asked)


def _layouts(asked: Settings) -> Iterator[Row]:
    from lowtide.api import load

    sources: list[tuple[str, Callable[[], Graph]]] = [
        (name, lambda name=name: zoo.build(name).graph()) for name in asked.networks
    ]
    if asked.graphs is not None:
        sources += [(path.name, lambda path=path: load(path)) for path in _files(asked.graphs, MODELS)]
    for name, build in sources:
        try:
            graph = build()
        except InputError as error:
            yield Row("layout", name, 0, OURS, order=OURS, status="error", reason=_without(error, asked.graphs))
            continue
        for target in TARGETS:
            for alignment in ALIGNMENTS:
                rules = replace(resolve(target), alignment=alignment)
                yield _layout(graph, rules, "layout", name, asked.time)


def _without(error: InputError, directory: Path | None) -> str:
    """What is wrong, without the directory that it is in: results name none."""
    return " ".join(str(error).replace(f"{directory}/", "").split())


def _of_order(
    model: MemoryModel, order: tuple[int, ...], part: str, name: str, method: str
) -> tuple[Problem, dict[str, Any]]:
    """The buffers of an order, and what a row says of them."""
    steps = profile(model, order)
    problem = arena_buffers(model, order, steps.in_place, model.alignment, steps).problem
    return problem, {
        "part": part,
        "instance": name,
        "target": model.target.name,
        "alignment": model.alignment,
        "order": method,
        "peak_bytes": steps.peak,
    }


def _orders(
    graph: Graph, target: Target, part: str, name: str, methods: Sequence[str], seconds: float
) -> Iterator[Row]:
    """The arena of each method's order, by TFLite's greedy and by our engines."""
    model = memory_model(graph, target)
    known = allocators()
    for method in methods:
        about: dict[str, Any] = {"part": part, "instance": name, "target": target.name, "alignment": model.alignment}
        scheduler = make(method)
        reason = scheduler.supports(model)
        if reason is not None:
            yield Row(**about, order=method, buffers=0, allocator=OURS, status="unsupported", reason=reason)
            continue
        try:
            found = scheduler.schedule(model, Limits(seconds))
        except Exception as error:  # one that fails is a row, and the others go on
            text = " ".join(f"{type(error).__name__}: {error}".split())
            yield Row(**about, order=method, buffers=0, allocator=OURS, status="error", reason=text)
            continue
        if found.stopped == "interrupt":
            raise KeyboardInterrupt
        problem, about = _of_order(model, found.order, part, name, method)
        for allocator in (known["tflite"], Ours(thorough=False)):
            row = measure(problem, allocator, seconds, about)
            late = row.status == "ok" and found.stopped in ("time", "memory")
            yield replace(row, status="time") if late else row


def _layout(graph: Graph, target: Target, part: str, name: str, seconds: float) -> Row:
    """The plan of a graph: order and arena together, checked, with every byte replayed."""
    from lowtide.api import plan
    from lowtide.verify.check.plan import verify_plan

    about: dict[str, Any] = {
        "part": part,
        "instance": name,
        "target": target.name,
        "alignment": target.alignment,
        "order": OURS,
        "allocator": OURS,
        "buffers": len(graph.tensors),
    }
    began = clock.process_time()
    try:
        made = plan(graph, target=target, time=seconds)
        spent = clock.process_time() - began
        if made.stopped == "interrupt":
            raise KeyboardInterrupt
        verify_plan(graph, made, target, replay_bytes=True)
    except Exception as error:  # one that fails is a row, and the others go on
        text = " ".join(f"{type(error).__name__}: {error}".split())
        return Row(**about, status="error", reason=text)
    lost = (made.search or {}).get("arena_lost")
    arena = made.arena_bytes or 0
    return Row(
        **about,
        status="time" if made.stopped in ("time", "memory") else "ok",
        peak_bytes=made.peak_bytes,
        load_bytes=arena - (lost["gap_bytes"] if lost else 0),
        height_bytes=arena,
        lower_bound_bytes=made.arena_lower_bound_bytes,
        replayed=True,
        cpu_seconds=round(spent, 6),
        runs=1,
        lost=lost["text"] if lost else "",
        counters={"winner": made.method, "optimal_peak": made.optimal, **(made.search or {})},
    )


def _with_best_bound(rows: Sequence[Row]) -> tuple[Row, ...]:
    """A height is optimal if it is the best bound that any allocator proved of the same buffers."""
    best: dict[tuple[str, str, str, int, str], int] = {}
    for row in rows:
        best[row.problem_key] = max(best.get(row.problem_key, 0), row.lower_bound_bytes or 0)
    return tuple(
        row
        if row.height_bytes is None
        else replace(row, lower_bound_bytes=best[row.problem_key], optimal=row.height_bytes == best[row.problem_key])
        for row in rows
    )
