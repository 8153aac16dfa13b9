"""What the ops of a training step with labels are in PyTorch: an expression for each kind.

Kinds are those of MAGIS's training steps (`lowtide_research.zoo.step_net`), and those that merged products put in
(`lowtide.transform.sibling_ops`). No expression has the size of a dimension that may run in parts. An op of another
kind says itself what it is: its attribute ``torch`` is an expression with ``{0}``, ``{1}`` for its operands.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lowtide.errors import InputError
from lowtide.graph import Graph, Op

Names = Sequence[str]
Attributes = Mapping[str, Any]
Shape = tuple[int, ...]
Kernel = Callable[[Names, Attributes, Shape], str]

EPSILON = 1e-5

HELPERS = f"""
def layer_norm(x):
    mean = x.mean(-1, keepdim=True)
    deviation = (x.var(-1, keepdim=True, correction=0) + {EPSILON}).sqrt()
    return torch.cat([(x - mean) / deviation, mean, deviation], -1)


def layer_norm_backward(g, x, mean, deviation):
    y = (x - mean) / deviation
    return (g - g.mean(-1, keepdim=True) - y * (g * y).mean(-1, keepdim=True)) / deviation


def conv2d_input(g, w, rows, columns, stride, pad):
    return torch.nn.grad.conv2d_input((len(g), w.shape[1], rows, columns), w, g, stride, pad)


def conv2d_weight(x, g, kernel, stride, pad):
    return torch.nn.grad.conv2d_weight(x, (g.shape[1], x.shape[1], kernel, kernel), g, stride, pad)


def mean_pool_backward(g, x, kernel, stride, pad):
    return torch.ops.aten.avg_pool2d_backward(g, x, [kernel] * 2, [stride] * 2, [pad] * 2, False, True, None)


def repeat_backward(g, times):
    n, c, rows, columns = g.shape
    return g.reshape(n, c, rows // times, times, columns // times, times).sum((3, 5))
"""
"""Functions that the expressions call."""

_EACH: Mapping[str, str] = {
    "add": "{0} + {1}",
    "sub": "{0} - {1}",
    "mul": "{0} * {1}",
    "square": "{0} * {0}",
    "scale": "{0} * {factor!r}",
    "update": "{0} + {1} * {factor!r}",
    "relu": "torch.relu({0})",
    "positive": "({0} > 0).to({0}.dtype)",
    "sigmoid": "torch.sigmoid({0})",
    "sigmoid_backward": "{0} * {1} * (1 - {1})",
    "softmax": "torch.softmax({0}, -1)",
    "softmax_backward": "{1} * ({0} - ({0} * {1}).sum(-1, keepdim=True))",
    "layer_norm": "layer_norm({0})",
    "layer_norm_backward": "layer_norm_backward({0}, {1}, {2}, {3})",
    "permute": "{0}.permute({permutation}).contiguous()",
    "reshape": "{0}.reshape(len({0}), *{rest})",
    "einsum": "torch.einsum({equation!r}, {0}, {1})",
    "conv2d": "torch.conv2d({0}, {1}, None, {stride}, {pad})",
    "conv2d_input": "conv2d_input({0}, {1}, *{size}, {stride}, {pad})",
    "conv2d_weight": "conv2d_weight({0}, {1}, {kernel}, {stride}, {pad})",
    "mean_pool": "torch.nn.functional.avg_pool2d({0}, {kernel}, {stride}, {pad})",
    "mean_pool_backward": "mean_pool_backward({0}, {1}, {kernel}, {stride}, {pad})",
    "repeat": "{0}.repeat_interleave({times}, 2).repeat_interleave({times}, 3)",
    "repeat_backward": "repeat_backward({0}, {times})",
}

_BY_SHAPE: Mapping[str, Kernel] = {
    "index_out": lambda x, a, s: f"{x[0]}[..., {a['first']}:{a['first'] + s[-1]}].clone()",
    "slice": lambda x, a, s: f"{x[0]}[:, {a['first']}:{a['first'] + s[1]}].clone()",
    "concat": lambda x, a, s: f"torch.cat([{', '.join(x)}], 1)",
    "unstack": lambda x, a, s: (
        f"[part.permute({tuple(a['permutation'])}).contiguous() for part in {x[0]}.unbind({a['dimension']})]"
    ),
    "stack": lambda x, a, s: (
        f"torch.stack([part.permute({tuple(a['permutation'])}) for part in [{', '.join(x)}]], {a['dimension']})"
    ),
}


def expression(graph: Graph, op: Op, operands: Names) -> str:
    """An op as an expression of its operands' names; of several results it is a list. Raises `InputError`: no
    expression of its kind is known."""
    own = op.attributes.get("torch")
    shape = graph.tensor_by_id[op.outputs[0]].shape or ()
    if isinstance(own, str):
        return own.format(*operands)
    if op.type in _EACH:
        texts = {name: tuple(v) if isinstance(v, list) else v for name, v in op.attributes.items()}
        return _EACH[op.type].format(*operands, **texts)
    if op.type in _BY_SHAPE:
        return _BY_SHAPE[op.type](operands, op.attributes, shape)
    raise InputError(
        f"{op.label} is of a kind ({op.type}) without an expression in PyTorch; give it one as its attribute "
        '"torch", with {0} for its first operand',
        graph.name,
    )
