"""PyTorch's own knob, as a baseline: `activation_memory_budget`, asked for the two halves of a step, which are run.

torch's partitioner splits the joint graph of a step into forward and backward, and chooses what is kept between them.
Both halves run here node by node, each tensor freed behind its last reader, so that its choice is all that is measured.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any


def halves(model: Any, loss_fn: Callable[..., Any], batch: Sequence[Any], ratio: float) -> Callable[[], list[Any]]:
    """A function that runs a step as torch splits it at that ratio: the loss, then the gradients of the parameters."""
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
    given = [*whole.parameters(), *whole.buffers(), *batch]
    counted = len(list(whole.parameters()))

    def run() -> list[Any]:
        interpreter = torch.fx.Interpreter
        with torch.no_grad():
            results = list(interpreter(found["forward"]).boxed_run(list(given)))
            handed = [*results[found["returned"] :], torch.ones(())]
            loss = results[found["returned"] - 1]
            del results
            return [loss, *interpreter(found["backward"]).boxed_run(handed)[:counted]]

    return run
