"""What counts as memory in a call, and a graph under it: the storages that a goal is to find room for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from lowtide.errors import InputError
from lowtide.graph import Graph
from lowtide.target import BUILT_IN, NONE_FIXED, TORCH, Target, resolve, with_fields

if TYPE_CHECKING:
    from lowtide.analyse.storage import MemoryModel
    from lowtide.plan import Plan


OWN_PLAN_FIXED = (
    "it is compiled by Vela, whose commands hold places in the arena: its own plan stands, and `lowtide check` and "
    "`lowtide verify` judge that one; plan the model before Vela compiles it"
)


@dataclass(frozen=True)
class Rules:
    """What counts as memory in a call: a target, and what is changed of it for this model."""

    target: str | Target = "auto"  # name of a target, a TOML file, or a `Target`; ``"auto"`` goes by the model
    # overwrite_inputs, pin_inputs: whether graph inputs may be overwritten in place, or must not be.
    overwrite_inputs: bool = False
    pin_inputs: bool = False
    # persistent, double_buffered: names of tensors that keep memory of their own throughout, the latter for two of
    # them.
    persistent: Sequence[str] = ()
    double_buffered: Sequence[str] = ()
    # Names of tensors, each with the offset in bytes where it has to lie.
    fixed: Mapping[str, int] = field(default_factory=lambda: dict(NONE_FIXED))

    def __post_init__(self) -> None:
        object.__setattr__(self, "persistent", tuple(dict.fromkeys(self.persistent)))
        object.__setattr__(self, "double_buffered", tuple(dict.fromkeys(self.double_buffered)))
        object.__setattr__(self, "fixed", dict(self.fixed))

    @classmethod
    def of_plan(cls, plan: Plan, target: str | Target = "auto") -> Rules:
        """The rules that a plan was made under; ``"auto"`` takes the built-in target that it names, or the rules of
        another one that it carries. Raises `InputError`: it carries no rules of a target that is not built in, and none
        is given."""
        own: str | Target = plan.target
        if target == "auto" and plan.target.partition(",")[0] not in BUILT_IN:
            if plan.rules is None:
                raise InputError(f"the plan is for target {plan.target!r}; name its file with --target")
            own = plan.rules
        return cls(
            own if target == "auto" else target,
            bool(plan.overwrite_inputs),
            bool(plan.pin_inputs),
            plan.persistent or (),
            plan.double_buffered or (),
            plan.fixed or NONE_FIXED,
        )

    def resolve(self, source: str = "") -> Target:
        """The target for a model of that path. Raises `InputError` as `lowtide.target.resolve`."""
        return resolve(
            self.target,
            source=source,
            overwrite_inputs=self.overwrite_inputs,
            pin_inputs=self.pin_inputs,
            persistent=self.persistent,
            double_buffered=self.double_buffered,
            fixed=self.fixed,
        )

    @property
    def named(self) -> tuple[str, ...]:
        """Every tensor that is named."""
        return (*self.persistent, *self.double_buffered, *self.fixed)


@dataclass(frozen=True)
class Problem:
    """A graph under a target, as the storages that it needs."""

    graph: Graph
    target: Target
    memory: MemoryModel

    @classmethod
    def of(cls, graph: Graph, target: Target) -> Problem:
        """Work out the storages. Raises `InputError` if the model's file holds a plan that no other can replace."""
        from lowtide.analyse.storage import memory_model
        from lowtide.runtimes.registry import runtime_of

        if runtime_of(target).keeps_own_plan(graph):
            raise InputError(OWN_PLAN_FIXED, graph.source or graph.name)
        return cls(graph, target, memory_model(graph, target))

    @cached_property
    def own_order_peak_bytes(self) -> int:
        """Peak of the file order."""
        from lowtide.analyse.liveness import profile

        return profile(self.memory, range(len(self.graph.ops))).peak

    @property
    def place(self) -> str:
        """Where the graph is from, for messages."""
        return self.graph.source or self.graph.name


def aliasing_target(target: Target) -> Target:
    """The rules where tensors may lie in others: of the built-in ``generic`` more than it allows by itself. Raises
    `InputError`: the target's runtime lays tensors out by rules of its own, or copies slices."""
    changes = [] if target.in_place_normalisation else ["in_place_normalisation=true"]
    if target.rule or target.name == TORCH:
        runtime = target.rule or target.name
        message = f"{runtime} copies the operands of a concat and the result of a slice, whatever a plan says"
        raise InputError(
            f"{message}: its kernels write where its own allocator puts them; leave out --allow alias, or write "
            "--target generic"
        )
    if target.name.partition(",")[0] != "generic":
        if target.pieces == "copied":
            fix = 'say pieces = "contiguous" in its file, or'
            raise InputError(f"{target.name} copies slices; {fix} --target {target.name},pieces=contiguous")
        return target
    if "pieces=" not in target.name:
        changes.append("pieces=contiguous")
    return with_fields(target, changes) if changes else target
