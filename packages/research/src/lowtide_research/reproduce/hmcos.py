"""HMCOS (Wang et al., DAC 2022), row by row."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from itertools import product
from math import prod

from lowtide import _core
from lowtide.analyse.liveness import profile
from lowtide.schedule.method import Schedule, core_model
from lowtide.stop import Limits
from lowtide_research.bench.measure import Cell
from lowtide_research.reproduce.cells import Source, arena_of, cell_of, explained, rows_of_csv, subject_of
from lowtide_research.reproduce.hmcos_experiments import experiments
from lowtide_research.reproduce.pictures import Panel
from lowtide_research.reproduce.row import Direction, Measured, Row, Why
from lowtide_research.schedule.hmcos import Hmcos
from lowtide_research.zoo.published import printed as published
from lowtide_research.zoo.published.cases import HMCOS, RANDWIRE, Case

SOURCES = {
    "Table 1": Source("main", "each method's peak, arena and seconds on NAS networks"),
    "Table 3": Source("hmcos-3", "seconds of HMCOS's configurations 1 to 7"),
    "section 4.2.3": Source("hmcos-3", "peak of configuration 3"),
}
_SEEDS = Why(
    "seeds of the paper's three graphs; ours are of the same generator: WS(4, 0.75), 32 nodes a stage, 78 channels, "
    "seeds 0 to 2"
)
_TOGETHER = Why(
    "ratios of seconds that are up to 700 times shorter here: what all configurations have in common weighs more",
    "table-3/*/time",
)
_NO_SAMPLE = Why(
    "which of the orders of the same peak HMCOS's code finds; of 31 such orders none has as small an arena (rows "
    "`same-peak/*`)"
)
BECAUSE = {
    "table-1/*/speed-up": Why(
        "SERENITY is written in C++ here and gets HMCOS's sequences as nodes: seconds, not 1.5 to 3 hours; without "
        "sequences it does not end within the limit on any of the three",
        "without-sequences",
    ),
    "table-1/randwire*": _SEEDS,
    "table-1/nasnet_a_cifar/rpo/arena": Why(
        "the order in which ops list their inputs decides; the five other networks are equal", "other-inputs"
    ),
    "table-1/nasnet_a_cifar/hmcos/arena*": _NO_SAMPLE,
    "table-1/nasnet_a_imagenet/hmcos/arena*": _NO_SAMPLE,
    "table-1/amoebanet_a_imagenet/hmcos/arena*": _NO_SAMPLE,
    "table-1/*/arena*": Why(
        "many orders have the same peak, and which one is found decides the arena: the printed one is "
        "among those of 31 such orders, or between them; the allocator is theirs (arenas of reverse post-order are "
        "equal on five of six networks)",
        "same-peak",
    ),
    "table-3/*/configuration-1/time": Why(
        "the paper gave it an hour", "lowtide research reproduce hmcos --row 'table-3/*/configuration-1' --time 3600"
    ),
    "table-3/*speed-up*": _TOGETHER,
    "table-3/*slow-down*": _TOGETHER,
    "algorithm-1/amoebanet_a_cifar/*": Why(
        "dissolving only the makers of what is live at the peak ends at 1.195 MiB with no group left there; dissolving "
        "the next users too gives the printed 1.13",
        "table-1/amoebanet_a_cifar/hmcos/peak",
    ),
    "figure-2/*": Why("how orders were drawn; here each step runs any ready op, all equally likely"),
    "figure-5/*": Why("numbers: the paper has a picture"),
}
NAMES = {"rpo": "R", "serenity": "S", "hmcos": "H"}
_REDUCTIONS = (
    ("24.3", "17.5"), ("35.7", "31.8"), ("42.4", "40.3"), ("18.3", "9.5"), ("14.2", "7.9"), ("25.3", "14.5"),
    ("17.4", "19.2"), ("8.7", "8.3"), ("28.0", "20.0"),
)  # fmt: skip
"""Table 1: per network, by how much HMCOS's peak and arena are below those of reverse post-order, in percent."""
_SPEED_UPS = ("283", "137", "151")
_RATIOS = {
    "speed-up-3": ("3.09", "11.32", "3.87", "212", "105", "422", "32.9"),
    "speed-up-4": ("6.77", "5.61", "5.20", "10.42", "11.25", "0.55", "4.83"),
    "slow-down-5": ("1.22", "3.45", "1.15", "4.63", "4.51", "1.50", "2.31"),
    "slow-down-6": ("1.00", "1.09", "1.06", "5.25", "3.02", "4.64", "2.10"),
    "slow-down-7": ("1.17", "1.17", "1.08", "1.02", "1.06", "1.00", "1.08"),
}
"""Table 3: seconds of a configuration over those of another, per network and as geometric mean."""
ITERATIONS = (3, 3, 3, 2, 2, 2)  # section 4.2.2: three on CIFAR-10, two on ImageNet
ORDERS = 1_000_000


