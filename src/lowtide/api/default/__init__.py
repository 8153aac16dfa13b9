"""What `lowtide plan MODEL` does without a word more: the least memory for a model where it runs.

    Request  ->  with sizes for what the file leaves free  ->  the runtime of its format  ->  Plan with a Comparison

`onnx` measures in onnxruntime, `predicted` is for every other runtime, and where onnxruntime cannot be asked.
"""

from __future__ import annotations

from collections.abc import Sequence

from lowtide.api.default.request import NO_PROGRESS, Request, Tell
from lowtide.api.exported import given
from lowtide.api.objects import Model, Module
from lowtide.arguments import Example, typed
from lowtide.plan import Plan
from lowtide.sizes import NO_DIMS, Dims, Size
from lowtide.target import Target

__all__ = ["NO_PROGRESS", "Request", "Tell", "plan", "plan_request"]


@typed
def plan(
    model: Model | Module,
    example: Example | None = None,
    *,
    budget: Size | None = None,
    slower: str | float | None = None,
    target: str | Target | None = None,
    dims: Dims = NO_DIMS,
    max_tensor: Size | None = None,
    only: Sequence[str] | None = None,
    without: Sequence[str] = (),
) -> Plan:
    """Find the least memory for a model where it runs, at most 5 % slower than today.

    The order of operators and the offsets of tensors are chosen first. Then the transformations are tried that keep the
    results and that the runtime gains by: in onnxruntime tiles and concat elimination; in TFLM and LiteRT tiles; for
    compilers also recomputation and aliasing; of torch's graphs recomputation (`docs/transformations.md`).
    `Plan.comparison` says what the model takes today and with the plan. `Plan.apply` writes the model, `Plan.save` the
    plan.

    Parameters
    ----------
    model
        What `lowtide.load` takes; or a `torch.nn.Module` with an example.
    example
        For a module: what it is called with, as ``(x,)``.
    budget
        The fastest of the plans tried that fit this many bytes, also ``"256KiB"``: process memory above that of the
        empty process for onnxruntime, kTensorArenaSize for TFLM, the allocator's peak for torch, the arena for a
        compiler.
    slower
        How much longer a run may take than today: ``"10%"`` or 0.1. Without a budget 5 % is allowed.
    target
        Where the model runs, if not where its format says: a target's name or TOML file (`lowtide.research.targets`).
        ``"onnxruntime,portable"``: in onnxruntime on any processor.
    dims
        Sizes of free dimensions; usual ones are assumed for those that are not named, and `Plan.comparison` says so.
    max_tensor
        Bytes that a single tensor may have, also ``"128MiB"``, as accelerators limit their buffers: operators are tiled
        until each tensor between two operators is within it, as far as `slower` allows. Graph inputs, graph outputs
        and weights are not split. `Plan.largest_tensor_bytes` is the largest; above the limit the status is
        ``"over_budget"``.
    only, without
        For research: the transformations that may be tried (`lowtide.rewrites.TRANSFORMATIONS`), or that may not.
        `only` has to name one that is tried for the model where it runs.

    Raises
    ------
    InputError
        The model or an argument is wrong.
    VerificationError
        The plan does not hold: a bug of lowtide's.

    Examples
    --------
    >>> import lowtide
    >>> lowtide.plan("zoo:nasnet_a_cifar").comparison.figure
    'arena'
    """
    asked = Request.of(given(model, example), budget, slower, target, dims, only, without, max_tensor=max_tensor)
    return plan_request(asked)


def plan_request(request: Request, tell: Tell = NO_PROGRESS) -> Plan:
    """What `plan` does, saying how far it is. Raises as it does."""
    request = request.with_sizes()
    request.check_only()
    if request.runs_in_onnxruntime:
        from lowtide.api.default.onnx import plan_onnx

        return plan_onnx(request, tell)
    from lowtide.api.default.predicted import plan_predicted

    return plan_predicted(request, tell)
