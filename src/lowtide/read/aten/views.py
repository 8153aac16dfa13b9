"""Which ATen operators hand memory on, which write into it, and which may not change places, by name and arguments.

Eager CPU kernels: a view never copies, reshape-like operators copy only where strides leave no other way, and what ends
in an underscore writes into its first argument and returns it.
"""

from __future__ import annotations

from lowtide.read.aten.trace import Call, Form, Ref

VIEWS = frozenset(
    {"view", "_unsafe_view", "view_as", "expand", "expand_as", "broadcast_to", "permute", "transpose", "t", "numpy_T",
     "mT", "mH", "adjoint", "swapaxes", "swapdims", "movedim", "moveaxis", "squeeze", "unsqueeze", "select", "slice",
     "narrow", "split", "split_with_sizes", "unsafe_split", "unsafe_split_with_sizes", "chunk", "unsafe_chunk",
     "tensor_split", "hsplit", "vsplit", "dsplit", "unbind", "unflatten", "as_strided", "diagonal", "unfold", "detach",
     "alias", "lift_fresh", "real", "imag", "view_as_real", "view_as_complex", "positive"}
)  # fmt: skip
"""Always the memory of the first tensor."""

_RESHAPES = frozenset({"reshape", "reshape_as", "flatten", "ravel"})
_SAME_IF_ALIKE = frozenset({"contiguous", "to", "type_as", "resolve_conj", "resolve_neg"})
_DROPOUTS = frozenset({"dropout", "feature_dropout", "alpha_dropout", "feature_alpha_dropout"})

_DRAWS = frozenset(
    {"rand", "randn", "randint", "randperm", "rand_like", "randn_like", "randint_like", "normal", "bernoulli",
     "multinomial", "poisson", "native_dropout", "rrelu", "rrelu_with_noise", "rrelu_with_noise_functional"}
)  # fmt: skip


def operator(call: Call) -> str | None:
    """Name of an ATen operator without its overload, None for others.

    >>> operator(Call("torch.ops.aten.add_.Tensor", ()))
    'add_'
    """
    parts = call.target.split(".")
    return parts[3] if parts[:3] == ["torch", "ops", "aten"] and len(parts) >= 4 else None


def aliases_first(call: Call, first: Form | None, output: Form | None) -> bool:
    """Whether the node's outputs lie in the memory of its first tensor argument, of form `first`; `output` is the form
    of its first output."""
    name = operator(call)
    if name is None or first is None or output is None:
        return False
    if name in VIEWS or writes_into_first(call):
        return True
    if name in _RESHAPES:
        return first.viewable_as(output.shape)
    if name in _SAME_IF_ALIKE:
        alike = (first.dtype, first.device, first.shape) == (output.dtype, output.device, output.shape)
        return alike and not _flag(call, "copy") and (first.strides == output.strides or first.contiguous)
    return name in _DROPOUTS and not _flag(call, "train")


def writes_into_first(call: Call) -> bool:
    """Whether the node changes its first tensor argument: ``add_``, ``copy_``; a batch normalisation that trains."""
    name = operator(call)
    return name is not None and name.endswith("_") and not name.endswith("__")


def writes_into(call: Call) -> list[str]:
    """Names of the tensors that a node changes."""
    names: list[str] = []
    first = call.arguments[0][1] if call.arguments else None
    if writes_into_first(call) and isinstance(first, Ref) and first.kind == "tensor":
        names.append(first.name)
    written: list[str] = []
    if operator(call) == "batch_norm" and _flag(call, "training"):
        written += ["running_mean", "running_var"]
    if call.target.endswith((".out", "_out")):
        written += dict.fromkeys(name for name, _ in call.arguments if name.startswith("out"))
    values = [call.value(name) for name in written]
    return names + [value.name for value in values if isinstance(value, Ref) and value.kind == "tensor"]


def keeps_its_turn(call: Call) -> bool:
    """Whether the node must stay after those of its like before it: it draws random numbers, or nothing is known of
    what else it does."""
    name = operator(call)
    if name is None:
        return not call.target.startswith(("_operator.", "operator.", "math.", "torch.sym_", "torch.ops.higher_order."))
    if name in _DRAWS or name.rstrip("_") in _DRAWS or name in ("uniform_", "exponential_", "geometric_", "random_"):
        return True
    drops = call.value("dropout_p")
    return (name in _DROPOUTS and _flag(call, "train")) or drops not in (None, 0, 0.0)


def _flag(call: Call, name: str) -> bool:
    return any(key == name and value is True for key, value in call.arguments)
