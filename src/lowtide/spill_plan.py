"""What a plan says of memories and of what moves between them. Sizes are bytes, steps positions in its `order`."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from lowtide.certificates import CutCertificate

Alignment = Annotated[int, msgspec.Meta(ge=1)]

HOST = "host"
"""Name of the unbounded memory after the last memory of a plan with spilling."""


class PlanMemory(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A memory that the plan uses, fastest first.

    `size_bytes`, what the plan takes of it, and `alignment`, where more than the plan's, may be absent.
    """

    name: str
    capacity_bytes: int
    size_bytes: int | None = None
    alignment: Alignment = 1


class Residency(msgspec.Struct, frozen=True, kw_only=True):
    """In steps `start` to `end - 1`, `tensor` is in `memory`, `offset` bytes from its start."""

    tensor: int
    memory: str
    offset: int
    start: int
    end: int


class PlanMove(msgspec.Struct, frozen=True, kw_only=True, rename={"source": "from", "goal": "to"}):
    """Before the op of `step`, a tensor's storage goes from one memory to another; ``"host"`` is after the last."""

    step: int
    tensor: int
    kind: Literal["spill", "fill"]
    source: str
    goal: str
    bytes: int


class PlanStream(msgspec.Struct, frozen=True, kw_only=True):
    """`tensor` of the user's graph is on the host throughout: slices of it are loads, slices that are concatenated to
    it are stored when they are made, and an op that reads all of it loads it. `stored_bytes` and `loaded_bytes` (for
    the first time) are traffic; what any plan has to load of an input, or write of an output, is not in them."""

    tensor: int
    stored_bytes: int
    loaded_bytes: int


class Spilling(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What moves cost in a plan with spilling; see `lowtide.spill.problem.Semantics` for each.

    `parameters`: constants are in the fast memory while ops read them. `rematerialise`: ops may be recomputed.
    """

    write_once: bool = True
    inputs_have_copy: bool = True
    outputs_written_early: bool = True
    outputs_end_fast: bool = False
    lead: int = 0
    parameters: bool = False
    rematerialise: bool = False


class TrafficPart(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Part of a bound on traffic: `bytes` that every order moves for it. A window is some `ops` (ids); a phase lasts
    from op `begin` to op `end`, which run in turn in every order (None: from the start, to the end). With `peak` it is
    all of the graph: no order's peak without moves is below that, as `cut` shows if it is given, or else a search."""

    bytes: int
    ops: list[int] = []
    begin: int | None = None
    end: int | None = None
    peak: int | None = None
    cut: CutCertificate | None = None


class TrafficProof(msgspec.Struct, frozen=True, kw_only=True):
    """Why no order has less traffic: ``"search"`` (all orders), ``"windows"`` and ``"phases"`` (parts of the graph),
    ``"peak"`` (the bytes live at once in every order), ``"solver"``, or ``"none"``. A search may count on windows in
    its `parts`."""

    kind: str
    states: int = 0
    parts: list[TrafficPart] = []
