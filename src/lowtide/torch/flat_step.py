"""A module of flat tensors around a user's module and loss: what is traced, and what is run in eager mode."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from lowtide.torch.batch import loss_alone, loss_place, step_output
from lowtide.torch.closed import Closed
from lowtide.torch.frozen import Assigned, PythonState

VARIABLE = "loss_variable "
"""How a tensor is called that the loss reads from a variable; with a blank, which no attribute of a user's has."""


def flat_step(
    torch: Any,
    step: tuple[Any, Callable[..., Any] | None, Closed],
    batch: tuple[list[Any], Any, list[int]],
    backward: bool = True,
) -> Any:
    """A module of flat tensors around the user's, which it holds as ``model``, its loss, and what that closes over."""
    model, loss_fn, closed = step
    leaves, spec, places = batch
    fixed = [None if k in set(places) else leaf for k, leaf in enumerate(leaves)]

    class FlatStep(torch.nn.Module):
        """The step as one module."""

        def __init__(self) -> None:
            super().__init__()
            self.model = model
            if isinstance(loss_fn, torch.nn.Module):
                self.loss = loss_fn  # its weights are given ones too
            self.closed = torch.nn.ModuleDict(closed.modules)
            for k, slot in enumerate(closed.slots):
                tensor = slot.read()
                parameter = isinstance(tensor, torch.nn.Parameter)
                (self.register_parameter if parameter else self.register_buffer)(f"{VARIABLE}{k}", tensor)
            self.state = PythonState(torch, self)

        def forward(self, *tensors: Any) -> Any:
            self.state.put_back(traced=True)
            assigned = Assigned(self)
            values = list(fixed)
            for k, tensor in zip(places, tensors, strict=True):
                values[k] = tensor
            parts = torch.utils._pytree.tree_unflatten(values, spec)
            with closed.holding([getattr(self, f"{VARIABLE}{k}") for k in range(len(closed.slots))]):
                output = step_output(self.model, loss_fn, parts)
            assigned.check()
            return self.flat(loss_alone(output) if backward and loss_fn is None else output)

        def flat(self, output: Any) -> Any:
            """Tensors of an output; metrics have no gradient."""
            at = loss_place(torch, output) if backward else -1
            leaves, self.structure = torch.utils._pytree.tree_flatten(output)
            self.plain = [None if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
            self.holes = [k for k, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
            outputs = [leaves[k] for k in self.holes]
            self.loss_at = at
            named = isinstance(output, Mapping) and "loss" in output
            self.losses_apart = 0 if named else sum(v.requires_grad and not v.dim() for v in outputs[1:])
            if backward:
                outputs = [value if k == at else value.detach() for k, value in enumerate(outputs)]
            return tuple(outputs) if len(outputs) != 1 else outputs[0]

    made = FlatStep()
    made.training = model.training
    return made
