"""One method on one network: what it reached, in how much processor time, and what its paper says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from lowtide.analyse.liveness import largest_single_op, profile
from lowtide.analyse.storage import MemoryModel, memory_model
from lowtide.certificates import CutCertificate, NoCertificate, SearchCertificate
from lowtide.graph import Graph
from lowtide.schedule.method import Method, Schedule
from lowtide.schedule.registry import left_to_order
from lowtide.stop import Limits
from lowtide.target import resolve
from lowtide.verify.check.memory import work_out
from lowtide.verify.check.order import check_order, simulate
from lowtide_research.bench.machine import one_line, quickest
from lowtide_research.zoo.published import Figure
from lowtide_research.zoo.published.cases import Case

CERTIFICATES = {CutCertificate: "cut", SearchCertificate: "search", NoCertificate: "none"}


@dataclass(frozen=True)
class Cell:
    """One method under one setting on one network; a row of the results. Sizes are bytes."""

    part: str
    network: str
    ops: int
    target: str
    form: str  # which ops were made one, as the paper does
    unit: str
    method: str
    setting: str
    # ``"ok"``, or why there is no full result: ``"time"`` and ``"memory"`` are limits, after which the best found is
    # given; after ``"unsupported"`` and ``"error"`` there is nothing.
    status: Literal["ok", "time", "memory", "unsupported", "error"]
    reason: str | None = None
    peak_bytes: int | None = None
    lower_bound_bytes: int | None = None  # what this method proved, at least the largest single op
    optimal: bool = False  # whether the peak is the best bound that any method proved here
    certificate: str = "none"  # kind of this method's own proof
    reduced_ops: int | None = None  # what was left to be ordered: see `registry.LEFT_TO_ORDER`
    states: int | None = None
    variables: int | None = None
    cpu_seconds: float = 0.0  # processor time of all threads for scheduling alone, the least of `runs` runs
    runs: int = 0
    constraint: str | None = None
    constraint_bytes: int | None = None
    within_constraint: bool | None = None
    published: tuple[Figure, ...] = ()  # what the paper prints for this cell
    counters: dict[str, Any] = field(default_factory=dict)

    @property
    def graph_key(self) -> tuple[str, str, str]:
        """Cells with the same one are of the same graph under the same rules."""
        return self.network, self.target, self.form


@dataclass(frozen=True)
class Subject:
    """A case with its graph, and the graph under the case's target."""

    part: str
    case: Case
    graph: Graph
    model: MemoryModel


def measure(
    subject: Subject,
    method: Method,
    limits: Callable[[], Limits],
    *,
    setting: str = "",
    published: tuple[Figure, ...] = (),
    own_result: bool = False,
) -> Cell:
    """Run a method; whatever it raises is a cell. `limits`: makes those of a run, whose clock starts with it.
    `own_result`: whether the peak is that of Zhong et al.'s Algorithm 2 alone, even where a plain order is better.
    Raises `KeyboardInterrupt`: Ctrl-C, also where the method ended by itself because of it."""
    case, model = subject.case, subject.model
    about: dict[str, Any] = {
        "part": subject.part,
        "network": case.name,
        "ops": len(subject.graph.ops),
        "target": model.target.name,
        "form": case.form,
        "unit": case.unit,
        "method": method.name,
        "setting": setting,
        "published": published,
    }
    try:
        reason = method.supports(model)
        if reason is not None:
            return Cell(**about, status="unsupported", reason=reason)
        result, seconds, runs = quickest(lambda: method.schedule(model, limits()), lambda s: s.stopped)
        peak = _checked_peak(subject, result)
    except Exception as error:  # one that fails is a row, and the others go on
        return Cell(**about, status="error", reason=one_line(error))
    if own_result:
        peak = result.counters.get("algorithm_peak_bytes", peak)
    constraint = case.constraint
    return Cell(
        **about,
        status=result.stopped if result.stopped in ("time", "memory") else "ok",
        peak_bytes=peak,
        lower_bound_bytes=max(result.lower_bound, largest_single_op(model)),
        certificate=CERTIFICATES[type(result.certificate)],
        reduced_ops=left_to_order(method.name, result.counters),
        states=result.counters.get("states"),
        variables=result.counters.get("variables"),
        cpu_seconds=round(seconds, 6),
        runs=runs,
        constraint=constraint.text if constraint else None,
        constraint_bytes=constraint.bytes if constraint else None,
        within_constraint=peak <= constraint.bytes if constraint else None,
        counters={k: len(v) if isinstance(v, list) else v for k, v in result.counters.items() if _is_small(v)},
    )


def _checked_peak(subject: Subject, result: Schedule) -> int:
    """Peak of the order, by the planner's accounting and by the checker's, which must agree."""
    graph = subject.graph
    order = [graph.ops[i].id for i in result.order]
    check_order(graph, order)
    peak = profile(subject.model, result.order).peak
    seen = simulate(graph, work_out(graph, subject.model.target), order).peak
    assert peak == seen, f"the planner counts {peak} bytes, the checker {seen}"
    assert result.lower_bound <= peak, f"a bound of {result.lower_bound} bytes above the peak, {peak}"
    return peak


def _is_small(value: object) -> bool:
    return isinstance(value, int | float | str | list)


def make_subject(part: str, case: Case, graph: Graph) -> Subject:
    """Put a case's graph under its target."""
    return Subject(part, case, graph, memory_model(graph, resolve(case.target)))
