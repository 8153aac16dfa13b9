"""The peak of the same step in eager mode: its passes on fake tensors, kernels' workspace, the updates after them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lowtide.torch.cost import Costs
from lowtide.torch.costed import Costed, costed
from lowtide.torch.eager_run import EagerRun, Kernel
from lowtide.torch.program import Program
from lowtide.torch.storages import root_of


@dataclass(frozen=True)
class EagerStep:
    """The step as eager runs it: its ops, of which the last `updates` are the optimizer's; and the run on fake
    tensors."""

    program: Program
    updates: int = 0
    run: EagerRun | None = None

    def peak_bytes(self, torch: Any, planned: Costed, costs: Costs | None) -> tuple[int, bool]:
        """Most bytes that eager mode allocates at once; and whether it does so in the update of the parameters.
        `planned`: the step that is planned, with the workspace of its kernels."""
        step, program = costed(torch, self.program, costs), self.program
        footprint, first = step.own.footprint, len(program.actions) - self.updates
        if self.run is None:
            return max(footprint, default=0), max(footprint[first:], default=0) > max(footprint[:first], default=0)
        sizes: dict[Kernel, tuple[int, ...]] = {}
        workspace: dict[Kernel, int] = {}
        size_of = {tensor.name: tensor.size for tensor in planned.graph.tensors}
        of_input: tuple[tuple[str, Any], Kernel] | None = None
        for action, op in zip(planned.program.actions, planned.graph.ops, strict=True):
            names = [name for name in action.outputs if name is not None]
            kernel = action.call.target, tuple([planned.program.forms[name].shape for name in names])
            workspace[kernel] = max(workspace.get(kernel, 0), op.workspace)
            sizes[kernel] = tuple([size_of[name] for name in names])
            if of_input is not None and of_input[0] == (action.call.target, action.call.args[:3]):
                # eager has one kernel for both gradients of a convolution, that of the input first
                both = action.call.target, of_input[1][1] + kernel[1]
                alone = workspace[of_input[1]] - sum(sizes[kernel])
                workspace[both] = max(workspace.get(both, 0), op.workspace, alone)
                sizes[both] = sizes[of_input[1]] + sizes[kernel]
            of_input = (action.call.target, action.call.args[:3]), kernel
        heights, end = self.run.live_bytes(sizes, workspace)
        live = {root_of(result.value) for result in program.results}
        held = sum(t.size for t in step.graph.tensors if t.name in live and t.id in step.graph.producer)
        at = len(heights) if self.run.before_update is None else self.run.before_update
        passes, updates = heights[:at], [*heights[at:], *(end + taken - held for taken in footprint[first:])]
        behind, before = max(updates, default=0), max(passes, default=0)
        return max(behind, before), behind > before
