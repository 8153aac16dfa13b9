"""Several memories under a runtime that has arenas of its own: each of its arrays is in one memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lowtide.allocate.banks.arenas import HEAD, TAIL, ArenaSizes, Division, best_division, never_divided
from lowtide.allocate.banks.places import allowed_banks
from lowtide.api.answer import PlanKeys
from lowtide.errors import InputError
from lowtide.plan import RuntimeArenas, RuntimeParts, Status, least_required
from lowtide.spill_plan import PlanMemory

if TYPE_CHECKING:
    from lowtide.allocate.banks.bank import Bank
    from lowtide.allocate.banks.places import Places
    from lowtide.graph import Graph
    from lowtide.runtimes.base import HeadAndTail, Required, Runtime


@dataclass(frozen=True)
class ArenaMemories:
    """Memories for a runtime's arenas, fastest first, and those that head and tail may lie in."""

    banks: tuple[Bank, ...]
    places: Places
    reserve: int

    def check_places(self) -> None:
        """Tensors lie in the head: only that and the tail can be placed. Raises `InputError`."""
        strange = [name for name in self.places if name not in (HEAD, TAIL)]
        if strange:
            raise InputError(
                f"{strange[0]!r} is in TFLM's head, as all tensors are; place the head or the tail, as in tail=psram"
            )

    def keys(
        self, runtime: Runtime, graph: Graph, order: Sequence[int], required: Required, keys: PlanKeys
    ) -> PlanKeys:
        """What a plan for one arena says in these memories. `order`: op ids. `required`: what the runtime needs for
        that with one arena. `keys`: of the plan for one arena. Raises `InputError`: the runtime's arenas are not known
        for this model."""
        needs = runtime.head_and_tail(graph, order, required, keys["lower_bound_bytes"])
        if needs is None:
            raise unknown_arenas(graph)
        sizes = ArenaSizes(required.required_bytes, needs.head_bytes, needs.tail_bytes)
        way = best_division(sizes, self.banks, self._may(HEAD), self._may(TAIL))
        least = ArenaSizes(
            least_required(keys["lower_bound_bytes"], required.parts), needs.least_head_bytes, needs.least_tail_bytes
        )
        status: Status = keys["status"]
        if way.excess(self.banks):
            never = keys["stopped"] != "interrupt" and never_divided(least, self.banks)
            status = "impossible" if never else "over_budget"
        return self._divided({**keys, "status": status}, way, required.parts, needs)

    def _divided(self, keys: PlanKeys, way: Division, parts: RuntimeParts, needs: HeadAndTail) -> PlanKeys:
        names, total = [b.name for b in self.banks], sum(way.sizes)
        slow = sum(k * size for k, size in enumerate(way.sizes))
        figures = {**keys.get("search", {}), "slow_bytes": slow, "slow_lower_bound_bytes": slow}
        return {
            **keys,
            "required_bytes": total + self.reserve,
            "reserve_bytes": self.reserve or None,
            "runtime_arena_bytes": total,
            "runtime_parts": needs.parts if way.has_two_arrays else parts,
            "runtime_arenas": RuntimeArenas(
                head_memory=names[way.head],
                tail_memory=names[way.tail],
                least_head_bytes=needs.least_head_bytes,
                least_tail_bytes=needs.least_tail_bytes,
            ),
            "memories": [_memory(b, size) for b, size in zip(self.banks, way.sizes, strict=True)],
            "search": figures,
        }

    def _may(self, part: str) -> tuple[int, ...]:
        if part in self.places:
            return allowed_banks(self.places[part], self.banks, part)
        return tuple(range(len(self.banks)))


def unknown_arenas(graph: Graph) -> InputError:
    """Why a model cannot be planned for a runtime's arenas in several memories."""
    return InputError(
        "what TFLM keeps in addition to the tensors is known only of .tflite files that Vela has not compiled; plan "
        "for memories under another target, as --target generic",
        graph.source or graph.name,
    )


def _memory(bank: Bank, size: int) -> PlanMemory:
    unit = bank.alignment if bank.alignment > 16 else 1
    return PlanMemory(name=bank.name, capacity_bytes=bank.capacity, size_bytes=size, alignment=unit)
