"""What no build of TFLM needs less than, for a file: what may be called impossible.

A target says which build is meant, and may leave things open: whose kernels run, whether the interpreter records,
whether enums are small. What is said to be impossible holds for every build that it leaves open.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from lowtide.analyse.liveness import largest_single_op
from lowtide.analyse.storage import memory_model
from lowtide.graph import Graph
from lowtide.read.tflite.model import TfliteModel
from lowtide.rules.tflm.libraries import LIBRARIES
from lowtide.rules.tflm.rule import TflmRule
from lowtide.runtimes.tflm.builds import I386, SHORT_ENUMS, X86_64, Build, build_for
from lowtide.runtimes.tflm.persistent import arena_parts
from lowtide.target import Target


@dataclass(frozen=True, slots=True)
class Least:
    """Bytes that are needed at least: `tail_bytes` beyond the least head, and `planning` in all, whatever the head is.

    `head`: of any plan under any kernels that the target leaves open; None: the plan's own lower bound holds.
    """

    tail_bytes: int
    planning_bytes: int
    head_bytes: int | None


def least_parts(model: TfliteModel, graph: Graph, target: Target) -> Least:
    """Least over the builds that a target leaves open.

    Where a kernel may go on without memory that it was refused (ELU of floats makes no table), that is left out.
    """
    tails, planning = [], []
    for build in _open(target):
        parts = arena_parts(model, graph, graph.own_order, build)
        tails.append(parts.persistent_bytes - parts.optional_bytes)
        planning.append(parts.planning_bytes - parts.optional_bytes)
    return Least(min(tails) - _spared_scratch(graph, target), max(0, min(planning)), _least_head(graph, target))


def least_apart(model: TfliteModel, graph: Graph, target: Target, lower_bound: int) -> tuple[int, int]:
    """The same for an arena for the head and one for the tail, for plans whose head has a lower bound."""
    heads, tails = [], []
    for build in _open(target):
        parts = arena_parts(model, graph, graph.own_order, replace(build, recording=False, pip=False, apart=True))
        heads.append(parts.planning_bytes)
        tails.append(parts.persistent_bytes - parts.optional_bytes)
    least = _least_head(graph, target)
    head = lower_bound if least is None else min(lower_bound, least)
    return max(head - _spared_scratch(graph, target), min(heads)), max(0, min(tails))


def _least_head(graph: Graph, target: Target) -> int | None:
    """Least head under any kernels that the target leaves open; None: the plan's own lower bound holds."""
    if target.kernels != "any":
        return None
    return largest_single_op(memory_model(graph, replace(target, kernels="reference")))


def _open(target: Target) -> Iterator[Build]:
    """The builds that a target may mean, of those that are known."""
    meant = build_for(target)
    yield meant
    if target.interpreter == "recording" and target.pointer == 64 and target.kernels == "reference":
        return
    recording = target.interpreter == "recording"
    kernels = LIBRARIES if target.kernels == "any" else (meant.kernels,)
    abis = [X86_64] if target.pointer == 64 and target.interpreter != "auto" else [I386, SHORT_ENUMS]
    for library in kernels:
        for abi in abis:
            yield Build(abi, recording, False, library, "none" if target.kernels == "any" else target.simd)


def _spared_scratch(graph: Graph, target: Target) -> int:
    """Scratch that may be less under kernels that the target leaves open: the least head counts the reference's."""
    if target.kernels != "any":
        return 0
    rule = TflmRule("reference", pointer=4)
    return max((rule.workspace(graph, op) for op in graph.ops), default=0)
