"""Which of two plans of a call is better: the comparison that the search makes.

Proposers may rank what they try by less, for example by the peak before anything is placed.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from lowtide.api.answer import Answer
from lowtide.api.goals import FastMemory, OneArena
from lowtide.api.job import Job
from lowtide.graph import MAX_BYTES
from lowtide.search.driver import Key, Objective


def objective_of(job: Job) -> Objective[Answer]:
    """What a call looks for."""
    if isinstance(job.goal, FastMemory):
        return LeastTraffic()
    assert isinstance(job.goal, OneArena), job.goal
    return LeastMemory(job.goal.budget, job.op_bytes, thorough=job.stream_input or "merge" in job.allow)


@dataclass(frozen=True)
class LeastMemory:
    """Tensors within the target's limit first, then the fewest required bytes; within a budget the least work.

    Work is the predicted time or the operations of plans that recompute, or that tile a training step, in one unit for
    all plans of a call. All other plans count as equal work, so of them the one of fewer bytes is better. A search ends
    with the first plan within the budget (`is_enough`): it does not look for the fastest of them.
    """

    budget: int | None  # bytes that a plan may require; None: it is to require as few as possible
    op_bytes: int = 0  # bytes that each op counts for
    # Whether the search goes on within the budget: inputs have to be streamed, or merged operators take less time.
    thorough: bool = False

    def key(self, plan: Answer) -> Key:
        """Bytes above the budget, or required bytes, after any byte of a tensor above its limit; then work, required
        bytes, operators, and the peak."""
        required = plan.keys["required_bytes"] + self.op_bytes * len(plan.graph.ops)
        above = required if self.budget is None else max(0, required - self.budget)
        above += MAX_BYTES * plan.above_limit
        return (above, _work(plan), required, len(plan.graph.ops), plan.keys["peak_bytes"])

    def is_enough(self, plan: Answer) -> bool:
        """Whether it is within the budget and the limit of tensors; of training steps, whether it takes no more time
        than the step, too."""
        fission = plan.keys.get("fission")
        if plan.above_limit:
            return False
        slower = fission is not None and fission.overhead > 0
        return self.budget is not None and plan.keys["required_bytes"] <= self.budget and not (self.thorough or slower)


@dataclass(frozen=True)
class LeastTraffic:
    """The fewest bytes moved between two memories, then the fewest operators."""

    def key(self, plan: Answer) -> Key:
        """Bytes moved, and operators; a plan without moves does not fit the fast memory."""
        return (plan.keys.get("traffic_bytes", 0) if "moves" in plan.keys else inf, len(plan.graph.ops))

    def is_enough(self, plan: Answer) -> bool:
        """Whether nothing is moved."""
        return not self.key(plan)[0]


def _work(plan: Answer) -> float:
    """Predicted time or operations of a plan that recomputes; 0: it recomputes nothing."""
    fission, recomputation = plan.keys.get("fission"), plan.keys.get("recomputation")
    if fission is not None:
        return fission.predicted_seconds
    return 0.0 if recomputation is None else recomputation.planned
