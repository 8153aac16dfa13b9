"""What a model takes today, as its user runs it, and what it takes with a plan: types alone."""

from __future__ import annotations

from typing import Annotated

import msgspec


class ProcessMemory(msgspec.Struct, frozen=True, kw_only=True):
    """What an onnxruntime process takes with a plan, as predicted, in bytes above those before it opened the model.

    Attributes
    ----------
    session_bytes
        A session of one small op, and code that a usual model runs.
    nodes_bytes
        What the session keeps for its nodes and for places in the arena, and what kernels take from the heap.
    weights_bytes
        The weights, but for those of which kernels make copies.
    prepacked_bytes
        These copies.
    tensors_bytes
        The arena of the tensors.
    values_bytes
        Inputs of a run, which the caller has. The outputs are tensors: the caller reads them where they are.
    loading_bytes
        What opening the session takes more than all this.
    """

    session_bytes: int
    nodes_bytes: int
    weights_bytes: int
    prepacked_bytes: int
    tensors_bytes: int
    values_bytes: int
    loading_bytes: int

    @property
    def total_bytes(self) -> int:
        """All of it."""
        return sum(getattr(self, name) for name in self.__struct_fields__)


class SmallestSizes(msgspec.Struct, frozen=True, kw_only=True):
    """What a file for several sizes takes at the smallest, as measured.

    Attributes
    ----------
    sizes, largest
        The smallest and the largest sizes of the dimensions that the file leaves free. It is planned for the largest.
    today_bytes, planned_bytes, slowdown, outputs
        As in `Comparison`.
    good
        Whether it takes no more memory than today there, is as fast as was allowed, and gives the same outputs.
    """

    sizes: dict[str, int]
    largest: dict[str, int]
    today_bytes: int
    planned_bytes: int
    slowdown: float
    outputs: str
    good: bool


class Comparison(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A model as its user runs it today, and with the plan. Sizes are bytes, times are seconds of a run.

    Attributes
    ----------
    model
        Name of the user's file.
    runtime
        Who runs it, and how: ``"onnxruntime 1.32.0, default options"``.
    figure
        What the bytes are: ``"process memory"``, ``"kTensorArenaSize"``, ``"allocator peak"`` or ``"arena"``.
    today_bytes, planned_bytes
        Before and after.
    measured
        Whether bytes and seconds were measured, each model in a fresh process; else they are predicted.
    base_bytes
        Of process memory: what the process took before it opened the model. It is not in the other figures.
    tensors_bytes, tensors_bound_bytes
        Of process memory: the arena of the tensors in it, and the lower bound of their peak.
    today_seconds, planned_seconds
        The median run; None if it is not known.
    slowdown
        How many times longer a run takes: the median over pairs of runs that followed each other; or as predicted.
    outputs
        ``"equal"`` bit for bit, ``"rounding"``: within what the runtime's own kernels differ by; empty: not compared.
    inputs_run
        Number of random inputs for which outputs were compared.
    predicted
        What the process takes with the plan, part by part.
    sizes
        Shape of each graph input, as ``"1x3x640x640"``, where the file leaves sizes free.
    assumed
        Whether lowtide chose those sizes.
    today_tensor_bytes
        The largest tensor between operators of the model as it runs today, where the call limits such tensors.
    smallest
        Of a file for several sizes: what it takes at the smallest. All else here is of the largest.
    better
        Whether the plan takes less than today (for a compiler: no more), or keeps a limit of single tensors that
        today's does not, and is no slower than was allowed.
    """

    model: str
    runtime: str
    figure: str
    today_bytes: int
    planned_bytes: int
    measured: bool = False
    base_bytes: int | None = None
    tensors_bytes: int | None = None
    tensors_bound_bytes: int | None = None
    today_seconds: float | None = None
    planned_seconds: float | None = None
    slowdown: float | None = None
    outputs: str = ""
    inputs_run: int = 0
    predicted: ProcessMemory | None = None
    sizes: dict[str, str] = {}
    assumed: bool = False
    today_tensor_bytes: int | None = None
    smallest: SmallestSizes | None = None
    better: bool = True


class Weights(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where onnxruntime has a model's weights.

    Attributes
    ----------
    mapped
        Whether they are in a file of their own, ``OUT.data``, which onnxruntime maps instead of copying it.
    prepacked
        Whether kernels keep copies of them in the layout that suits them.
    """

    mapped: bool = False
    prepacked: bool = True


class OptimizedFrom(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The user's model, where a plan is of the file that onnxruntime's optimiser makes of it.

    Attributes
    ----------
    sha256
        Of the user's file.
    runtime, level
        Who optimised it, as ``"onnxruntime 1.32.0"``, and at which level: ``"all"`` or ``"extended"``.
    dims
        Sizes of free dimensions, which are fixed in the optimised file. Those in the plan's `dims` stay free there.
    block
        Channels in a block of its convolutions' layout, which only some processors have; 0: it has none, and any CPU
        runs it.
    layout_at_load
        Whether onnxruntime chooses the layout of convolutions as it opens the file, and with it an order of its own.
    """

    sha256: str
    runtime: str
    level: str
    dims: dict[str, int] = {}
    block: Annotated[int, msgspec.Meta(ge=0)] = 0
    layout_at_load: bool = False
