"""Cells of `lowtide research bench spill`: a network of COSMA's under a budget, and what a scheme makes of it, checked.

M_R is what the largest op needs, M_P the least peak of any order without spilling, M_H the mean of the two. All data
are of 8 bits, as in the paper: sizes of the float32 graphs are divided by four.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal

from lowtide.analyse.liveness import profile
from lowtide.graph import Graph
from lowtide.plan import Plan
from lowtide.schedule.exact import Exact
from lowtide.spill.answer import SpillAnswer, SpillMethod
from lowtide.spill.problem import Memory, SpillProblem, model_while_used, spill_problem
from lowtide.spill.search import Spill
from lowtide.stop import Limits
from lowtide.target import resolve
from lowtide.verify.check.plan import verify_plan
from lowtide.verify.prove.search import prove
from lowtide_research import zoo
from lowtide_research.bench.machine import one_line, quickest
from lowtide_research.bench.suite import Watch
from lowtide_research.spill.baselines import Belady, GreedySpill
from lowtide_research.spill.cosma.method import Cosma, CosmaDnc, CosmaFs
from lowtide_research.zoo.merge import eight_bits, one_parameter_each
from lowtide_research.zoo.published import Figure, printed

Family = Literal["human", "nas", "wide"]
Setting = Literal["activations", "parameters"]
BUDGETS = ("M_R", "M_H", "M_P")
SETTINGS: tuple[Setting, ...] = ("activations", "parameters")
ENDLESS = (Memory("fast", 2**62),)
MOST_RUNS = 3
AGAIN_SECONDS = 60.0


@dataclass(frozen=True)
class Network:
    """One of COSMA's, or a wide one. `name` is a name of the zoo."""

    label: str
    name: str
    family: Family

    def graph(self) -> Graph:
        """The graph with elements of 8 bits."""
        return eight_bits(zoo.build(self.name).graph())


HUMAN = tuple(
    Network(label, name, "human")
    for label, name in (
        ("ResNet-50", "resnet50"),
        ("FC-DenseNet", "fc_densenet103"),
        ("DenseNet-121", "densenet121"),
        ("ResNeXt-50", "resnext50"),
        ("R2Plus1D-18", "r2plus1d_18"),
        ("S3D", "s3d"),
        ("FCN", "fcn_resnet50"),
        ("L-RASPP", "lraspp_mobilenet_v3"),
        ("DeepLabV3", "deeplabv3_resnet50"),
        ("Transformer", "transformer_base"),
        ("ViT", "vit_b_16"),
    )
)
"""COSMA cites the fully convolutional DenseNet; DenseNet-121 stands beside it."""
NAS = tuple(
    Network(label, name, "nas")
    for label, name in (
        ("PNASNet-5", "pnasnet_5_imagenet"),
        ("AmoebaNet-D", "amoebanet_d"),
        ("NASNet-A", "nasnet_a_imagenet"),
        ("DARTS", "darts_imagenet"),
    )
)
WIDE = tuple(
    Network(label, name, "wide")
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
    "cosma": Cosma(start="fixed"),
    "cosma-fs own": CosmaFs("own"),
    "cosma-fs exact": CosmaFs("exact"),
    "cosma-dnc": CosmaDnc(),
    "spill": Spill(),
}
"""In the paper: default or MPMF order (ours is proved optimal; the paper's is HMCOS's on NAS networks). `cosma` starts
from COSMA's own programs, not from lowtide's search."""


@dataclass(frozen=True)
class SpillCell:
    """One scheme on one network at one budget. Sizes are bytes."""

    part: str
    network: str
    label: str
    family: Family
    setting: Setting
    ops: int
    budget: str  # ``"M_R"``, ``"M_H"`` or ``"M_P"``
    capacity_bytes: int
    same: bool  # whether M_R is M_P, so that all three are one budget
    peak_proved: bool  # whether M_P is proved optimal
    scheme: str
    # ``"ok"``, or the limit that ended it (then the best found is given), or why there is nothing.
    status: Literal["ok", "time", "memory", "unsupported", "error"]
    reason: str | None = None
    traffic_bytes: int | None = None
    # What this scheme proved of all orders; `order_bound_bytes` of its own order (or as far as a solver says).
    lower_bound_bytes: int = 0
    order_bound_bytes: int | None = None
    optimal: bool = False
    # Processor time of all threads, the order included, the least of up to three runs where below 0.5 s.
    cpu_seconds: float = 0.0
    # What ``verify --prove`` says of `lower_bound_bytes`; None where there is no bound, or only a solver's.
    proved_again: str | None = None
    published: tuple[Figure, ...] = ()
    counters: dict[str, Any] = field(default_factory=dict)

    @property
    def problem_key(self) -> tuple[str, str, str]:
        """Cells with the same one are of the same problem."""
        return self.label, self.setting, self.budget


