"""What a scheduling method is; `registry.py` lists the methods.

A method is a frozen dataclass whose fields are its options (the command line makes `--set METHOD.OPTION=VALUE` from
them). It says itself whether it applies. A package outside lowtide adds one through the entry point group
``lowtide.methods``, whose objects are such classes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

from lowtide import _core
from lowtide.analyse.storage import MemoryModel
from lowtide.certificates import Certificate, NoCertificate
from lowtide.plan import Stopped
from lowtide.stop import Limits


@dataclass(frozen=True)
class Schedule:
    """What a method found."""

    order: tuple[int, ...]  # positions in the graph's own order, topological
    lower_bound: int = 0  # bytes that no order beats, as far as the method proved it; 0 if it proves nothing
    certificate: Certificate = field(default_factory=NoCertificate)  # proof of `lower_bound`
    stopped: Stopped = "complete"  # why the method ended
    # The method's own figures (states, variables, iterations ...).
    counters: dict[str, Any] = field(default_factory=dict)


class Method(Protocol):
    """A way to find an order.

    Two class variables may be left out. ``slow: ClassVar[bool]``: whether it may take minutes where `exact` takes a
    second; then `compare` runs it only by name or with ``--all``. ``left_counter: ClassVar[str]``: the entry of
    `Schedule.counters` that says how many ops it had to order after its reductions, for the column "ops to order".
    """

    name: ClassVar[str]

    def supports(self, model: MemoryModel) -> str | None:
        """None if the method can do this graph under this target, else the reason why not, in a few words."""
        ...

    def schedule(self, model: MemoryModel, limits: Limits) -> Schedule:
        """Find an order within the limits."""
        ...


def core_model(model: MemoryModel) -> _core.Model:
    """Hand a memory model to the core. Ops and storages keep their positions."""
    return model.core
