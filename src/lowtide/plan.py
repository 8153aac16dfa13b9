"""The plan: what lowtide decided, what it costs, and the certificate of how good that is. And its JSON.

The keys are those of the plan file (`schema()` gives its JSON Schema). Sizes are bytes, steps are
positions in `order`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec

from lowtide.certificates import Certificate
from lowtide.comparison import Comparison, OptimizedFrom, Weights
from lowtide.errors import InputError
from lowtide.files import read_all
from lowtide.fission_plan import StepFission
from lowtide.names import brief
from lowtide.profiles import PlanProfile
from lowtide.rewrites import (
    VERSIONS,
    Allowed,
    Exactness,
    PlanCost,
    PlanHalos,
    PlanLoop,
    PlanPart,
    PlanSlice,
    ProvedOver,
    Recomputation,
    RegionBound,
    Rewrite,
    Swapping,
)  # fmt: skip
from lowtide.schemas import json_schema
from lowtide.sizes import Dims
from lowtide.spill_plan import Alignment, PlanMemory, PlanMove, PlanStream, Residency, Spilling, TrafficProof
from lowtide.target import Target

Status = Literal["ok", "over_budget", "impossible", "unproved"]
Stopped = Literal["proof", "complete", "time", "memory", "interrupt", "stalled"]
Sure = Literal["exact", "at least", "at most"]

WallTime = Annotated[float, msgspec.Meta(ge=0)]

EXIT_STATUS: dict[Status, int] = {"ok": 0, "over_budget": 3, "impossible": 4, "unproved": 6}
"""Exit status of a command by what it reached."""

INTERRUPTED = 130
"""Exit status of a command that Ctrl-C ended, whatever it reached."""


class PlanOp(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An operator of the planned graph. `origin`: of a tile, its operator in the graph before this level."""

    id: int
    name: str
    type: str
    recompute_of: int | None = None
    origin: list[int] | None = None
    part: PlanPart | None = None


