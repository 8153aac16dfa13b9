"""Runs the original and the planned torch.export archive in eager mode, on the same random inputs.

Live storages are counted as operators make them and as they die (a dispatch mode and weak references), weights and
inputs apart. What kernels take while they run is not seen. Loading an archive with torch unpickles its example inputs
in torch's weights-only way: run only archives that you trust.

The most bytes of torch's storages that live at once, as operators make them and as they die: a dispatch mode and
weak references. What kernels take while they run is not seen.
"""

from __future__ import annotations

import statistics
import time
import weakref
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from lowtide.errors import InputError, MissingExtraError, VerificationError, first_line
from lowtide.plan import Plan
from lowtide.run.fresh_process import rest
from lowtide.run.timing import in_turn
from lowtide.run_reports import OutputComparison, Timing, TorchRunReport


def run_torch(
    original: Path,
    planned: Path,
    plan: Plan,
    *,
    seed: int = 0,
    inputs: int = 3,
    shapes: Sequence[Sequence[int] | None] = (),
    timed: bool = False,
) -> TorchRunReport:
    """Run two archives on the same random inputs and compare what comes out.

    `shapes`: of the graph's inputs, for which it was planned; without them, or where there is another number, the
    example's. `timed`: whether to run both in turn, for `TorchRunReport.timing`. Raises `InputError`: torch cannot load
    or run the original, or it holds no example inputs. Raises `MissingExtraError`: torch is not installed. Raises
    `VerificationError`: ``run``: torch does not load or run the planned archive.
    """
    try:
        torch = import_module("torch")
    except ImportError:
        raise MissingExtraError("torch", "torch", "lowtide verify --run on a .pt2 archive") from None
    try:
        before = torch.export.load(original)
        feeds = [_draw(torch, before.example_inputs, shapes, seed + k) for k in range(inputs)]
        original_runs = [_run(torch, before, feed) for feed in feeds]
        repeated = _run(torch, before, feeds[0])
    except InputError as error:
        raise InputError(str(error), str(original)) from None
    except Exception as error:  # torch raises whatever its parts do
        raise InputError(f"torch cannot run it: {first_line(error)}", str(original)) from None
    try:
        after = torch.export.load(planned)
        planned_runs = [_run(torch, after, feed) for feed in feeds]
    except Exception as error:  # torch raises whatever its parts do
        raise VerificationError("run", f"{planned}: torch fails: {first_line(error)}") from None
    return TorchRunReport(
        tuple(
            _compare(torch, i, [a[i] for a, _ in original_runs], [b[i] for b, _ in planned_runs])
            for i in range(len(repeated[0]))
        ),
        inputs,
        all(_same(torch, a, b) for a, b in zip(original_runs[0][0], repeated[0], strict=True)),
        _names(after) == _in_order(_names(before), plan),
        max(peak for _, peak in original_runs),
        max(peak for _, peak in planned_runs),
        plan.peak_bytes,
        _in_turn(torch, (before, after), feeds[0]) if timed else None,
    )


def _in_turn(torch: Any, programs: Sequence[Any], feed: Any) -> Timing:
    """Both programs one after the other, in turn."""
    arguments, keywords = feed

    def timed(module: Any) -> float:
        start = time.perf_counter()
        module(*arguments, **keywords)
        seconds = time.perf_counter() - start
        rest()
        return seconds

    with torch.no_grad():
        seconds = in_turn([partial(timed, program.module()) for program in programs])
    original, planned = map(statistics.median, seconds)
    return Timing(len(seconds[0]), original, planned)


def _draw(torch: Any, example: Any, shapes: Sequence[Sequence[int] | None], seed: int) -> Any:
    """Inputs like the example's: floats afresh, integers within the example's range."""
    if example is None:
        raise InputError("it holds no example inputs; export it again with them")
    generator = torch.Generator().manual_seed(seed)
    tensors = [t for t in torch.utils._pytree.tree_leaves(example) if isinstance(t, torch.Tensor)]
    planned = iter(shapes if len(shapes) == len(tensors) else [None] * len(tensors))

    def like(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        shape = next(planned) or leaf.shape
        if leaf.is_floating_point() or leaf.is_complex():
            return torch.randn(shape, generator=generator).to(leaf.dtype)
        low, high = (int(leaf.min()), int(leaf.max())) if leaf.numel() else (0, 0)
        return torch.randint(low, high + 1, shape, generator=generator).to(leaf.dtype)

    return torch.utils._pytree.tree_map(like, example)


def _run(torch: Any, program: Any, feed: Any) -> tuple[list[Any], int]:
    """Outputs, and the most bytes live at once."""
    leaves = torch.utils._pytree.tree_leaves
    module = program.module()
    arguments, keywords = feed
    held = [t for t in (*leaves(feed), *module.parameters(), *module.buffers()) if isinstance(t, torch.Tensor)]
    constants = (t for t in leaves(program.constants) if isinstance(t, torch.Tensor))

    def call() -> Any:
        with torch.no_grad():
            return module(*arguments, **keywords)

    returned, most = storages_peak(call, (*held, *constants))
    return [t.clone() for t in leaves(returned) if isinstance(t, torch.Tensor)], most


def _compare(torch: Any, number: int, original: list[Any], planned: list[Any]) -> OutputComparison:
    equal = all(_same(torch, a, b) for a, b in zip(original, planned, strict=True))
    alike = equal or any(a.shape != b.shape or a.is_complex() for a, b in zip(original, planned, strict=True))
    apart = (
        None
        if alike
        else max(float((a.double() - b.double()).abs().max()) for a, b in zip(original, planned, strict=True))
    )
    return OutputComparison(
        f"output {number}", equal, apart, all(_same(torch, original[0], other) for other in original[1:])
    )


def _same(torch: Any, a: Any, b: Any) -> bool:
    def raw(t: Any) -> Any:
        return t.contiguous().reshape(-1).view(torch.uint8)

    return a.dtype == b.dtype and a.shape == b.shape and torch.equal(raw(a), raw(b))


def _names(program: Any) -> list[str]:
    return [n.name for n in program.graph.nodes if n.op == "call_function" and "getitem" not in str(n.target)]


def _in_order(names: list[str], plan: Plan) -> list[str]:
    return [names[i] for i in plan.order] if len(names) == len(plan.order) else []


def storages_peak(function: Callable[[], Any], uncounted: Iterable[Any] = ()) -> tuple[Any, int]:
    """What a function returns, and the most bytes of storages that lived at once while it ran. `uncounted` are
    tensors that are there before. Only what operators return is seen."""
    leaves = import_module("torch.utils._pytree").tree_leaves
    tensor = import_module("torch").Tensor
    known = {t.untyped_storage()._cdata for t in uncounted}
    live: dict[int, int] = {}
    now = most = 0

    def gone(key: int) -> None:
        nonlocal now
        now -= live.pop(key, 0)

    class Count(import_module("torch.utils._python_dispatch").TorchDispatchMode):
        """Sees every operator's results."""

        def __torch_dispatch__(self, operator: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            nonlocal now, most
            returned = operator(*args, **(kwargs or {}))
            for value in leaves(returned):
                storage = value.untyped_storage() if isinstance(value, tensor) else None
                if storage is None or storage._cdata in known or storage._cdata in live:
                    continue
                live[storage._cdata] = storage.nbytes()
                now += storage.nbytes()
                weakref.finalize(storage, gone, storage._cdata)
            most = max(most, now)
            return returned

    with Count():
        returned = function()
    return returned, most
