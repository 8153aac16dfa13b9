"""Settings of torch, and of a module, under which a trace is what eager computes, for a while."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from importlib import import_module
from typing import Any

_REWRITTEN = (
    "upsample_", "_upsample_", "hardshrink", "softshrink", "multi_margin_loss", "multilabel_margin_loss_forward",
    "gru", "lstm", "rnn_relu", "rnn_tanh",
)  # fmt: skip
"""Operators that torch rewrites in Python while it traces, which moves bits; eager runs their kernels."""


def prepare(stack: contextlib.ExitStack, torch: Any, model: Any, backward: bool) -> None:
    """Settings of torch, and of the model, under which a trace is what eager computes."""
    import_module("torch._decomp")  # registers what is set aside
    log = import_module("torch._subclasses.fake_tensor").log
    stack.callback(setattr, log, "disabled", log.disabled)
    log.disabled = True  # it prints a traceback of torch's before an error that is reported in one line
    stack.enter_context(_eager_kernels(torch))
    if backward:  # a step makes its own gradients, whatever is set around the call
        stack.enter_context(torch.inference_mode(False))
        stack.enter_context(torch.enable_grad())
    # loss.backward() is called outside of the autocast that the forward pass runs under
    stack.enter_context(import_module("torch._functorch.config").patch(backward_pass_autocast="off"))
    if not backward:
        stack.enter_context(_frozen(model))


@contextlib.contextmanager
def compiling(torch: Any) -> Iterator[None]:
    """As under ``torch.compile``: models that look at values in eager mode, as those of transformers do at an attention
    mask, take the way that is right for all values."""
    before, torch.compiler._is_compiling_flag = torch.compiler._is_compiling_flag, True
    try:
        yield
    finally:
        torch.compiler._is_compiling_flag = before


@contextlib.contextmanager
def _eager_kernels(torch: Any) -> Iterator[None]:
    """Operators without torch's rewriting for a while."""
    rewriting = {torch._C.DispatchKey.Autograd, torch._C.DispatchKey.CompositeImplicitAutograd}
    aside: list[tuple[Any, dict[Any, Any]]] = []
    for name in dir(torch.ops.aten):
        if not name.startswith(_REWRITTEN):
            continue
        packet = getattr(torch.ops.aten, name)
        for operator in [getattr(packet, overload) for overload in packet.overloads()]:
            kernels = {key: kernel for key, kernel in operator.py_kernels.items() if key in rewriting}
            if kernels:
                aside.append((operator, kernels))
    try:
        for operator, kernels in aside:
            for key in kernels:
                del operator.py_kernels[key]
            operator._dispatch_cache.clear()
        yield
    finally:
        for operator, kernels in aside:
            operator.py_kernels.update(kernels)
            operator._dispatch_cache.clear()


@contextlib.contextmanager
def _frozen(model: Any) -> Iterator[None]:
    """Parameters that need no gradient for a while."""
    wanted = [p for p in model.parameters() if p.requires_grad]
    for p in wanted:
        p.requires_grad_(False)
    try:
        yield
    finally:
        for p in wanted:
            p.requires_grad_(True)
