"""`lowtide bench spill`: COSMA's networks at its three budgets, every scheme beside the published figures.

M_R is what the largest op needs, M_P the least peak of any order without spilling, M_H the mean of the two. All data
are of 8 bits, as in the paper: sizes of the float32 graphs are divided by four.
"""

from __future__ import annotations

import time as clock
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from lowtide import zoo
from lowtide.analyse.liveness import profile
from lowtide.analyse.storage import memory_model
from lowtide.bench.cases import CELLS, FILE, SUFFIX
from lowtide.bench.machine import Machine, machine
from lowtide.bench.off_chip import KB, paged_traffic
from lowtide.errors import InputError
from lowtide.graph import Graph, Kind
from lowtide.schedule.exact import Exact
from lowtide.sizes import parse_size
from lowtide.spill.answer import SpillAnswer, SpillMethod
from lowtide.spill.baselines import Belady, GreedySpill
from lowtide.spill.cosma.method import Cosma, CosmaDnc, CosmaFs
from lowtide.spill.cosma.sizes import ProgramSize, program_sizes
from lowtide.spill.orders import model_while_used
from lowtide.spill.problem import Memory, SpillProblem, spill_problem
from lowtide.spill.search import Spill
from lowtide.spill.simulate import simulate
from lowtide.stop import Limits, Progress
from lowtide.target import resolve
from lowtide.verify.prove.search import prove
from lowtide.zoo.published import Figure, printed

Family = Literal["human", "nas"]
Setting = Literal["activations", "parameters"]
PARTS = ("networks", "growth", "wide", "sizes", "off-chip")
BUDGETS = ("M_R", "M_H", "M_P")
SETTINGS: tuple[Setting, ...] = ("activations", "parameters")
BYTES_OF_FLOAT = 4
SHORT_SECONDS = 0.5
MOST_RUNS = 3
AGAIN_SECONDS = 60.0


@dataclass(frozen=True)
class Network:
    """One of COSMA's, or one of a series that grows. `name` is a name of the zoo, or ``file:NAME``."""

    label: str
    name: str
    family: Family

    def graph(self, directory: Path | None) -> Graph:
        """The graph with elements of 8 bits. Raises `InputError` if its file is not there."""
        if not self.name.startswith(FILE):
            return eight_bits(zoo.build(self.name).graph())
        from lowtide.api import load

        stem = self.name.removeprefix(FILE)
        if directory is None:
            raise InputError(f"{self.label} is in no zoo; give --graphs the directory that holds {stem}{SUFFIX}")
        return eight_bits(load(directory / f"{stem}{SUFFIX}"))


HUMAN = tuple(
    Network(label, f"{FILE}{name}", "human")
    for label, name in (
        ("ResNet-50", "resnet50"),
        ("DenseNet-121", "densenet121"),
        ("ResNeXt-50", "resnext50_32x4d"),
        ("R2Plus1D-18", "r2plus1d_18"),
        ("S3D", "s3d"),
        ("FCN", "fcn_resnet50"),
        ("L-RASPP", "lraspp_mobilenet_v3_large"),
        ("DeepLabV3", "deeplabv3_resnet50"),
        ("Transformer", "transformer_base"),
        ("ViT", "vit_b_16"),
    )
)
NAS = tuple(
    Network(label, name, "nas")
    for label, name in (
        ("PNASNet-5", "pnasnet_5_imagenet"),
        ("AmoebaNet-D", "amoebanet_d"),
        ("NASNet-A", "nasnet_a_imagenet"),
        ("DARTS", "darts_imagenet"),
    )
)
GROWTH = tuple(
    Network(f"NASNet-A, {n} cells a stack", f"nasnet_a_imagenet:n={n}", "nas") for n in (1, 2, 3, 5, 6, 7)
) + tuple(Network(f"DARTS, {n} cells a stack", f"darts_imagenet:n={n}", "nas") for n in (1, 2, 3, 6, 8, 10))
WIDE = tuple(
    Network(label, name, "nas")
    for label, name in (
        ("RandWire, CIFAR-10", "randwire_cifar10"),
        ("RandWire, WS(96)", "randwire_ws_one_stage"),
        ("RandWire, ER(96)", "randwire_er_one_stage"),
        ("RandWire, BA(96)", "randwire_ba_one_stage"),
        ("LSTM", "lstm"),
    )
)
"""Of no paper's study of spilling: many tensors of one size are live at once, which is hard to bound."""
SCHEMES: dict[str, SpillMethod] = {
    "belady own": Belady("own"),
    "belady exact": Belady("exact"),
    "greedy own": GreedySpill("own"),
    "greedy exact": GreedySpill("exact"),
    "cosma": Cosma(),
    "cosma-fs own": CosmaFs("own"),
    "cosma-fs exact": CosmaFs("exact"),
    "cosma-dnc": CosmaDnc(),
    "spill": Spill(),
}
"""In the paper: default or MPMF order (ours is proved least; the paper's is HMCOS's on NAS networks)."""
GROWTH_SCHEMES = ("cosma-dnc", "spill")
WIDE_SCHEMES = ("belady exact", "greedy exact", "spill")
ON_CHIP = (32, 64, 96, 128, 192, 256)