def _row(
    name: str,
    what: str,
    printed: str,
    unit: str,
    measure: Callable[[Limits], float | Measured],
    better: Direction = "more",
) -> Row:
    place = name.partition("/")[0].replace("-", " ").capitalize()
    return explained(Row(name, place, what, printed, unit, measure, better), BECAUSE)


def _main(case: Case, method: str, limits: Limits) -> Cell:
    return cell_of("main", case, method, "", limits)


def _peak(case: Case, method: str, limits: Limits) -> int:
    return _main(case, method, limits).peak_bytes or 0


def _fits(case: Case, method: str, limits: Limits) -> float:
    return float(bool(_main(case, method, limits).within_constraint))


def _peak_reduction(case: Case, limits: Limits) -> float:
    return 100 * (1 - _peak(case, "hmcos", limits) / _peak(case, "rpo", limits))


def _arena_reduction(case: Case, limits: Limits) -> float:
    return 100 * (1 - arena_of("main", case, "hmcos", limits) / arena_of("main", case, "rpo", limits))


def _speed_up(case: Case, limits: Limits) -> Measured:
    theirs, ours = (_main(case, method, limits) for method in ("serenity", "hmcos"))
    return Measured(theirs.cpu_seconds / ours.cpu_seconds, finished=theirs.status == ours.status == "ok")


def _table_1() -> Iterator[Row]:
    """Constraints, reductions, and speed-ups."""
    for case, (peak, arena) in zip((*HMCOS, *RANDWIRE), _REDUCTIONS, strict=True):
        where = f"table-1/{case.network}"
        for method in NAMES:
            shown = next(f for f in published(case.network, case.target, method) if f.figure == "peak")
            fits = str(int(case.constraint is not None and shown.amount <= case.constraint.bytes))
            what = "whether the peak is within the constraint (1: yes)"
            yield _row(f"{where}/{method}/fits", what, fits, "", partial(_fits, case, method), "neither")
        below = "below reverse post-order"
        yield _row(f"{where}/hmcos/peak-reduction", f"peak {below}", peak, "%", partial(_peak_reduction, case))
        yield _row(f"{where}/hmcos/arena-reduction", f"arena {below}", arena, "%", partial(_arena_reduction, case))
    for case, text in zip(RANDWIRE, _SPEED_UPS, strict=True):
        what = "seconds of SERENITY over HMCOS's"
        yield _row(f"table-1/{case.network}/speed-up", what, text, "x", partial(_speed_up, case))


def _configured(case: Case, number: int, limits: Limits) -> Cell:
    return cell_of("hmcos-3", case, "hmcos", f"configuration {number}", limits)


def _ratio(cases: tuple[Case, ...], kind: str, limits: Limits) -> Measured:
    number = int(kind[-1])
    over, under = (number - 1, number) if kind.startswith("speed") else (number, 4)
    pairs = [(_configured(c, over, limits), _configured(c, under, limits)) for c in cases]
    ratio = prod(a.cpu_seconds / b.cpu_seconds for a, b in pairs) ** (1 / len(pairs))
    return Measured(ratio, finished=all(cell.status == "ok" for pair in pairs for cell in pair))


def _configured_peak(case: Case, number: int, limits: Limits) -> Measured:
    cell = _configured(case, number, limits)
    return Measured((cell.peak_bytes or 0) / 2**20, finished=cell.status == "ok")


def _table_3() -> Iterator[Row]:
    """Ratios of seconds, and peaks that the text says are the same."""
    for kind, texts in _RATIOS.items():
        groups = (*((case,) for case in HMCOS), HMCOS)
        for cases, text in zip(groups, texts, strict=True):
            name = cases[0].network if len(cases) == 1 else "geometric-mean"
            what = f"seconds of configuration {kind[-1]} against {'the one before' if 'up' in kind else '4'}"
            yield _row(f"table-3/{name}/{kind}", what, text, "x", partial(_ratio, cases, kind), "neither")
    for case, number in product(HMCOS, (2, 4, 5, 6, 7)):
        shown = next(f for f in published(case.network, case.target, "hmcos") if f.figure == "peak")
        peak = partial(_configured_peak, case, number)
        name = f"section-4.2.3/{case.network}/configuration-{number}"
        yield _row(name, "the same peak as the complete configuration", shown.text, "MiB", peak, "less")


@cache
def _schedule(case: Case, method: Hmcos, seconds: float, memory_bytes: int) -> Schedule:
    return method.schedule(subject_of("main", case).model, Limits(seconds, memory_bytes))


