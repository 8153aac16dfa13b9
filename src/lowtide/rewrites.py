"""What a plan says was changed of the graph: recomputed ops, cut ops, new ops and tensors, aliases; and what that costs
in time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec

VERSIONS = (1, 2)
"""Versions of the plan file. A plan that cuts is version 2: its ops and tensors are not the user's own."""

Exactness = Literal["bits", "kernel", "sum"]
"""What the outputs of a changed graph may differ by: nothing; what another kernel for another shape rounds
differently; what adding up in another order does."""

Rows = tuple[int, int]
"""Rows ``[first, end)`` of a dimension or an axis."""


Digest = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
"""A sha256."""


class PlanPart(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an op that a cut made does, reads and makes: tensor ids, at the positions that the format numbers.

    ``"part"``: `rows` of an `axis` of its origin, as `lowtide research probe` numbers them; ``"slice"``, ``"join"``,
    ``"merge"`` and ``"pad"`` take a slice, concatenate slices, add up two parts of a sum, and put padding around a
    slice.
    """

    role: Literal["part", "slice", "join", "merge", "pad"]
    inputs: list[int | None]
    outputs: list[int]
    axis: int | None = None
    rows: Rows | None = None


class PlanSlice(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A slice of tensor `of` of the user's graph: the rows `box` of each of its dimensions.

    Rows below 0 or after the last one are padding. `terms`: for a partial sum, the ranges of the reduced axis that it
    adds up, in rising order and not adjacent; None: the slice is no partial sum. `sure`: for a tile of a resize, the
    rows that are equal to those of the tensor; other rows of the box may differ; None: all are equal.
    """

    of: int
    box: list[Rows]
    terms: list[Rows] | None = None
    sure: list[Rows] | None = None


class Replaced(msgspec.Struct, frozen=True, kw_only=True):
    """Ops `readers` read another tensor in the place of `tensor`."""

    tensor: int
    readers: list[int]


class Recompute(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="recompute", tag_field="kind"):
    """Op `op` recomputes op `of`, after it in file order; `readers` read from it what `of` makes as `replaced`.

    `outputs` are its tensors, in the order of those of `of`; `more`: which others of them are read, and by which ops.
    """

    op: int
    of: int
    replaced: int
    outputs: list[int]
    readers: list[int]
    more: list[Replaced] = []


TRANSFORMATIONS = (
    "tile",
    "recompute-halos",
    "nest-tiles",
    "concat",
    "alias",
    "recompute",
    "merge",
    "offload",
    "row-streaming",
)
"""The names of what a plan may change (docs/transformations.md)."""

ALLOWED = (*TRANSFORMATIONS, "unmaterialised", "accumulate")
"""These, and settings of tiling and of concat elimination that only research has."""

RENAMED = {
    "fission": "tile",
    "halos": "recompute-halos",
    "rounds": "nest-tiles",
    "seams": "concat",
    "unjoined": "unmaterialised",
    "swap": "offload",
    "loops": "row-streaming",
}
"""Former names, and what they are called now."""

ALL = "all"
"""The word that means all of these that a model, its target and a goal have."""

Allowed = Annotated[str, msgspec.Meta(pattern=f"^({'|'.join(ALLOWED)})$")]
"""One of them."""

CountedAs = Literal["cost", "flops", "bytes", "nanoseconds"]
"""What an op's cost is: what the graph says (`Op.cost`), floating-point operations, or bytes read and made; with
transfers, nanoseconds (`Swapping.op_nanoseconds`)."""

COUNTED: dict[CountedAs, str] = {
    "cost": "cost, as the graph says it",
    "flops": "floating-point operations, as no op has a cost",
    "bytes": "bytes read and made, as no op has a cost",
    "nanoseconds": "time",
}
"""The same in words."""


class SwapLoad(msgspec.Struct, frozen=True, kw_only=True):
    """A load: op `op` makes `output`, a copy of the stored tensor; `readers` then read `output`, not `instead` (the
    tensor itself, or a recomputed one)."""

    op: int
    output: int
    instead: int
    readers: list[int]


class Swap(msgspec.Struct, frozen=True, kw_only=True, tag="swap", tag_field="kind"):
    """Op `store` copies tensor `tensor` to the host, or what another run of its op makes that it reads; `loads` bring
    it back.

    In the plan's order a store is at its end: it begins when the tensor is made and the stores before are done, and no
    op after it begins before its end. A load is at its begin, after the loads before, and an op that reads what it
    loads waits for its end.
    """

    tensor: int
    store: int
    loads: list[SwapLoad]


class Swapping(msgspec.Struct, frozen=True, kw_only=True):
    """How the time of transfers between memory and the host is predicted, and what they amount to.

    Bytes per second each way; what each op of the user's graph takes, in nanoseconds, in file order; and the sha256 of
    the cost file with these times. Then bytes that the plan stores and loads, and nanoseconds in which no op runs.
    """

    to_host: float
    from_host: float
    op_nanoseconds: list[int]
    cost_file: Digest
    stored_bytes: int = 0
    loaded_bytes: int = 0
    waiting_nanoseconds: int = 0


PriceArc = tuple[int | None, int | None, int | None, int]
"""``(tensor, from op, to op, units)``. A tensor's arc leads from its storage's first maker (None: there from the start)
to an op that reads it (None: kept to the end); without a tensor it leads from an op to one before it, or is an op's
time: from None to the op, or from the op to None."""


class PriceCertificate(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Whatever the order, recomputation costs at least ``(flow + p (touched - budget)) / q`` units, if a byte has the
    price ``price = (p, q)``, p / q units, while `op` runs for the first time, which touches that many bytes. So within
    that cost in units there is no peak below ``touched + (flow - q cost) / p``.

    With transfers ``waits = (a, b)`` are q times the weights of time that is waited before `op` and after it; ``p <= a
    / to_host + b / from_host`` in bytes for each unit, and ``max(a, b) (all units - those of op)`` is taken from the
    flow (docs/proofs.md, section 16).

    A unit is a part ``1 / scale`` of what is counted. `flow` shows it by max-flow min-cut duality: from what an op
    makes goes at most ``q - b`` times its units and what comes through what it reads, through a tensor's storage at
    most p times its bytes; an op's time is an arc of at most ``|a - b|`` times its units, to the op where a is larger,
    else from it.
    """

    op: int
    price: tuple[int, int]
    scale: float
    flow: list[PriceArc]
    waits: tuple[int, int] = (0, 0)


class Recomputation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What recomputation costs: all ops `once`, and as the plan runs them; `lower_bound`: no plan within the budget, in
    whatever order, costs less, as `certificate` shows (None: only that each op runs once).

    Where the cost has a bound, `max_overhead` is the part that may be added: no plan within that, in whatever order,
    has a peak below `least_peak_bytes`, as `peak_certificate` shows (None: a single op needs as much).
    """

    counted: CountedAs
    once: float
    planned: float
    lower_bound: float
    certificate: PriceCertificate | None = None
    max_overhead: float | None = None
    least_peak_bytes: int | None = None
    peak_certificate: PriceCertificate | None = None

    @property
    def overhead(self) -> float:
        """Fraction of the cost that recomputation adds: 0.05 for five per cent."""
        return self.planned / self.once - 1 if self.once else 0.0

    @property
    def least_overhead(self) -> float:
        """What no plan within the budget adds less than."""
        return self.lower_bound / self.once - 1 if self.once else 0.0


class Sums(msgspec.Struct, frozen=True, kw_only=True, tag="sums", tag_field="kind"):
    """Op `op`, a norm or a mean, is computed of sums over rows: `ops`, in turn, take the place of it and of the
    reshapes around it that are `gone` (it among them), and make `tensors`, their constants too;
    `docs/transformations.md` says which."""

    op: int
    gone: list[int]
    ops: list[int]
    tensors: list[int]


class Section(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Tensor `tensor` holds columns `columns` of a product, all its rows, in its own shape; with a `perm`, reshaped to
    `shape` and transposed by it before."""

    tensor: int
    columns: Rows
    shape: list[int] = []
    perm: list[int] = []


class Sections(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="sections", tag_field="kind"):
    """Op `op`, a product, is computed section by section: it, the sum with a bias `add` and the ops that took sections
    out of what they make are `gone`; `ops`, in turn, take their place and make `tensors`, constants too, which are
    columns of those of the file."""

    op: int
    add: int | None = None
    gone: list[int]
    sections: list[Section]
    ops: list[int]
    tensors: list[int]


class CutOp(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Op `op` is cut along `axis`; when stripe i is over, the rows below ``ends[i]`` have run.

    Stripe i runs those from ``ends[i - 1]`` on, or with `begins` those from ``begins[i]`` on, some of them recomputed.
    """

    op: int
    axis: int
    ends: list[int]
    begins: list[int] | None = None


class CutRegion(msgspec.Struct, frozen=True, kw_only=True, tag="cut", tag_field="kind"):
    """Ops that run in parts, one stripe after another, each stripe in the order of the list."""

    ops: list[CutOp]


class PlanHalos(msgspec.Struct, frozen=True, kw_only=True):
    """Multiplications of convolutions and products: all of the model's, and those that recomputed rows add."""

    macs: int
    extra_macs: int

    @property
    def overhead(self) -> float:
        """Part that is added: 0.05 for five per cent."""
        return self.extra_macs / self.macs if self.macs else 0.0


class SplitOp(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Op `op` runs in tiles along `axis`, each of the rows up to one of `ends`.

    What it sums over the axis is added up in the order `turns`, positions in `ends` (left out: in that order); with
    `into`, each tile is added to the sum of those before by the op that computes it. A concat here is not run: rows
    of its result are its operands.
    """

    op: int
    axis: int
    ends: list[int]
    turns: list[int] | None = None
    into: bool = False


class ConcatElimination(msgspec.Struct, frozen=True, kw_only=True, tag="seams", tag_field="kind"):
    """Concats that are eliminated: the ops that read from them run on each of their operands."""

    ops: list[SplitOp]


class TensorAlias(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="alias", tag_field="kind"):
    """Tensor `tensor` is allocated inside tensor `of`, `offset` bytes from its start, because of op `op`: the concat
    that reads it, the slice or split that takes it, the view whose source it is, or the op that writes over it.

    With a `pitch`, its rows are apart: row i is `run` bytes, `offset + i * pitch` from the start.
    """

    tensor: int
    of: int
    op: int
    offset: int
    run: int | None = None
    pitch: int | None = None


class Split(msgspec.Struct, frozen=True, kw_only=True, tag="split", tag_field="kind"):
    """Tensors that no op materialises: their producers and consumers are cut along the same dimension, and tiles go
    from one to the other."""

    tensors: list[int]


LoopMerge = Literal["concat", "sum", "max", "min"]
"""How a result of a loop is materialised: position by position, or by adding up, or as the maximum or the minimum."""


class PlanLineBuffer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A circular line buffer: `slots` positions of a tensor of `bytes` bytes each, position p in slot p modulo `slots`.

    It begins at `offset` in the arena; with `over`, it has the memory and slots of that tensor, position by position
    (all positions, where that tensor is materialised), and no offset of its own.
    """

    name: str
    slots: int
    bytes: int
    offset: int | None = None
    over: int | None = None


class PlanSum(msgspec.Struct, frozen=True, kw_only=True):
    """Where a result is added up before it is rounded: bytes, and where they begin in the arena."""

    bytes: int
    offset: int | None


class PlanLoop(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Ops that run together by row streaming; op `op` of the plan takes their place. All keys are ids, as text.

    The last of `ops` drives: its `parts` positions are requested one after the other, and an op runs until what the
    next position of its reader needs is made (`docs/transformations.md`). `along`: of each op the axis of its access,
    as `lowtide research probe` numbers them, or two: then a position is a pixel, the second axis inside the first.
    `axis`: of each tensor that is kept or written position by position, its dimensions along these. `merge`: how what
    leaves is materialised. `keep`: its line buffers, `sums`: accumulators, `kept_bytes`: of all of these where some
    line buffers share memory, as they are never live at once. `streamed`: names of graph inputs that the caller streams
    in. `over`: the tensor that may share bytes of an input which dies in the loop: a result, or a tensor of the plan
    that holds all line buffers and accumulators. `behind`: bytes that it has to begin below that input, at least.
    """

    op: int
    ops: list[int]
    along: dict[str, list[int]]
    axis: dict[str, list[int]]
    parts: int
    merge: dict[str, LoopMerge]
    keep: dict[str, PlanLineBuffer] = {}
    sums: dict[str, PlanSum] = {}
    kept_bytes: int | None = None
    streamed: dict[str, str] = {}
    over: int | None = None
    behind: dict[str, int] = {}


class PlanCost(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the ops take by a cost file: predicted, not measured.

    `overhead` is the fraction by which the plan takes longer than the model uncut, `max_overhead` what was allowed,
    `cost_file` the file's sha256. Numbers of ops: those whose time was `measured`, is `between` measured ones, or was
    predicted from operations and bytes (`roofline`).
    """

    predicted_seconds: float
    uncut_seconds: float
    overhead: float
    cost_file: Digest
    level: Literal["extended", "all"]
    device: str
    threads: Annotated[int, msgspec.Meta(ge=1)]
    measured: int
    between: int
    roofline: int
    max_overhead: float | None = None


ProvedOver = Literal["orders", "orders_and_joined_regions", "orders_and_regions"]
"""What a peak is proved optimal over: all orders of the plan's graph; also all tilings whose regions materialise their
results (`RegionBound.joined`); or also all tilings of any kind."""


class RegionBound(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Whatever is cut, in whatever order: `bytes` are needed where `op` of the user's graph runs, untiled or tiled
    (None: at the start or the end). `lowtide verify` re-proves it from the graph."""

    bytes: int
    op: int | None
    joined: bool = False
    """Whether it holds only for plans that materialise what one region makes for others."""


Rewrite = Sections | Sums | Recompute | Swap | CutRegion | ConcatElimination | Split | TensorAlias


def recomputes_ops(rewrites: Sequence[Rewrite] | None) -> bool:
    """Whether ops are recomputed, and none is cut, so that each op of a plan is one of the user's."""
    return any(isinstance(r, Recompute) for r in rewrites or ()) and not in_parts(rewrites)


def in_parts(rewrites: Sequence[Rewrite] | None) -> bool:
    """Whether ops are cut, so that a plan's ops are not the user's own."""
    return any(isinstance(r, CutRegion | ConcatElimination | Sections) for r in rewrites or ())
