"""What running a model in its own runtime showed: types alone, for who runs it, who checks a plan, and who prints."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from lowtide.comparison import Comparison
from lowtide.names import brief
from lowtide.rewrites import Exactness

ROUNDING = 1e-4  # share of an output's largest magnitude by which other kernels, and sums in another order, may move it
_ROUNDING_OF = {"float16": 2e-2, "bfloat16": 2e-1}
"""The same in models with tensors of half precision, which have 11 and 8 significant bits."""


def rounding(dtypes: Iterable[str | None]) -> float:
    """Share of an output's largest magnitude by which other kernels may move it in a model of tensors of these types.

    >>> rounding(["float32", "float16", None])
    0.02
    """
    return max((_ROUNDING_OF.get(dtype or "", ROUNDING) for dtype in dtypes), default=ROUNDING)


@dataclass(frozen=True, slots=True)
class OutputComparison:
    """One output over all inputs: equal bit by bit, or how far apart; vacuous: it never changes.

    `largest` is the largest magnitude of the original's, `exactness` what the plan promises, `rounding` how far from it
    as a share of `largest` what is not `bits` may be.
    """

    name: str
    equal: bool
    max_abs_difference: float | None
    vacuous: bool
    largest: float = 0.0
    exactness: Exactness = "bits"
    rounding: float = ROUNDING

    @property
    def as_promised(self) -> bool:
        """Whether it differs by no more than the plan says."""
        if self.exactness == "bits" or self.max_abs_difference is None:
            return self.equal
        return self.max_abs_difference <= self.rounding * self.largest


@dataclass(frozen=True)
class ComparedRuns:
    """Every output of two runs, compared."""

    outputs: tuple[OutputComparison, ...]

    @property
    def equal(self) -> bool:
        """Whether every output is equal bit by bit."""
        return all(o.equal for o in self.outputs)

    @property
    def vacuous(self) -> bool:
        """Whether no output depends on the inputs: then equal outputs show nothing."""
        return all(o.vacuous for o in self.outputs)


@dataclass(frozen=True, slots=True)
class NodeMemory:
    """What onnxruntime measured when one node had run."""

    op: int  # op id in the plan
    name: str
    type: str
    in_use_bytes: int  # sizes in use beyond what was before the first node; the graph's inputs are not in it
    # The plan's footprint at that step, without workspace; None for the original file and for unknown steps.
    planned_bytes: int | None


@dataclass(frozen=True, slots=True)
class FileRun:
    """Memory of one file's first run, node by node in the order in which they ran."""

    path: str
    peak_bytes: int  # most bytes of tensors in use at once, without what kernels take while they run
    # Most bytes that the arena allocated at once: in its chunks, which may be larger, and with workspace.
    mark_bytes: int
    held_bytes: int  # what the arena took from the system, without weights
    nodes: tuple[NodeMemory, ...]
    grown_at: str = ""  # the node at which the arena first took more than one block; empty if none is known


@dataclass(frozen=True, slots=True)
class FreshPair:
    """Two models in a fresh process each, run in turn.

    `original_bytes`, `planned_bytes`: most memory of the process above the `base_bytes` before it opened the model.
    `slowdown`: how many times longer a run of the planned one takes, the median over pairs of runs.
    """

    original_bytes: int
    planned_bytes: int
    base_bytes: int
    slowdown: float


@dataclass(frozen=True, slots=True)
class Timing:
    """Two models, the original by its runtime's defaults and the planned one as planned.

    `original_seconds`, `planned_seconds`: medians of `runs` runs each, in turn. `original_peak_bytes`,
    `planned_peak_bytes`: most memory of the process, the interpreter and the runtime included; None where both are in
    one process. `pairs`: what each pair of fresh processes showed; none where both are in one.
    """

    runs: int
    original_seconds: float
    planned_seconds: float
    original_peak_bytes: int | None = None
    planned_peak_bytes: int | None = None
    pairs: tuple[FreshPair, ...] = ()


@dataclass(frozen=True, repr=False)
class RunReport(ComparedRuns):
    """What running both files showed.

    Attributes
    ----------
    outputs
        Every graph output, in the file's order.
    original, planned
        Memory as onnxruntime measured it, each file in its order; without nodes if its profile does not tell (before
        1.24).
    exact
        The planned file in the block that the plan gives onnxruntime's arena; None where it gives none.
    shipped
        The original in onnxruntime's own order, with its own optimisations and memory reuse: its defaults.
    arena_bytes
        The block that the plan gives onnxruntime's arena, to compare with `exact.held_bytes`.
    input_bytes
        Bytes of the graph's inputs, which onnxruntime does not count.
    runs
        Number of different random inputs.
    unmodified
        The original in onnxruntime's own order with its memory reuse, but without its optimiser: what
        `Plan.runtime_figures` says of its defaults; None where the plan says nothing of it.
    timing
        The original by onnxruntime's defaults and the planned file in turn; None if that was not requested.
    deterministic
        Whether the original gives the same bits twice; where it does not, differences mean nothing.
    order_kept
        Whether the planned file's nodes ran in the plan's order, without `Shape` nodes.
    level
        The level of onnxruntime's optimiser at which lowtide made the original; empty: lowtide did not.
    comparison
        What the plan says of both processes, to compare with `timing.pairs`; None if it says nothing.
    """

    original: FileRun
    planned: FileRun
    shipped: FileRun
    exact: FileRun | None
    arena_bytes: int | None
    input_bytes: int
    runs: int
    deterministic: bool
    order_kept: bool
    unmodified: FileRun | None = None
    timing: Timing | None = None
    level: str = ""
    comparison: Comparison | None = None

    def __repr__(self) -> str:
        return brief(self, "outputs runs deterministic order_kept arena_bytes input_bytes")


