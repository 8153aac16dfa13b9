"""Gradients that a step has used: what is in ``.grad`` after a step that updates its parameters itself.

With ``optimizer=`` each gradient dies in the update of its parameter. If ``.grad`` were None then, code that reads it
after the step would do nothing without a word: ``clip_grad_norm_`` gives 0.0, an ``optimizer.step()`` by habit changes
nothing. So a tensor without memory is there, and every computation with it raises, also that of a backward pass of
eager's which adds to it. What asks for no number works: ``zero_grad()`` in both ways (set to zero, it becomes a tensor
of zeros), comparing ``.grad`` with None, its shape and type, moving, converting, saving and copying the module.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from lowtide.errors import InputError
from lowtide.torch.capture import library

MESSAGE = (
    "the gradient of this parameter is gone: the step has updated the parameter with it (optimizer=), so it cannot be "
    "clipped, scaled, read or added to; leave optimizer= out of compile_step, and call the optimizer after the step; "
    "or call zero_grad() before a backward pass of your own"
)

_SAME = ("aten::detach", "aten::alias", "aten::view_as", "aten::_to_copy", "aten::clone", "aten::empty_like")
"""Operators that ask for no number."""


@cache
def _kind() -> Any:
    """The class of such tensors; torch is imported by then."""
    torch = library()
    tree = torch.utils._pytree

    class SpentGradient(torch.Tensor):
        """A gradient that was used up.

        `held`: None, or what replaces it since it was set to zero; `fresh`: whether that is still zero.
        """

        __torch_function__ = torch._C._disabled_torch_function_impl

        @staticmethod
        def __new__(cls, like: Any, dtype: Any = None, device: Any = None) -> Any:
            made = torch.Tensor._make_wrapper_subclass(
                cls, like.shape, strides=like.stride(), dtype=dtype or like.dtype, device=device or like.device
            )
            made.held, made.fresh = None, True
            return made

        def __repr__(self, *, tensor_contents: Any = None) -> str:
            return f"SpentGradient(shape={[*self.shape]})" if self.held is None else repr(self.held)

        def share_memory_(self) -> Any:
            """Nothing is there to share; torch's own reads memory that is none."""
            return self

        def __reduce_ex__(self, protocol: Any) -> Any:
            raise InputError(MESSAGE)

        @classmethod
        def set_to_zero(cls, one: Any) -> None:
            """Hold zeros; a tensor of another kind is set to zero in place."""
            if not isinstance(one, cls):
                one.zero_()
                return
            one.held = torch.empty_strided(one.shape, one.stride(), dtype=one.dtype, device=one.device).zero_()
            one.fresh = True

        @classmethod
        def __torch_dispatch__(cls, call: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            name, options = call._schema.name, kwargs or {}
            if name in ("aten::zero_", "aten::_foreach_zero_"):
                tree.tree_map(cls.set_to_zero, args)
                return args[0] if name == "aten::zero_" else None
            spent = [leaf for leaf in tree.tree_leaves((args, options)) if isinstance(leaf, cls)]
            if any(one.held is None for one in spent):
                if name in _SAME:
                    return cls(args[0], options.get("dtype"), options.get("device"))
                raise InputError(MESSAGE)
            given, named = tree.tree_map(lambda leaf: leaf.held if isinstance(leaf, cls) else leaf, (args, options))
            result = call(*given, **named)
            if not call._schema.is_mutable:
                return result
            for one in spent:
                one.fresh = False
            return next((one for one in spent if one.held is result), result)

    return SpentGradient


def is_spent(gradient: Any) -> bool:
    """Whether a gradient is none, was used up, or is zero since."""
    if gradient is None:
        return True
    return _kind.cache_info().currsize > 0 and isinstance(gradient, _kind()) and gradient.fresh


def spend(optimizer: Any, parameters: list[Any], kept: dict[int, Any]) -> None:
    """Let ``.grad`` of parameters say that it was used, and the optimizer look before it begins to update.

    `kept`: those that were made, by the parameter's `id`.
    """
    if _refuse not in optimizer._optimizer_step_pre_hooks.values():
        optimizer.register_step_pre_hook(_refuse)
    optimizer._opt_called = True  # or a learning-rate scheduler warns that no step was made
    for parameter in parameters:
        gradient = kept.get(id(parameter))
        if gradient is None or gradient.held is not None:
            gradient = kept[id(parameter)] = _kind()(parameter)
        if parameter.grad is not gradient:
            parameter.grad = gradient


def check_unspent(parameters: list[Any]) -> None:
    """Raise `InputError` if a parameter has a gradient that the step, which makes its own, would not add."""
    for parameter in parameters:
        if not is_spent(parameter.grad):
            raise InputError(
                "a parameter has a gradient in .grad, which a step with optimizer= does not add to its own; call "
                "optimizer.zero_grad() before, or leave optimizer= out of compile_step to accumulate"
            )


def _refuse(optimizer: Any, args: Any, kwargs: Any) -> None:
    """Raise `InputError` before an optimizer's step changes the first parameter, if it has used gradients."""
    gradients = [p.grad for group in optimizer.param_groups for p in group["params"]]
    if any(gradient is not None and is_spent(gradient) and gradient.held is None for gradient in gradients):
        raise InputError(MESSAGE)
