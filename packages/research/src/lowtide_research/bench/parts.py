"""Parts of the papers' tables: which networks, and which methods under which settings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

from lowtide.analyse.storage import MemoryModel
from lowtide.schedule.exact import Exact
from lowtide.schedule.method import Method, Schedule
from lowtide.schedule.order import Rpo
from lowtide.schedule.registry import make
from lowtide.stop import Limits
from lowtide_research.schedule.hmcos import configurations
from lowtide_research.schedule.serenity import rows as serenity_rows
from lowtide_research.schedule.zhong.fusion import Fusion, fuse
from lowtide_research.schedule.zhong.method import Zhong, printed
from lowtide_research.schedule.zhong.problem import problem_of
from lowtide_research.zoo.published.cases import (
    CELLS,
    HMCOS,
    HRNET,
    NASNET_MOBILE,
    OTHER_RANDWIRE,
    RANDWIRE,
    ZHONG,
    ZHONG_RANDWIRE,
    Case,
)

METHODS = ("own", "rpo", "lpmf", "serenity", "hmcos", "zhong", "exact")


class Run(NamedTuple):
    """A method under a setting; `printed` is the setting under which its published figures stand."""

    method: Method
    setting: str = ""
    printed: str = ""


OPTIMUM = Run(Exact(), "lowtide")  # what the settings of another method are to be compared with

Runs = Callable[[Case, MemoryModel, Sequence[str]], Iterator[Run]]


@dataclass(frozen=True)
class Part:
    """A table of results."""

    title: str  # what it shows
    cases: tuple[Case, ...]  # its networks
    runs: Runs  # what is run on each; given the case, its graph under its target, and the names of requested methods
    own_result: bool = False  # see `measure`


def by_method(case: Case, model: MemoryModel, methods: Sequence[str]) -> Iterator[Run]:
    """Each method with its defaults, SERENITY and Zhong et al. as the case's paper compared them."""
    own: dict[str, Method] = {"serenity": case.serenity, "zhong": case.zhong}
    for name in methods:
        yield Run(own.get(name) or make(name))


def _hmcos_configurations(case: Case, model: MemoryModel, methods: Sequence[str]) -> Iterator[Run]:
    for number, method in configurations().items():
        yield Run(method, setting := f"configuration {number}", setting)
    yield OPTIMUM


def _serenity_rows(case: Case, model: MemoryModel, methods: Sequence[str]) -> Iterator[Run]:
    for setting, method in serenity_rows().items():
        yield Run(method, setting, setting)


def settings_4(model: MemoryModel, method: Zhong, seconds: float = 60.0) -> dict[str, Zhong]:
    """Origin, partition, with fusion, with pruning, with both. The parts are as many as after fusion in every row."""
    fused = fuse(problem_of(model), Limits(seconds), bound=method.bound)
    parts = method.parts or -(-fused.n // method.part_nodes)
    base = replace(method, parts=parts)
    return {
        "origin": replace(base, fusion="none", pruning=False, partition="none"),
        "partition": replace(base, fusion="none", pruning=False),
        "partition+fusion": replace(base, fusion="both", pruning=False),
        "partition+pruning": replace(base, fusion="none", pruning=True),
        "all": replace(base, fusion="both", pruning=True),
    }


def _zhong_4(case: Case, model: MemoryModel, methods: Sequence[str]) -> Iterator[Run]:
    for setting, method in settings_4(model, printed(part_nodes=20)).items():
        yield Run(method, setting, setting)


def _zhong_5(case: Case, model: MemoryModel, methods: Sequence[str]) -> Iterator[Run]:
    for kind in ("naive", "heuristic", "multilevel"):
        yield Run(printed(partition=kind, parts=6), kind, kind)
    yield OPTIMUM


def _zhong_6(case: Case, model: MemoryModel, methods: Sequence[str]) -> Iterator[Run]:
    for parts in range(1, 7):
        yield Run(printed(parts=parts, formulation="cumulative"), setting := f"parts {parts}", setting)
    yield OPTIMUM


def _zhong_9(case: Case, model: MemoryModel, methods: Sequence[str]) -> Iterator[Run]:
    kinds: tuple[Fusion, ...] = ("none", "monotonic", "general", "both")
    for kind in kinds:
        yield Run(FusionOnly(kind), kind, kind)


PARTS = {
    "main": Part(
        "every method on the papers' networks", (*HMCOS, *RANDWIRE, *OTHER_RANDWIRE, *ZHONG, *CELLS), by_method
    ),
    "hmcos-3": Part("HMCOS, Table 3: its configurations 1 to 7", HMCOS, _hmcos_configurations),
    "serenity-2": Part("SERENITY, Table 2, without rewriting", (Case("swiftnet_cells", unit="KB"),), _serenity_rows),
    "zhong-4": Part(
        "Zhong et al., Table IV: what fusion and pruning do, in the paper's variables",
        (NASNET_MOBILE, ZHONG_RANDWIRE[0], HRNET[0]),
        _zhong_4,
        own_result=True,
    ),
    "zhong-5": Part("Zhong et al., Table V: each partition in six parts, once", ZHONG, _zhong_5, own_result=True),
    "zhong-6": Part(
        "Zhong et al., Table VI: one part to six, in cumulative variables",
        (HRNET[0], NASNET_MOBILE),
        _zhong_6,
        own_result=True,
    ),
    "zhong-9": Part("Zhong et al., Figure 9: ops before fusion, by each theorem, by both", ZHONG, _zhong_9),
}


@dataclass(frozen=True)
class FusionOnly:
    """Fusion without anything after it, to count ops (Figure 9); the order is reverse post-order."""

    name: ClassVar[str] = "zhong"

    fusion: Fusion = "both"

    def supports(self, model: MemoryModel) -> str | None:
        """As `Zhong`."""
        return Zhong().supports(model)

    def schedule(self, model: MemoryModel, limits: Limits) -> Schedule:
        """Fuse and forget."""
        fused = fuse(problem_of(model), limits, fusion=self.fusion)
        return Schedule(Rpo().schedule(model, limits).order, counters={"ops_after": fused.n})