@dataclass(frozen=True)
class SpillCell:
    """One scheme on one network at one budget. Sizes are bytes.

    Attributes
    ----------
    budget
        ``"M_R"``, ``"M_H"`` or ``"M_P"``.
    same
        Whether M_R is M_P, so that all three are one budget.
    peak_proved
        Whether M_P is proved least.
    status
        ``"ok"``, or the limit that ended it (then the best found is given), or why there is nothing.
    lower_bound_bytes
        What this scheme proved of all orders; `order_bound_bytes` of its own order (or as far as a solver says).
    cpu_seconds
        Processor time of all threads, the order included, the least of up to three runs where below 0.5 s.
    proved_again
        What ``verify --prove`` says of `lower_bound_bytes`; None where there is no bound, or only a solver's.
    """

    part: str
    network: str
    label: str
    family: Family
    setting: Setting
    ops: int
    budget: str
    capacity_bytes: int
    same: bool
    peak_proved: bool
    scheme: str
    status: Literal["ok", "time", "memory", "unsupported", "error"]
    reason: str | None = None
    traffic_bytes: int | None = None
    lower_bound_bytes: int = 0
    order_bound_bytes: int | None = None
    optimal: bool = False
    cpu_seconds: float = 0.0
    proved_again: str | None = None
    published: tuple[Figure, ...] = ()
    counters: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class OffChip:
    """Traffic of one cell under Belady's replacement of pages, in the own order and in that of least peak."""

    network: str
    on_chip_kb: int
    own_bytes: int
    least_peak_bytes: int
    peak_bytes: int


@dataclass(frozen=True)
class SpillResults:
    """What a run gave. `complete` is False if Ctrl-C ended it."""

    machine: Machine
    options: dict[str, Any]
    complete: bool
    cpu_seconds: float
    cells: tuple[SpillCell, ...]
    sizes: tuple[ProgramSize, ...]
    off_chip: tuple[OffChip, ...]


