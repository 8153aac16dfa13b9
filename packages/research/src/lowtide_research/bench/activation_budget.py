"""PyTorch's own knob, as a baseline: `activation_memory_budget`, asked for the two halves of a step, which are run.

torch's partitioner splits the joint graph of a step into forward and backward, and chooses what is kept between them.
Both halves run here node by node, each tensor freed after its last reader, so that its choice is all that is measured;
or they become a sequence of a step's own ops, so that they can be planned, priced and run as any plan is.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from lowtide.errors import InputError
from lowtide.torch.sequence import why_not
from lowtide.torch.step import Step


def halves(model: Any, loss_fn: Callable[..., Any], batch: Sequence[Any], ratio: float) -> Callable[[], list[Any]]:
    """A function that runs a step as torch splits it at that ratio: the loss, then the gradients of the parameters."""
    torch = import_module("torch")
    _, forward, backward, returned = _split(model, loss_fn, batch, ratio)
    parameters = [tensor for _, tensor in model.named_parameters(remove_duplicate=False)]
    buffers = [tensor for _, tensor in model.named_buffers(remove_duplicate=False)]
    given = [*parameters, *buffers, *batch]

    def run() -> list[Any]:
        interpreter = torch.fx.Interpreter
        with torch.no_grad():
            results = list(interpreter(forward).boxed_run(list(given)))
            handed = [*results[returned:], torch.ones_like(results[returned - 1])]
            loss = results[returned - 1]
            del results
            gradients = interpreter(backward).boxed_run(handed)[: len(parameters)]
            summed: dict[int, Any] = {}
            for parameter, gradient in zip(map(id, parameters), gradients, strict=True):  # tied ones stand twice
                summed[parameter] = summed[parameter] + gradient if parameter in summed else gradient
            return [loss, *summed.values()]

    return run


def as_sequence(
    step: Step, model: Any, loss_fn: Callable[..., Any], batch: Sequence[Any], ratio: float
) -> tuple[int, ...]:
    """torch's choice at that ratio as ids of a step's ops in the order in which the two halves run them: those of the
    forward pass that stand in the backward half run again. `step`: of `compile_step` for the same module, loss and
    batch, without an optimizer. Raises `InputError`: the halves have other ops than the step."""
    joint, forward, backward, _ = _split(model, loss_fn, batch, ratio)
    number = _numbers(step, joint)
    first, second = (
        [number[node.name] for node in half.graph.nodes if node.name in number] for half in (forward, backward)
    )
    turn = min({*second} - {*first}, default=len(step.graph.ops))
    # What torch leaves to others: the gradient of the loss is given to it, and buffers are written by its runtime.
    rest = [op.id for op in step.graph.ops if op.id not in {*first, *second}]
    order = (*first, *(k for k in rest if k < turn), *second, *(k for k in rest if k > turn))
    why = why_not(step.graph, order)
    if why is not None:
        raise InputError(f"torch's halves are no sequence of the step's ops: {why}", step.program.name)
    return order


def _numbers(step: Step, joint: Sequence[tuple[str, str]]) -> dict[str, int]:
    """A step's ops by the names that torch's nodes have: the calls of one operator stand in the same order in both,
    where a step leaves none of them out, and the others have the same names."""
    mine: dict[str, list[tuple[str, int]]] = {}
    for action, op in zip(step.program.actions, step.graph.ops, strict=True):
        mine.setdefault(action.call.target, []).append((action.name, op.id))
    theirs: dict[str, list[str]] = {}
    for name, target in joint:
        theirs.setdefault(target, []).append(name)
    number: dict[str, int] = {}
    for target, ops in mine.items():
        names = theirs.get(target, [])
        pairs = zip(names, ops, strict=True) if len(names) == len(ops) else ((op[0], op) for op in ops)
        number.update({name: op[1] for name, op in pairs})
    return number


def _split(
    model: Any, loss_fn: Callable[..., Any], batch: Sequence[Any], ratio: float
) -> tuple[list[tuple[str, str]], Any, Any, int]:
    """Names and operators of the joint graph, both halves as modules of torch, and how many results of the first are
    the user's."""
    torch = import_module("torch")
    config = import_module("torch._functorch.config")
    aot = import_module("torch._functorch.aot_autograd")
    partition = import_module("torch._functorch.partitioners").min_cut_rematerialization_partition
    found: dict[str, Any] = {}

    class Whole(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, *tensors: Any) -> Any:
            return loss_fn(self.model(tensors[0]), *tensors[1:])

    def split(*args: Any, **options: Any) -> Any:
        found["returned"] = options["num_fwd_outputs"]
        calls = [node for node in args[0].graph.nodes if node.op == "call_function"]
        found["joint"] = [(node.name, str(node.target)) for node in calls]
        return partition(*args, **options)

    def keep(name: str) -> Callable[..., Any]:
        def compiler(module: Any, _: Any) -> Any:
            found[name] = module
            return module

        return compiler

    whole = Whole()
    with contextlib.ExitStack() as stack:
        stack.enter_context(config.patch(activation_memory_budget=ratio))
        joint = aot.aot_export_joint_with_descriptors(stack, whole, tuple(batch))
        aot.aot_compile_joint_with_descriptors(
            joint, partition_fn=split, fw_compiler=keep("forward"), bw_compiler=keep("backward")
        )
    return found["joint"], found["forward"], found["backward"], found["returned"]
