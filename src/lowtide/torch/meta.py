"""A model on the meta device, traced as if it were on the CPU.

torch traces on tensors without memory anyway. On the meta device itself it loses gradients without a word: some losses
(`nll_loss`) have a kernel there and no derivative of it. And a plan that names that device would be of no use.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any


@contextmanager
def as_on_cpu(torch: Any, step: Any, batch: Sequence[Any]) -> Iterator[tuple[list[Any], dict[int, Any]]]:
    """Put tensors without memory that say they are on the CPU where those of the meta device are, for a while.

    Parameters
    ----------
    step
        The module, whose parameters and buffers are put back at the end.
    batch
        Tensors.

    Yields
    ------
    The batch, and by `id` of each stand-in the tensor that it replaces.
    """
    slots = [slot for module in step.modules() for slot in (module._parameters, module._buffers)]
    own = [tensor for slot in slots for tensor in slot.values() if tensor is not None]
    if not any(tensor.is_meta for tensor in (*own, *batch)):
        yield list(batch), {}
        return
    mode = import_module("torch._subclasses.fake_tensor").FakeTensorMode(allow_non_fake_inputs=True)
    made: dict[int, Any] = {}
    replaced: dict[int, Any] = {}

    def instead(tensor: Any) -> Any:
        if tensor is None or not tensor.is_meta:
            return tensor
        if id(tensor) not in made:
            with mode:
                like = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="cpu")
                if isinstance(tensor, torch.nn.Parameter):
                    like = torch.nn.Parameter(like, requires_grad=tensor.requires_grad)
            made[id(tensor)] = like
            replaced[id(like)] = tensor
        return made[id(tensor)]

    before = [dict(slot) for slot in slots]
    try:
        for slot in slots:
            slot.update({name: instead(tensor) for name, tensor in slot.items()})
        yield [instead(tensor) for tensor in batch], replaced
    finally:
        for slot, tensors in zip(slots, before, strict=True):
            slot.update(tensors)