def eight_bits(graph: Graph) -> Graph:
    """The graph with every element of 8 bits instead of 32."""
    return replace(graph, tensors=tuple(replace(t, size=-(-t.size // BYTES_OF_FLOAT)) for t in graph.tensors))


def one_parameter_each(graph: Graph) -> Graph:
    """The graph with a copy of its own for each op that reads a constant: "parameter tensors are used only for single
    operators" (section V-B). Exported graphs share scalars such as an epsilon or a scale."""
    constants = {t.id for t in graph.tensors if t.kind is Kind.CONSTANT}
    tensors, ops = list(graph.tensors), []
    fresh = max((t.id for t in tensors), default=0) + 1
    taken: set[int] = set()
    for op in graph.ops:
        inputs = list(op.inputs)
        for t in dict.fromkeys(t for t in op.inputs if t in constants):
            if t in taken:
                tensors.append(replace(graph.tensor_by_id[t], id=fresh))
                inputs = [fresh if i == t else i for i in inputs]
                fresh += 1
            taken.add(t)
        ops.append(replace(op, inputs=tuple(inputs)))
    return replace(graph, tensors=tuple(tensors), ops=tuple(ops))


def spill(
    *,
    networks: Sequence[str] = (),
    graphs: str | Path | None = None,
    schemes: Sequence[str] = (),
    settings: Sequence[str] = (),
    parts: Sequence[str] = (),
    time: float = 30.0,
    search_memory: int | str = "2GiB",
    seed: int = 0,
    report: Callable[[str, Progress], None] | None = None,
    done: Callable[[SpillCell], None] | None = None,
) -> SpillResults:
    """Run the suite.

    Parameters
    ----------
    networks
        Labels (``"NASNet-A"``) or names; all if empty. Those in files are left out without `graphs`.
    graphs
        Directory with the graph files of the ten human-designed networks.
    schemes
        Keys of `SCHEMES`; all if empty.
    settings
        Of `SETTINGS`; both if empty.
    parts
        Of `PARTS`; ``"networks"`` if empty.
    time, search_memory
        Limits of each cell: seconds of wall time, memory for states.
    report, done
        Called with the cell's name and its search's progress, and with each finished cell.

    Raises
    ------
    InputError
        No such network, scheme, part or file.
    """
    began = clock.process_time()
    chosen = list(parts) or ["networks"]
    named = (("part", chosen, PARTS), ("scheme", schemes, SCHEMES), ("setting", settings, SETTINGS))
    for what, given, known in named:
        for name in given:
            if name not in known and name != "all":
                raise InputError(f"there is no {what} {name!r}; use one of {', '.join(known)}")
    if "all" in chosen:
        chosen = list(PARTS)
    directory = None if graphs is None else Path(graphs)
    limits = {"seconds": time, "memory_bytes": parse_size(search_memory, "search memory"), "seed": seed}
    wanted = _networks(networks, directory)
    cells: list[SpillCell] = []
    sizes: list[ProgramSize] = []
    pages: list[OffChip] = []
    complete = True
    try:
        for part, network, names in _work(chosen, wanted, list(schemes) or list(SCHEMES)):
            asked: list[Setting] = [s for s in SETTINGS if not settings or s in settings]
            for cell in _cells(part, network, directory, names, asked, limits, report):
                cells.append(cell)
                if done is not None:
                    done(cell)
        for network in wanted if "sizes" in chosen else ():
            problem = spill_problem(network.graph(directory), resolve("strict"), (Memory("fast", 2**62),))
            sizes += program_sizes(problem, network.label)
        if "off-chip" in chosen:
            pages += _off_chip(limits)
    except KeyboardInterrupt:
        complete = False
    options = {
        "networks": list(networks),
        "schemes": list(schemes),
        "settings": list(settings),
        "parts": chosen,
        "time": time,
        "search_memory_bytes": limits["memory_bytes"],
        "seed": seed,
    }
    seconds = round(clock.process_time() - began, 3)
    return SpillResults(machine(), options, complete, seconds, _with_best_bound(cells), tuple(sizes), tuple(pages))


def _networks(names: Sequence[str], directory: Path | None) -> list[Network]:
    known = {key: n for n in (*HUMAN, *NAS) for key in (n.label, n.name, n.name.removeprefix(FILE))}
    for name in names:
        if name not in known:
            raise InputError(f"there is no network {name!r}; use one of {', '.join(n.label for n in (*HUMAN, *NAS))}")
    if names:
        return [known[name] for name in names]
    return [n for n in (*HUMAN, *NAS) if directory is not None or not n.name.startswith(FILE)]


def _work(
    parts: Sequence[str], networks: Sequence[Network], schemes: Sequence[str]
) -> Iterator[tuple[str, Network, Sequence[str]]]:
    if "networks" in parts:
        yield from (("networks", network, schemes) for network in networks)
    if "growth" in parts:
        yield from (("growth", network, [s for s in schemes if s in GROWTH_SCHEMES]) for network in GROWTH)
    if "wide" in parts:
        yield from (("wide", network, [s for s in schemes if s in WIDE_SCHEMES]) for network in WIDE)


def _cells(
    part: str,
    network: Network,
    directory: Path | None,
    schemes: Sequence[str],
    asked: Sequence[Setting],
    limits: dict[str, Any],
    report: Callable[[str, Progress], None] | None,
) -> Iterator[SpillCell]:
    graph = network.graph(directory)
    for setting in asked if part == "networks" else SETTINGS[:1]:
        parameters = setting == "parameters"
        counted = one_parameter_each(graph) if parameters else graph
        problem = spill_problem(counted, resolve("strict"), (Memory("fast", 2**62),), parameters=parameters)
        least, proved = _least_peak(problem, limits)
        largest = problem.largest_op[0]
        capacities = {"M_R": largest, "M_H": (largest + least) // 2, "M_P": least}
        for budget in BUDGETS[1:2] if part == "growth" else BUDGETS:
            at = replace(problem, memories=(Memory("fast", capacities[budget]),))
            about: dict[str, Any] = {
                "part": part, "network": network.name, "label": network.label, "family": network.family,
                "setting": setting, "ops": problem.steps, "budget": budget, "capacity_bytes": capacities[budget],
                "same": largest == least, "peak_proved": proved,
            }  # fmt: skip
            for scheme in schemes:
                name = f"{network.label} {setting} {budget} {scheme}"

                def tell(progress: Progress, name: str = name) -> None:
                    if report is not None:
                        report(name, progress)

                figures = printed(network.name, "strict", scheme, f"{setting} {budget}", "spill")
                about |= {"scheme": scheme, "published": figures}
                yield _measure(at, SCHEMES[scheme], about, {**limits, "report": tell})


def _least_peak(problem: SpillProblem, limits: dict[str, Any]) -> tuple[int, bool]:
    model = model_while_used(problem)
    found = Exact().schedule(model, Limits(**limits))
    peak = profile(model, found.order).peak
    return peak, found.lower_bound >= peak


def _measure(problem: SpillProblem, method: SpillMethod, about: dict[str, Any], limits: dict[str, Any]) -> SpillCell:
    """Run a scheme and replay its answer; whatever it raises is a cell."""
    try:
        reason = method.supports(problem)
        if reason is not None:
            return SpillCell(**about, status="unsupported", reason=reason)
        best, runs = float("inf"), 0
        while True:
            began = clock.process_time()
            found = method.spill(problem, Limits(**limits))
            best, runs = min(best, clock.process_time() - began), runs + 1
            if best > SHORT_SECONDS or runs == MOST_RUNS or found.stopped in ("time", "memory", "interrupt"):
                break
        traffic = simulate(problem, found)
        assert traffic == found.traffic_bytes, f"the planner counts {found.traffic_bytes} bytes, the replay {traffic}"
        again = _proved_again(problem, found, parameters=about["setting"] == "parameters")
    except Exception as error:  # one that fails is a row, and the others go on
        text = " ".join(f"{type(error).__name__}: {error}".split())
        return SpillCell(**about, status="error", reason=text)
    if found.stopped == "interrupt":
        raise KeyboardInterrupt
    return SpillCell(
        **about,
        status=found.stopped if found.stopped in ("time", "memory") else "ok",
        traffic_bytes=traffic,
        lower_bound_bytes=found.traffic_lower_bound_bytes,
        order_bound_bytes=found.counters.get("ilp_bound_bytes"),
        cpu_seconds=round(best, 6),
        proved_again=again,
        counters={k: v for k, v in found.counters.items() if isinstance(v, int | float | str)},
    )


def _proved_again(problem: SpillProblem, found: SpillAnswer, *, parameters: bool) -> str | None:
    """What a second search, or a certificate, says of an answer's bound. It raises where the bound does not hold."""
    from lowtide.api.answer import Answer, assemble
    from lowtide.api.goals.fast_memory import spill_keys
    from lowtide.api.job import Problem
    from lowtide.spill.words import Moves

    if not found.traffic_lower_bound_bytes or found.proof.kind in ("none", "solver"):
        return None
    whole = Problem.of(problem.model.graph, resolve("strict"))
    keys = spill_keys(problem, found, whole, Moves(parameters=parameters))
    plan = assemble(Answer(whole, found.order, keys, "spill"))
    return prove(whole.graph, plan, whole.target, seconds=AGAIN_SECONDS).result


def _with_best_bound(cells: Sequence[SpillCell]) -> tuple[SpillCell, ...]:
    """Traffic is optimal if some scheme proved that there is no less."""
    best: dict[tuple[str, str, str], int] = {}
    for c in cells:
        key = (c.label, c.setting, c.budget)
        best[key] = max(best.get(key, 0), c.lower_bound_bytes)
    return tuple(replace(c, optimal=c.traffic_bytes == best[c.label, c.setting, c.budget]) for c in cells)


def _off_chip(limits: dict[str, Any]) -> Iterator[OffChip]:
    for case in CELLS:
        graph = case.graph()
        model = memory_model(graph, resolve("strict"))
        order = Exact().schedule(model, Limits(**limits)).order
        peak = profile(model, order).peak
        for size in ON_CHIP:
            own, least = (paged_traffic(model, o, size * KB).bytes for o in (range(len(graph.ops)), order))
            yield OffChip(case.name, size, own, least, peak)
