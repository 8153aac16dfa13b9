"""The loss that a training step returns: a tensor whose `backward` says that the backward pass was done."""

from __future__ import annotations

from functools import cache
from typing import Any

from lowtide.errors import InputError
from lowtide.torch.capture import library

MESSAGE = (
    "the step has run the backward pass already; drop .backward(). Gradients are in .grad, or, with optimizer=, the "
    "parameters are updated. Scale the loss (GradScaler, accumulation) inside loss_fn"
)


@cache
def _kind() -> Any:
    """The class; torch is imported by then."""
    torch = library()

    class Loss(torch.Tensor):
        """A loss without a graph. What is computed from it is of this class too, so that a scaled loss says the same;
        it is saved as a plain tensor."""

        def backward(self, *args: Any, **options: Any) -> None:
            """Raise `InputError`, unless it was computed from tensors that have a graph of their own."""
            if not self.requires_grad:
                raise InputError(MESSAGE)
            super().backward(*args, **options)

        def __reduce_ex__(self, protocol: Any) -> Any:
            return self.as_subclass(torch.Tensor).__reduce_ex__(protocol)

        def __repr__(self, *, tensor_contents: Any = None) -> str:
            return repr(self.as_subclass(torch.Tensor))

        def __format__(self, spec: str) -> str:
            return format(self.as_subclass(torch.Tensor), spec)

    return Loss


def as_loss(value: Any) -> Any:
    """The loss of a step that has run, on the same memory."""
    return value.as_subclass(_kind())
