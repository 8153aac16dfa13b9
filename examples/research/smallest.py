"""A scheduling method of one's own, compared with lowtide's and the papers':

pip install ./examples/research
lowtide research compare zoo:nasnet_a_cifar --target strict --methods own,greedy,smallest,exact
lowtide research plan zoo:nasnet_a_cifar --method smallest --set smallest.during=true
"""

from dataclasses import dataclass
from typing import ClassVar

from lowtide.analyse.storage import MemoryModel
from lowtide.schedule.greedy import LiveBytes
from lowtide.schedule.method import Schedule
from lowtide.stop import Limits


@dataclass(frozen=True)
class Smallest:
    """Of the ops that can run, the one after which the fewest bytes stay; its fields are its options."""

    name: ClassVar[str] = "smallest"
    during: bool = False  # look at the bytes while the op runs first

    def supports(self, model: MemoryModel) -> str | None:
        """None: it applies; else the reason why not."""
        return None if len(model.graph.ops) < 10_000 else "more than 10,000 ops"

    def schedule(self, model: MemoryModel, limits: Limits) -> Schedule:
        """Positions in file order. It proves nothing, so there is no lower bound; `compare` checks the plan."""
        live, order, before = LiveBytes(model), dict[int, None](), model.graph.predecessors
        waiting = list(range(len(before)))
        while waiting:
            ready = [op for op in waiting if all(p in order for p in before[op])]
            op = min(ready, key=lambda op: live.cost(op) if self.during else live.cost(op)[::-1])
            live.run(op)
            waiting.remove(op)
            order[op] = None
        return Schedule(tuple(order))
