"""A method of another package: what it raises, or returns that is no order of the graph, is said to be its mistake."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from operator import index
from pathlib import Path
from typing import TYPE_CHECKING

from lowtide.analyse.liveness import profile
from lowtide.errors import InputError, LowtideError, raised_at
from lowtide.schedule.method import Method, Schedule

if TYPE_CHECKING:
    from lowtide.analyse.storage import MemoryModel
    from lowtide.stop import Limits

_LOWTIDE = str(Path(__file__).parents[1])


@dataclass(frozen=True)
class Foreign:
    """A method whose answers are checked before anything is made of them. Raises `InputError`: names the method: it
    raised, or returned no schedule, or an order of other ops, or one that is not topological."""

    method: Method

    @property
    def name(self) -> str:
        """The method's own."""
        return self.method.name

    def supports(self, model: MemoryModel) -> str | None:
        """What the method says."""
        try:
            return self.method.supports(model)
        except LowtideError:
            raise
        except Exception as error:  # it is another package's
            raise self._failed(error, model) from error

    def schedule(self, model: MemoryModel, limits: Limits) -> Schedule:
        """The method's schedule, if it is one."""
        try:
            schedule = self.method.schedule(model, limits)
        except LowtideError:
            raise
        except Exception as error:  # it is another package's
            raise self._failed(error, model) from error
        if not isinstance(schedule, Schedule):
            raise self._returned("no Schedule", model)
        try:
            schedule = replace(schedule, order=tuple(index(i) for i in schedule.order))
            bound = index(schedule.lower_bound)
        except TypeError:
            raise self._returned("an order or a bound that is no number", model) from None
        why = _flaw(model, schedule.order)
        if why is None and bound > profile(model, schedule.order).peak:
            why = f"a lower bound of {bound} bytes, above the peak of its own order"
        if why is not None:
            raise self._returned(why, model)
        return schedule

    def _returned(self, what: str, model: MemoryModel) -> InputError:
        return InputError(f"method {self.name} returned {what}; use another one", _place(model))

    def _failed(self, error: Exception, model: MemoryModel) -> InputError:
        at = raised_at(error, _LOWTIDE)
        where = f" at {at}" if at else ""
        text = f"method {self.name} failed: {type(error).__name__}: {error}{where}; use another one"
        return InputError(text, _place(model))


def _place(model: MemoryModel) -> str:
    return model.graph.source or model.graph.name


def _flaw(model: MemoryModel, order: Sequence[int]) -> str | None:
    """What is wrong with an order, if anything."""
    n = len(model.graph.ops)
    if sorted(order) != list(range(n)):
        return f"an order that does not hold each of the {n:,} ops once"
    step = {i: k for k, i in enumerate(order)}
    for i, before in enumerate(model.graph.predecessors):
        late = next((p for p in before if step[p] > step[i]), None)
        if late is not None:
            ops = model.graph.ops
            return f"an order that runs {ops[i].label} before {ops[late].label}, which it needs"
    return None
