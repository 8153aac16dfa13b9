"""Which ATen operators hand memory on, which write into it, and which may not change places, by name and arguments.

Eager CPU kernels: a view never copies, reshape-like operators copy only where strides leave no other way, and what ends
in an underscore writes into its first argument and returns it.
"""

from __future__ import annotations

from collections.abc import Mapping

from lowtide.read.pt2.schema import Argument, Node
from lowtide.read.pt2.sizes import Form

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


def operator(node: Node) -> str | None:
    """Name of an ATen operator without its overload, None for others.

    >>> operator(Node("torch.ops.aten.add_.Tensor", [], []))
    'add_'
    """
    parts = node.target.split(".")
    return parts[3] if parts[:3] == ["torch", "ops", "aten"] and len(parts) >= 4 else None


def hands_on(node: Node, first: Form | None, made: Form | None) -> bool:
    """Whether the node's outputs lie in the memory of its first tensor argument, of form `first`; `made` is the form
    of its first output."""
    name = operator(node)
    if name is None or first is None or made is None:
        return False
    if name in VIEWS or writes_into_first(node):
        return True
    if name in _RESHAPES:
        return first.viewable_as(made.shape)
    if name in _SAME_IF_ALIKE:
        alike = (first.dtype, first.device, first.shape) == (made.dtype, made.device, made.shape)
        return alike and not _flag(node, "copy") and (first.strides == made.strides or first.contiguous)
    return name in _DROPOUTS and not _flag(node, "train")


def writes_into_first(node: Node) -> bool:
    """Whether the node changes its first tensor argument: ``add_``, ``copy_``; a batch normalisation that trains."""
    name = operator(node)
    return name is not None and name.endswith("_") and not name.endswith("__")


def writes_into(node: Node) -> list[str]:
    """Names of the tensors that a node changes."""
    arguments = {a.name: a.arg for a in node.inputs}
    found = [a.as_tensor.name for a in [next(iter(arguments.values()), Argument())] if a.as_tensor is not None]
    found = found if writes_into_first(node) else []
    if operator(node) == "batch_norm" and _flag(node, "training"):
        found += [a.as_tensor.name for k in ("running_mean", "running_var") if (a := arguments.get(k)) and a.as_tensor]
    if node.target.endswith((".out", "_out")):
        found += [a.as_tensor.name for k, a in arguments.items() if k.startswith("out") and a.as_tensor is not None]
    return found


def keeps_its_turn(node: Node) -> bool:
    """Whether the node must stay behind those of its like before it: it draws random numbers, or nothing is known of
    what else it does."""
    name = operator(node)
    if name is None:
        return not node.target.startswith(("_operator.", "operator.", "math.", "torch.sym_", "torch.ops.higher_order."))
    if name in _DRAWS or name.rstrip("_") in _DRAWS or name in ("uniform_", "exponential_", "geometric_", "random_"):
        return True
    arguments: Mapping[str, Argument] = {a.name: a.arg for a in node.inputs}
    drops = arguments.get("dropout_p")
    return (name in _DROPOUTS and _flag(node, "train")) or (drops is not None and drops.as_float not in (None, 0, 0.0))


def _flag(node: Node, name: str) -> bool:
    return any(a.name == name and a.arg.as_bool for a in node.inputs)