def _scheduled(case: Case, method: Hmcos, limits: Limits) -> Schedule:
    return _schedule(case, method, limits.seconds, limits.memory_bytes)


def _printed_rule(case: Case, limits: Limits) -> float:
    order = _scheduled(case, Hmcos(dissolve="makers"), limits).order
    return profile(subject_of("main", case).model, order).peak / 2**20


def _algorithm_1() -> Iterator[Row]:
    """Peaks by the rule that is printed: only makers are dissolved (`hmcos.dissolve=makers`)."""
    for case in HMCOS:
        shown = next(f for f in published(case.network, case.target, "hmcos") if f.figure == "peak")
        what = "peak where Algorithm 1 dissolves as printed"
        yield _row(f"algorithm-1/{case.network}/peak", what, shown.text, "MiB", partial(_printed_rule, case), "less")


@cache
def _sampled() -> dict[int, int]:
    model = subject_of("main", HMCOS[3]).model
    return dict(_core.sample(core_model(model), orders=ORDERS, seed=0, report=None).peaks)


def _share(mib: float, _: Limits) -> float:
    return 100 * sum(n for peak, n in _sampled().items() if peak <= mib * 2**20) / ORDERS


def _figure_2() -> Iterator[Row]:
    """A million orders of NASNet-A (ImageNet)."""
    what = "share of a million orders of NASNet-A with a peak of at most"
    yield _row("figure-2/constraint", f"{what} 4.60 MiB", "4", "%", partial(_share, 4.60), "neither")
    yield _row("figure-2/least", f"{what} 4.40 MiB", "0", "%", partial(_share, 4.40), "neither")


def _iterations(case: Case, limits: Limits) -> list[dict[str, float]]:
    return _scheduled(case, Hmcos(), limits).counters["iterations"]


def _iteration(case: Case, number: int, figure: str, scale: float, limits: Limits) -> float:
    return _iterations(case, limits)[number - 1][figure] / scale


def _freed(case: Case, number: int, limits: Limits) -> float:
    schedule = _scheduled(case, Hmcos(), limits)
    return 100 * schedule.counters["iterations"][number - 1]["freed_sequences"] / schedule.counters["sequences"]


def _falls(limits: Limits) -> float:
    peaks = [[i["peak_bytes"] for i in _iterations(case, limits)] for case in HMCOS]
    return sum(p[-1] < p[0] for p in peaks)


def _figure_5() -> Iterator[Row]:
    """Peak, seconds and freed sequences in each iteration; what the text says of them."""
    for case, most in zip(HMCOS, ITERATIONS, strict=True):
        where = f"figure-5/{case.network}"
        count = partial(lambda c, limits: len(_iterations(c, limits)), case)
        yield _row(f"{where}/iterations", "iterations until no group is dissolved", str(most), "", count, "neither")
        share = partial(lambda c, m, limits: max(_freed(c, k, limits) for k in range(1, m + 1)), case, most)
        yield _row(f"{where}/most-freed", "most sequences freed from their groups", "<=20", "%", share, "less")
        for number in range(1, most + 1):
            at = f"{where}/{number}"
            peak, seconds = (
                partial(_iteration, case, number, figure, scale)
                for figure, scale in (("peak_bytes", 2**20), ("seconds", 1.0))
            )
            yield _row(f"{at}/peak", "(a) peak of an iteration", "", "MiB", peak)
            yield _row(f"{at}/time", "(b) its seconds", "", "s", seconds)
            yield _row(f"{at}/freed", "(c) sequences freed before it", "", "%", partial(_freed, case, number))
    yield _row("figure-5/falls", "networks whose peak falls in later iterations", "3", "", _falls, "neither")


ROWS: tuple[Row, ...] = (
    *_figure_2(),
    *rows_of_csv("HMCOS", SOURCES, BECAUSE),
    *_table_1(),
    *_algorithm_1(),
    *_figure_5(),
    *_table_3(),
    *experiments(),
)


def _figure_5_panels(limits: Limits) -> list[Panel]:
    every = {case.network: _iterations(case, limits) for case in HMCOS}
    freed = {case.network: [_freed(case, k, limits) for k in range(1, len(every[case.network]) + 1)] for case in HMCOS}
    return [
        Panel(
            "(a) peak of each iteration, MiB", {n: [i["peak_bytes"] / 2**20 for i in its] for n, its in every.items()}
        ),
        Panel("(b) seconds", {n: [i["seconds"] for i in its] for n, its in every.items()}),
        Panel("(c) sequences freed before it, %", freed),
    ]


PICTURES: Mapping[str, Callable[[Limits], Sequence[Panel]]] = {"figure-5": _figure_5_panels}
