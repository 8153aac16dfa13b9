"""What the same step takes in eager mode: the figure that plans are compared with.

Eager is run on fake tensors, which have sizes and no memory: forward, ``loss.backward()``, every gradient in ``.grad``,
then ``optimizer.step()`` by its own code, foreach and fused too. Storages are counted as operators make them and as
they are freed, so saved tensors and Python's own references count as they do in eager. Workspace of kernels is added
where it was measured.

::

    eager       forward, backward, all gradients live; then optimizer.step()
    file order  the same operators; each parameter is updated inside the backward pass, and its gradient is freed

Parameters, buffers, the batch and the optimizer's state are there before the call and do not count.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from lowtide.torch.any_optimizer import run_update, without_state

Kernel = tuple[str, tuple[tuple[int, ...], ...]]  # an operator's name and the shapes of its results

Event = tuple[Kernel, tuple[tuple[int, int, int], ...]]
"""An operator that ran, and the storages that it made: number, bytes, which of its results."""


@dataclass
class EagerRun:
    """A forward and a backward pass as operators that make storages, and storages that are freed: `events` holds an
    `Event` for each operator, and the number of each storage where it is freed. `before_update`: how many operators run
    before the optimizer's; None: its code does not run on fake tensors, or there is none."""

    events: list[Event | int] = field(default_factory=list)
    before_update: int | None = None

    def live_bytes(
        self, sizes: Mapping[Kernel, Sequence[int]], workspace: Mapping[Kernel, int]
    ) -> tuple[list[int], int]:
        """Live bytes while each operator runs, workspace and results included; and at the end. `sizes`: bytes of the
        storages of an operator's results where they were measured: some kernels return a scalar in memory of the
        size of their input."""
        live: dict[int, int] = {}
        now, heights = 0, []
        for event in self.events:
            if isinstance(event, int):
                now -= live.pop(event)
                continue
            kernel, made = event
            for number, nominal, index in made:
                measured = sizes.get(kernel, ())
                live[number] = max(nominal, measured[index] if index < len(measured) else 0)
                now += live[number]
            heights.append(now + workspace.get(kernel, 0))
        return heights, now


def eager_run(
    torch: Any,
    step: Any,
    batch: Sequence[Any],
    *,
    backward: bool,
    optimizer: Any = None,
    originals: Mapping[int, Any] | None = None,
) -> EagerRun | None:
    """Run a module of flat tensors in eager mode on fake tensors; None where that fails. `step`: the module around
    the user's model and loss (`lowtide.torch.flat_step`). `optimizer`: what updates the module's parameters after
    the backward pass; None: nothing. `originals`: by `id` of a tensor of the module, the optimizer's tensor that it
    replaces."""
    leaves, found = torch.utils._pytree.tree_leaves, EagerRun()
    live: set[int] = set()
    numbers = itertools.count()

    def gone(key: int, number: int) -> None:
        live.discard(key)
        found.events.append(number)

    class Record(import_module("torch.utils._python_dispatch").TorchDispatchMode):
        """Sees every operator's results, and when their storages are freed."""

        def __torch_dispatch__(self, operator: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            returned = operator(*args, **(kwargs or {}))
            results = [value for value in leaves(returned) if isinstance(value, torch.Tensor)]
            made = []
            for index, storage in enumerate([value.untyped_storage() for value in results]):
                if storage._cdata not in live:
                    live.add(storage._cdata)
                    number = next(numbers)
                    made.append((number, storage.nbytes(), index))
                    weakref.finalize(storage, gone, storage._cdata, number).atexit = False
            name = f"{operator.namespace}.{operator._schema.name.rpartition('::')[2]}.{operator._overloadname}"
            found.events.append(((name, tuple([tuple(value.shape) for value in results])), tuple(made)))
            return returned

    def storages(tensors: Iterable[Any]) -> set[int]:
        return {tensor.untyped_storage()._cdata for tensor in leaves(list(tensors)) if isinstance(tensor, torch.Tensor)}

    with suppress(Exception), _faked(torch, step, batch) as (fakes, made, mode):
        own = {key: id(tensor) for key, tensor in (originals or {}).items()}
        other = _fake_optimizer(torch, optimizer, {own.get(key, key): tensor for key, tensor in made.items()})
        live |= storages(made.values()) | storages(() if other is None else other.state.values())
        with Record():
            with mode:
                output = step(*fakes)
                if backward:
                    # ``loss.backward()`` is called outside of the autocast that the forward pass runs under
                    with torch.autocast("cpu", enabled=False), torch.autocast("cuda", enabled=False):
                        (output[step.loss_at] if isinstance(output, tuple) else output).backward()
            passes = list(found.events)
            if other is not None:
                with suppress(Exception):
                    run_update(torch, other)
                    count_before = sum(not isinstance(event, int) for event in passes)
                    return EagerRun(list(found.events), count_before)
        return EagerRun(passes)
    return None


def _fake_optimizer(torch: Any, optimizer: Any, fakes: Mapping[int, Any]) -> Any:
    """The optimizer over the fake tensors in place of its parameters, with the state of each; None where its code does
    not run on these."""
    if optimizer is None:
        return None
    other = without_state(optimizer)
    groups = [[fakes[id(p)] for p in group["params"] if id(p) in fakes] for group in optimizer.param_groups]
    with suppress(Exception):
        other.param_groups = [
            {**group, "foreach": _runs_foreach(group), "params": tensors} if "foreach" in group else
            {**group, "params": tensors}
            for group, tensors in zip(optimizer.param_groups, groups, strict=True)
        ]  # fmt: skip
        for tensor in itertools.chain(*groups):
            tensor.grad = torch.zeros_like(tensor)
        run_update(torch, other)
        for tensor in itertools.chain(*groups):
            tensor.grad = None
        return other
    return None


def _runs_foreach(group: Mapping[str, Any]) -> bool:
    """Whether torch updates a group's parameters all at once: by default it does so on CUDA."""
    if group["foreach"] is None and not group.get("fused"):
        default = import_module("torch.optim.optimizer")._default_to_fused_or_foreach
        return default(group["params"], group.get("differentiable", False), use_fused=False)[1]
    return bool(group["foreach"])


@contextmanager
def _faked(torch: Any, step: Any, batch: Sequence[Any]) -> Iterator[tuple[list[Any], dict[int, Any], Any]]:
    """Fake tensors instead of parameters, buffers and batch for a while: the batch, all of them by the `id` of the real
    one, and the mode in which they are used."""
    kind = import_module("torch._subclasses.fake_tensor")
    slots = [slot for module in step.modules() for slot in (module._parameters, module._buffers)]
    before = [dict(slot) for slot in slots]
    real = [tensor for slot in before for tensor in slot.values() if tensor is not None]
    modes = [tensor.fake_mode for tensor in (*real, *batch) if isinstance(tensor, kind.FakeTensor)]
    mode = modes[0] if modes else kind.FakeTensorMode(allow_non_fake_inputs=True)
    made: dict[int, Any] = {}

    def fake(tensor: Any) -> Any:
        if tensor is None:
            return None
        if id(tensor) not in made:
            with mode, torch.no_grad():
                like = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=tensor.device)
            if isinstance(tensor, torch.nn.Parameter):
                like = torch.nn.Parameter(like, requires_grad=tensor.requires_grad)
            made[id(tensor)] = like
        return made[id(tensor)]

    try:
        for slot in slots:
            slot.update({name: fake(tensor) for name, tensor in slot.items()})
        yield [fake(tensor) for tensor in batch], made, mode
    finally:
        for slot, tensors in zip(slots, before, strict=True):
            slot.update(tensors)
