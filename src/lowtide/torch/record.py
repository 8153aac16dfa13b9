"""A step on CUDA recorded once by `torch.cuda.graph` and replayed with other batches: no Python between its ops.

A graph replays the same kernels on the same memory, so what a call copies in and out is here, and what may change
from call to call is refused or looked at. Written by torch's documentation of CUDA graphs, and never run on a device.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lowtide.arguments import Example, typed
from lowtide.errors import InputError
from lowtide.torch.capture import library
from lowtide.torch.cuda_meter import check_device
from lowtide.torch.step import Step


class Recorded:
    """A recorded step: call it as the step is called."""

    def __init__(self, step: Step, batch: Sequence[Any]) -> None:
        torch = library()
        self.step = step
        self.batch = torch.utils._pytree.tree_map_only(torch.Tensor, lambda t: t.detach().clone(), tuple(batch))
        self._given = step.given(*self.batch)
        run = step.prepare(*self.batch)
        names = {name for action in step.program.actions for name in action.writes}
        pairs = zip(step.program.givens, self._given, strict=True)
        before = [(tensor, tensor.clone()) for given, tensor in pairs if given.name in names]
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.random.fork_rng(), torch.cuda.stream(side):  # libraries make their handles at a first call
            run()
        torch.cuda.current_stream().wait_stream(side)
        with torch.no_grad():
            for tensor, value in before:
                tensor.copy_(value)
        del before
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            self._results = run()

    def __call__(self, *batch: Any) -> Any:
        """Run the step: the loss, or the module's output.

        Raises
        ------
        InputError
            As a step raises it, always where another plan would be needed; or a gradient is another tensor than the
            recorded one.
        """
        torch, step = library(), self.step
        if not step.fits(*batch):
            raise InputError("the step is recorded for another batch or mode; record again", step.program.name)
        for given, tensor, recorded in zip(step.program.givens, step.given(*batch), self._given, strict=True):
            if given.role == "batch":
                recorded.copy_(tensor.detach())
            elif tensor is not recorded:
                message = f"{given.target} is another tensor than recorded; keep gradients by zero_grad(set_to_none="
                raise InputError(f"{message}False), or record again", step.program.name)
        self._graph.replay()
        return step.finish([torch.clone(value) for value in self._results])


@typed
def record(step: Step, example: Example) -> Recorded:
    """Record a step on CUDA with a batch as `compile_step` takes it; weights, buffers and gradients stay as they are.

    A recorded step keeps the memory of its plan for itself. It leaves gradients in ``.grad`` (or adds them there one by
    one, with ``accumulate=True``), for an optimizer that you call.

    Raises
    ------
    InputError
        It is not on CUDA, or not all of it is; it updates parameters, whose numbers change from call to call; its
        tensors leave memory.
    """
    step = step.for_batch(*example)
    program = step.program
    if step.optimizer is not None:
        message = "an optimizer's numbers change from call to call, and a recording keeps them; compile the step"
        raise InputError(f"{message} without optimizer=, and call that behind the step", program.name)
    if any(instance.moved is not None for instance in step.sequence.instances):
        raise InputError("a step whose tensors leave memory is not recorded; leave offload out", program.name)
    apart = {form.device[0] for form in program.forms.values()} - {"cuda"}
    if apart:
        raise InputError(f"a step is recorded on CUDA, and tensors of this one are on {', '.join(apart)}", program.name)
    check_device(library(), program.device)
    return Recorded(step, example)