@dataclass(frozen=True, slots=True)
class MeasuredArena:
    """Bytes of TFLM's arena: non-persistent, persistent, both, and the smallest arena with which it starts."""

    head_bytes: int
    tail_bytes: int
    total_bytes: int
    smallest_arena_bytes: int


@dataclass(frozen=True)
class RuntimeRun:
    """What one runtime showed.

    `deterministic`: the original gives the same bits twice. `original`, `planned`: TFLM's arena; None elsewhere.
    `original_bytes`, `planned_bytes`: LiteRT's arena without delegates, temporary tensors included. `refused`: why it
    runs neither file. `timing`: both files in turn; None if that was not requested.
    """

    runtime: str
    outputs: tuple[OutputComparison, ...] = ()
    deterministic: bool = True
    original: MeasuredArena | None = None
    planned: MeasuredArena | None = None
    original_bytes: int | None = None
    planned_bytes: int | None = None
    refused: str = ""
    timing: Timing | None = None


@dataclass(frozen=True, slots=True)
class PackageArena:
    """What the pip package was predicted to take for a file, in bytes, and whether that is exact; else it is enough,
    or, with `unknown` kernels, needed at least.

    The plan may be for another build, for firmware's or for a library's kernels, which cannot be run here.
    """

    head_bytes: int
    arena_bytes: int
    exact: bool
    build: str
    unknown: bool = False


@dataclass(frozen=True, repr=False)
class TfliteRunReport:
    """What all runtimes showed.

    `planned_bytes`, `required_bytes`: TFLM's head and arenas in the plan, for the `build` that it speaks of.
    `predicted`: the same of the package that was run, and `unmodified` that of the unmodified file.
    """

    runtimes: tuple[RuntimeRun, ...]
    inputs: int
    planned_bytes: int | None
    required_bytes: int | None
    predicted: PackageArena | None = None
    build: str = ""
    unmodified: PackageArena | None = None

    def __repr__(self) -> str:
        return brief(self, "outputs inputs deterministic planned_bytes required_bytes build")

    @property
    def outputs(self) -> tuple[OutputComparison, ...]:
        """Outputs of every runtime that gives the same bits twice."""
        return tuple(o for r in self.runtimes if r.deterministic for o in r.outputs)

    @property
    def deterministic(self) -> bool:
        """Whether some runtime gives the same bits twice."""
        return any(r.deterministic and not r.refused for r in self.runtimes)

    @property
    def litert(self) -> RuntimeRun | None:
        """LiteRT's part, without delegates."""
        return next((r for r in self.runtimes if r.runtime == "litert" and not r.refused), None)

    @property
    def tflm(self) -> RuntimeRun | None:
        """TFLM's part."""
        return next((r for r in self.runtimes if r.runtime == "tflm" and not r.refused), None)


@dataclass(frozen=True)
class TorchRunReport(ComparedRuns):
    """What running both archives showed. `outputs`: every tensor that the programs return, numbered."""

    runs: int  # number of different random inputs
    deterministic: bool  # whether the original gives the same bits twice
    order_kept: bool  # whether the planned archive's nodes are the original's in the plan's order
    # original_peak_bytes, planned_peak_bytes: most bytes of storages live at once in each, without weights and inputs.
    original_peak_bytes: int
    planned_peak_bytes: int
    plan_bytes: int = 0  # the plan's peak
    timing: Timing | None = None  # both in turn; None if that was not requested


@dataclass(frozen=True)
class LoopRunReport(ComparedRuns):
    """What replaying a plan with loops showed, in an array of the arena's size, with the tensors that `runtime` made.

    `positions` of ops ran in loops and `compared_bytes` were read, over all `runs`; `deterministic`: the replay is.
    """

    runtime: str
    runs: int
    arena_bytes: int
    positions: int
    compared_bytes: int
    deterministic: bool = True


AnyRunReport = RunReport | TfliteRunReport | TorchRunReport | LoopRunReport
"""Of an ONNX file, a .tflite file, a torch.export archive, a plan with loops."""