@dataclass(frozen=True)
class Subject:
    """A network with what counts of it, and its two ends of memory; bytes."""

    part: str
    network: Network
    setting: Setting
    problem: SpillProblem  # without a limit of memory
    # least_bytes, proved: the least peak without spilling, and whether it is proved.
    least_bytes: int
    proved: bool

    @classmethod
    def of(cls, part: str, network: Network, setting: Setting, graph: Graph, limits: Callable[[], Limits]) -> Subject:
        """Find the least peak."""
        parameters = setting == "parameters"
        counted = one_parameter_each(graph) if parameters else graph
        problem = spill_problem(counted, resolve("strict"), ENDLESS, parameters=parameters)
        model = model_while_used(problem)
        schedule = Exact().schedule(model, limits())
        least = profile(model, schedule.order).peak
        return cls(part, network, setting, problem, least, schedule.lower_bound >= least)

    def capacity(self, budget: str) -> int:
        """Of one of `BUDGETS`."""
        largest, least = self.problem.largest_op[0], self.least_bytes
        return {"M_R": largest, "M_H": (largest + least) // 2, "M_P": least}[budget]

    def cells(
        self, budgets: Sequence[str], schemes: Sequence[str], limits: Callable[..., Limits], watch: Watch
    ) -> Iterator[SpillCell]:
        """Each scheme under each budget."""
        network = self.network
        for budget in budgets:
            capacity = self.capacity(budget)
            for scheme in schemes:
                about: dict[str, Any] = {
                    "part": self.part, "network": network.name, "label": network.label, "family": network.family,
                    "setting": self.setting, "ops": self.problem.steps, "budget": budget, "capacity_bytes": capacity,
                    "same": self.problem.largest_op[0] == self.least_bytes, "peak_proved": self.proved,
                    "scheme": scheme,
                    "published": printed(network.name, "strict", scheme, f"{self.setting} {budget}", "spill"),
                }  # fmt: skip
                label = f"{network.label} {self.setting} {budget} {scheme}"
                at = replace(self.problem, memories=(Memory("fast", capacity),))
                yield measure(at, SCHEMES[scheme], about, partial(limits, report=watch.named(label)))


def measure(
    problem: SpillProblem, method: SpillMethod, about: dict[str, Any], limits: Callable[[], Limits]
) -> SpillCell:
    """Run a scheme, and check its answer as a plan is checked; whatever it raises is a cell. `about`: fields of the
    cell: what the problem is. `limits`: makes those of a run, whose clock starts with it. Raises `KeyboardInterrupt`:
    Ctrl-C, also where the scheme ended by itself because of it."""
    try:
        reason = method.supports(problem)
        if reason is not None:
            return SpillCell(**about, status="unsupported", reason=reason)
        answer, seconds, _ = quickest(lambda: method.spill(problem, limits()), lambda a: a.stopped, MOST_RUNS)
        graph, rules = problem.model.graph, resolve("strict")
        plan = _plan(problem, answer, parameters=about["setting"] == "parameters")
        verify_plan(graph, plan, rules)
        proof = answer.traffic_lower_bound_bytes and answer.proof.kind not in ("none", "solver")
        again = prove(graph, plan, rules, seconds=AGAIN_SECONDS).result if proof else None
    except Exception as error:  # one that fails is a row, and the others go on
        return SpillCell(**about, status="error", reason=one_line(error))
    return SpillCell(
        **about,
        status=answer.stopped if answer.stopped in ("time", "memory") else "ok",
        traffic_bytes=answer.traffic_bytes,
        lower_bound_bytes=answer.traffic_lower_bound_bytes,
        order_bound_bytes=answer.counters.get("ilp_bound_bytes"),
        cpu_seconds=round(seconds, 6),
        proved_again=again,
        counters={k: v for k, v in answer.counters.items() if isinstance(v, int | float | str)},
    )


def _plan(problem: SpillProblem, answer: SpillAnswer, *, parameters: bool) -> Plan:
    """The answer as the checker takes it."""
    from lowtide.api.answer import Answer, assemble
    from lowtide.api.goals.fast_memory import spill_keys
    from lowtide.api.problem import Problem, Rules
    from lowtide.spill.words import Moves

    rules = Rules("strict")
    whole = Problem.of(problem.model.graph, rules.resolve())
    keys = spill_keys(problem, answer, whole, Moves(parameters=parameters))
    return assemble(Answer(whole, answer.order, keys, "spill"), rules)