class PlanTensor(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A tensor of the planned graph; `alias_of` includes the views that the target makes.

    A tensor that a cut made is a slice of one of the user's tensors, or holds `numbers`, the literal operand of a tile.
    `dtype` and `shape` (``"1x32x32x16"``, empty for a scalar) are the model's.
    """

    id: int
    name: str
    size: int
    kind: str
    alias_of: int | None = None
    dtype: str | None = None
    shape: str | None = None
    piece: PlanSlice | None = None
    numbers: list[int] | None = None


class PlanRound(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An earlier level: the graph that it gives, in its own order, which the next level tiles."""

    ops: list[PlanOp]
    tensors: list[PlanTensor]
    order: list[int]
    rewrites: list[Rewrite]


class PlanConflict(msgspec.Struct, frozen=True, kw_only=True):
    """Why a plan is over budget: tensors (one for each storage) and workspaces (op ids) that cannot share the room.

    `step` is one at which all are there with `needed_bytes` together, sizes rounded up to the alignment; None if each
    step's bytes fit and it is proved that no placement does. `minimal`: without any one of them the others fit.
    """

    tensors: list[int]
    workspaces: list[int]
    step: int | None
    available_bytes: int
    needed_bytes: int
    minimal: bool


class Seconds(msgspec.Struct, frozen=True, kw_only=True):
    """Wall time of each stage, in seconds."""

    read: WallTime = 0.0
    transform: WallTime = 0.0
    schedule: WallTime = 0.0
    allocate: WallTime = 0.0
    verify: WallTime = 0.0
    total: WallTime = 0.0


class RuntimeParts(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of `runtime_arena_bytes` under tflm: the smallest kTensorArenaSize of an arena aligned to `alignment`.

    It is `planned` (the head; the most `scratch` of an op is in it) plus `persistent` (the tail), or, if that is more,
    `planning`: what TFLM takes for a moment while it makes its plan. `exact`: to the byte for the `build` of the
    target; else at least that much is needed, and `unknown` names the operators whose kernels' needs are not known.
    `own_planned`: the head that TFLM makes of the unmodified file, by its own planner or with the offsets in the file.
    Lower bounds over all builds that the target leaves open: `least_beside` on what is added to the least head of any
    plan (below zero where other kernels may take less scratch), `least_planning` on the sum, and `least_head` on that
    head, where it may be below the plan's lower bound: kernels that are not named may let more overlap.
    `kernels`: under whose kernels the plan holds. `decided_by`: whose kernels these tiles are of, those that need the
    largest arena; `arenas`: what each library needs, where none is named, and `beyond` what builds of them need that
    the figure is not for. `bodies`: for each op that runs other subgraphs, most bytes of theirs at once; they are in
    the head, and no part of the peak.
    """

    planned: int
    scratch: int
    persistent: int
    planning: int
    alignment: Alignment
    exact: bool
    own_planned: int | None = None
    unknown: list[str] = []
    least_beside: int | None = None
    least_planning: int = 0
    least_head: int | None = None
    kernels: str = "reference"
    build: str = ""
    decided_by: str = ""
    arenas: dict[str, int] = {}
    beyond: dict[str, int] = {}
    bodies: dict[str, int] = {}


class RuntimeFigure(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes that a runtime takes by its defaults for the unmodified file, and with the plan (None: not known)."""

    runtime: str
    what: str
    default_bytes: int
    planned_bytes: int | None
    sure: Sure = "exact"


class RuntimeArenas(msgspec.Struct, frozen=True, kw_only=True):
    """In which of a plan's memories TFLM's head and tail lie; one array holds both if that is the same one.

    The memories' `size_bytes` are what is declared there. `least_head_bytes`, `least_tail_bytes`: what no plan and no
    build that the target leaves open needs less than for arrays of their own.
    """

    head_memory: str
    tail_memory: str
    least_head_bytes: int
    least_tail_bytes: int

    @property
    def has_two_arrays(self) -> bool:
        """Whether head and tail are two arrays."""
        return self.head_memory != self.tail_memory


class Hole(msgspec.Struct, frozen=True):
    """Free bytes of an arena from `offset` on; `above` and `below` name what bounds it, None at the arena's start."""

    offset: int
    bytes: int
    below: str | None
    above: str


class ArenaLost(msgspec.Struct, frozen=True):
    """Where an arena loses bytes.

    Attributes
    ----------
    gap_bytes
        What the arena has above the bytes live at the highest step, sizes rounded up to the alignment.
    top, top_bytes
        What ends where the arena does: a tensor's name, or "workspace of ..."; and its size.
    step, op
        Step of its life at which the largest hole below it is smallest (of equal ones the highest), and the op there.
    free_bytes, hole_count, holes, text
        What is free below it then, in how many holes, the largest of those, largest first; all of it in one sentence.
    """

    gap_bytes: int
    top: str
    top_bytes: int
    step: int
    op: str
    free_bytes: int
    hole_count: int
    holes: list[Hole]
    text: str


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """Those figures of `Plan.search` that lowtide itself reads; methods, of other packages too, put more there.

    Attributes
    ----------
    states, variables, ops_moved
        How much the search took, whichever the method counts; and ops out of the file order.
    slow_bytes, slow_lower_bound_bytes
        Of a plan for several memories: bytes in slow ones, and the least that any assignment of this order has there.
    arena_lost
        Where an arena above its bound loses bytes.
    compute_seconds, transfer_seconds, stall_seconds, hidden_bytes
        Of a plan with moves whose bandwidth is known.
    unaliased_peak_bytes, aliases_least
        Of a plan with tensors in others: the peak without; whether no choice of aliases needs less, in any order.
    """

    states: int | None = None
    variables: int | None = None
    ops_moved: int | None = None
    slow_bytes: int = 0
    slow_lower_bound_bytes: int = 0
    arena_lost: ArenaLost | None = None
    compute_seconds: float = 0.0
    transfer_seconds: float = 0.0
    stall_seconds: float | None = None
    hidden_bytes: int = 0
    unaliased_peak_bytes: int | None = None
    aliases_least: bool = False


SHOWN = (
    "graph target method ops own_order_peak_bytes peak_bytes lower_bound_bytes optimal arena_bytes required_bytes "
    "traffic_bytes memories status stopped"
)
"""What a plan in an interpreter shows of itself."""


def exit_status(status: Status, *, interrupted: bool) -> int:
    """What a command exits with: an interrupt first, then what it reached."""
    return INTERRUPTED if interrupted else EXIT_STATUS[status]


def least_required(lower_bound_bytes: int, parts: RuntimeParts | None) -> int:
    """Bytes that no order needs less than: the lower bound, and what a runtime with such parts adds to it."""
    if parts is None or parts.least_beside is None:
        return lower_bound_bytes
    head = lower_bound_bytes if parts.least_head is None else min(lower_bound_bytes, parts.least_head)
    return max(head + parts.least_beside, parts.least_planning)


class Plan(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A plan file. `docs/contract.md` says what each key means; sizes are bytes. `workspace_offsets` (op id to offset)
    is where the arena holds each op's workspace; only ops that have one.

    With `memories`, `residency` says where tensors are and `offsets` is absent; `workspace_memories` (op id to name)
    says in which memory a workspace is, and without moves `arena_bytes` is the sum of what the memories hold. With
    `moves` the plan spills: sizes are of the fast memory, `optimal` is of the traffic (see `traffic_proof`); `spilling`
    says what was counted, `streams` which tensors stay on the host, `cost` what ops take by a file.

    `runtime_arena_bytes`, under a runtime with an arena of its own, is the block in which that fits this order. With
    `runtime_unknown`, types of ops of whose kernels it is not known what they take, that is at least needed.
    `runtime_parts` says what that block consists of under tflm, and `runtime_arenas`, with several memories, where its
    parts are: `offsets` are then the head's, `arena_bytes` is the head, and nothing has a residency. `runtime_figures`:
    what the runtime takes today and with this plan. `conflict`: why it is over budget, if known.

    `overwrite_inputs`, `pin_inputs`, `persistent`, `double_buffered`, `fixed` (name to offset): where they change it.

    With tiles among the `rewrites`, `ops`, `tensors`, `order` and the bound are of the tiled graph, and `exactness`
    says what outputs may differ by. `rounds` has the levels of tiles before the last, the first one first: each
    describes the graph that it gives, and its rewrites, origins and slices refer to the graph of the level before (the
    first one to the user's graph). `rewrites`, `ops` and `tensors` of the plan then refer to the graph of the last
    round. With `loops` each loop is an op of type RowLoop, with `fission` a region of tiles is one op of type Parts,
    and the order and the bound are of the graph with these. `halos` says what recomputed rows add. With `allow`, a
    budget is impossible only by what `recomputation` or `fission` proves for all plans. `profile`: what is in memory at
    each step.

    `rules`: all fields of the target (`lowtide.Target`) that the plan was made under. `verify` takes them where no
    built-in target has the name `target`. `dims`: sizes of the model's free dimensions. `optimized_from`: the plan is
    of the file that onnxruntime's optimiser makes of the user's model. `weights`: where its session has the weights, if
    not in the file. `largest_tensor_bytes`: where `rules` limit it. `comparison`: what the model takes today, as its
    user runs it, and with the plan.
    """

    version: int
    lowtide: str
    graph: str
    model_sha256: str
    target: str
    method: str
    seed: int
    status: Status
    stopped: Stopped
    ops: list[PlanOp]
    folded: list[int]
    tensors: list[PlanTensor]
    order: list[int]
    own_order_peak_bytes: int
    peak_bytes: int
    lower_bound_bytes: Annotated[int, msgspec.Meta(ge=0)]
    optimal: bool
    certificate: Certificate
    in_place: list[tuple[int, int]]
    alignment: Alignment
    required_bytes: int
    seconds: Seconds
    overlap: list[tuple[int, int, int]] | None = None
    arena_bytes: int | None = None
    arena_lower_bound_bytes: int | None = None
    arena_optimal: bool | None = None
    offsets: dict[str, int] | None = None
    workspace_offsets: dict[str, int] | None = None
    workspace_memories: dict[str, str] | None = None
    memories: list[PlanMemory] | None = None
    residency: list[Residency] | None = None
    moves: list[PlanMove] | None = None
    traffic_bytes: int | None = None
    traffic_lower_bound_bytes: int | None = None
    traffic_proof: TrafficProof | None = None
    streams: list[PlanStream] | None = None
    spilling: Spilling | None = None
    rewrites: list[Rewrite] | None = None
    rounds: list[PlanRound] | None = None
    halos: PlanHalos | None = None
    loops: list[PlanLoop] | None = None
    recomputation: Recomputation | None = None
    swapping: Swapping | None = None
    exactness: Exactness | None = None
    allow: list[Allowed] | None = None
    proved_over: ProvedOver | None = None
    region_bound: RegionBound | None = None
    fission: StepFission | None = None
    cost: PlanCost | None = None
    reserve_bytes: int | None = None
    budget_bytes: int | None = None
    largest_tensor_bytes: int | None = None
    runtime_arena_bytes: int | None = None
    runtime_parts: RuntimeParts | None = None
    runtime_arenas: RuntimeArenas | None = None
    runtime_figures: list[RuntimeFigure] | None = None
    runtime_unknown: list[str] | None = None
    conflict: PlanConflict | None = None
    overwrite_inputs: bool | None = None
    pin_inputs: bool | None = None
    persistent: list[str] | None = None
    double_buffered: list[str] | None = None
    fixed: dict[str, int] | None = None
    search: dict[str, Any] | None = None
    rules: Target | None = None
    dims: dict[str, int | list[int]] | None = None
    profile: PlanProfile | None = None
    optimized_from: OptimizedFrom | None = None
    weights: Weights | None = None
    comparison: Comparison | None = None

    def __repr__(self) -> str:
        return brief(self, SHOWN)

    @property
    def exit_status(self) -> int:
        """Exit status of the command that made it: 0, 3 over budget, 4 impossible, 6 unproved, 130 interrupted."""
        return exit_status(self.status, interrupted=self.stopped == "interrupt")

    @property
    def figures(self) -> Figures:
        """What `search` says, as far as lowtide knows it."""
        try:
            return msgspec.convert(self.search or {}, Figures)
        except msgspec.ValidationError:  # a method of another package means something else by a name
            return Figures()

    @property
    def all_rewrites(self) -> list[Rewrite]:
        """The rewrites of all levels: the rounds, then the last."""
        return [*(r for one in self.rounds or () for r in one.rewrites), *(self.rewrites or ())]

    def sizes(self, dims: Dims) -> Dims:
        """Sizes of the model's free dimensions: `dims`, or, if a call says nothing of them, those of the plan."""
        return dims or self.dims or dims

    @property
    def above_limit(self) -> int:
        """Bytes by which the largest tensor is above the limit of the plan's rules."""
        return max(0, (self.largest_tensor_bytes or 0) - (0 if self.rules is None else self.rules.max_tensor))

    @property
    def least_required_bytes(self) -> int:
        """Bytes that no order needs less than, without the reserve: the lower bound, and what a runtime adds to it."""
        return least_required(self.lower_bound_bytes, self.runtime_parts)

    @property
    def kernels(self) -> str:
        """Under whose kernels a plan for TFLM holds; empty for others."""
        return "" if self.runtime_parts is None else self.runtime_parts.kernels

    def offset_of(self, tensor_id: int) -> int | None:
        """Offset in the arena of a tensor, or None if it has none."""
        return None if self.offsets is None else self.offsets.get(str(tensor_id))

    if TYPE_CHECKING:

        def apply(self, /, model: str | Path, out: str | Path, *, copy_external: bool = False) -> None:
            """Write `model` in this plan's order to `out`. It is `lowtide.apply`, which `lowtide/__init__.py` adds."""

        def report(
            self,
            /,
            path: str | Path | None = None,
            *,
            before: Plan | None = None,
            trace: str | Path | None = None,
            svg: str | Path | None = None,
            overlay: str | Path | None = None,
            png: str | Path | None = None,
        ) -> None:
            """Write the picture of this plan: `lowtide.report`, added as `apply` is."""

        def plot(self, /, axes: Any = None) -> Any:
            """Draw live bytes with matplotlib: `lowtide.api.reporting.plot`, added as `apply` is."""

        def to_pandas(self, /) -> Any:
            """What is in memory as a table: `lowtide.api.reporting.to_pandas`, added as `apply` is."""

    def save(self, path: str | Path) -> None:
        """Write the plan file, completely or not at all. Raises `InputError` if it cannot be written."""
        from lowtide.outputs import Outputs

        with Outputs() as outputs:
            outputs.write(path, self.to_json())

    def to_json(self, *, indent: int = 1) -> bytes:
        """The plan file's bytes; the same plan gives the same bytes."""
        return msgspec.json.format(msgspec.json.encode(self, order="deterministic"), indent=indent) + b"\n"


def from_json(data: bytes, place: str = "plan") -> Plan:
    """Read a plan file.

    Raises
    ------
    InputError
        Not JSON, a key missing or of the wrong type, or a version that is not in `VERSIONS`.
    """
    try:
        plan = msgspec.json.decode(data, type=Plan)
    except msgspec.ValidationError as error:
        fix = "write it again with `lowtide research plan --plan`"
        raise InputError(f"not a lowtide plan: {error}; {fix}", place) from None
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise InputError(f"not JSON: {error}", place) from None
    if plan.version not in VERSIONS:
        raise InputError(f"plan version {plan.version} is not known; this lowtide reads {VERSIONS}", place)
    return plan


def read_plan(path: str | Path) -> Plan:
    """Read a plan from a file. Raises `InputError` as `from_json`, and when the file cannot be read."""
    file = Path(path)
    if file.suffix.lower() in (".onnx", ".tflite", ".pt2"):
        own = file.with_suffix(".plan.json")
        raise InputError(f"this is a model, not a plan; give its plan{f', {own}' if own.exists() else ''}", str(path))
    return from_json(read_all(path, "plan"), str(path))


def schema() -> dict[str, Any]:
    """JSON Schema of the plan file."""
    return json_schema(Plan)
