"""Re-checks what is there when the last results of a graph are whole, element by element.

Claim: at the end of the last result, or of the last but one, a plan needs `goal` bytes. Whichever result is the last:
its op reads something whole, or its pieces are joined, beside all results; if that is too little, then whichever is
before it does so beside all but the last, and of that one there is something on each of many ways that lead to it.

A way is a list of elements, one of each tensor from one that is made by then to the last result: each is given to the
op that makes the next one. Ways that have no element in common have at least one each. They are listed here one by one.
See docs/proofs.md, section 15.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from math import prod

from lowtide.graph import Graph, Kind, Op
from lowtide.ops.access import Access
from lowtide.ops.index import FIXED

_MOST = 2**16
"""Ways that are listed."""

Element = tuple[int, ...]


@dataclass(frozen=True)
class Facts:
    """What the check of regions knows of a graph.

    Attributes
    ----------
    sizes
        Bytes of tensors, of those that may share a storage the largest.
    group
        The same number for tensors that may share a storage.
    given_all, made_before, cut, overwrites, access
        Whether all of a tensor is given to an op; what is made before tensors, and these; whether an op may be cut;
        whether what it makes, whole, may lie on what it reads; which rows it reads.
    """

    graph: Graph
    sizes: Callable[[Iterable[int]], int]
    group: Mapping[int, int]
    given_all: Callable[[Op, int], bool]
    made_before: Callable[[Collection[int]], set[int]]
    cut: Callable[[int], bool]
    overwrites: Callable[[Op], bool]
    access: Callable[[int], Access | None]


def end_needs(facts: Facts, goal: int) -> bool:
    """Whether every plan needs so many bytes when its last results are whole."""
    graph = facts.graph
    results = [t.id for t in graph.tensors if t.kind is Kind.OUTPUT]
    every = facts.sizes(results)
    if every >= goal:
        return True
    apart = len({facts.group[t] for t in results}) == len(results)
    if not apart or len({graph.producer.get(t, -1) for t in results} - {-1}) < len(results):
        return False
    more = {t: _given(facts, t, results) for t in results}
    for last in results:
        others = [t for t in results if t != last]
        if every + _beside(facts, more[last], last) >= goal:
            continue
        made = facts.made_before(others) - set(results)
        for before in others:
            counted = {facts.group[t] for t in (*others, *more[before])}
            ways = _Ways(facts, made, counted).bytes_to(last)
            if facts.sizes(others) + _beside(facts, more[before], before) + ways < goal:
                return False
        if not others:
            return False
    return bool(results)


def _given(facts: Facts, result: int, results: Collection[int]) -> list[int]:
    """What the op that makes a result is given all of."""
    op = facts.graph.op_by_id[facts.graph.producer[result]]
    groups = {facts.group[t] for t in results}
    return [t for t in op.inputs if facts.group[t] not in groups and facts.given_all(op, t)]


def _beside(facts: Facts, given: Collection[int], result: int) -> int:
    """Bytes beside the results when one is whole, by its op that runs whole or by joining its parts."""
    op = facts.graph.op_by_id[facts.graph.producer[result]]
    whole = 0 if facts.overwrites(op) else facts.sizes(given)
    return min(whole, facts.sizes([result])) if facts.cut(op.id) else whole


@dataclass
class _Ways:
    """Ways to a tensor from such as are made, none through what is counted already."""

    facts: Facts
    made: Collection[int]
    counted: Collection[int]
    known: dict[tuple[int, frozenset[Element]], int] = field(default_factory=dict[tuple[int, frozenset[Element]], int])

    def bytes_to(self, tensor: int) -> int:
        """Bytes of as many ways as are found."""
        shape = self.facts.graph.tensor_by_id[tensor].shape or ()
        if not 0 < prod(shape) <= _MOST:
            return 0
        elements = [()]
        for size in shape:
            elements = [(*at, i) for at in elements for i in range(size)]
        return self._from(tensor, elements)

    def _from(self, tensor: int, elements: list[Element]) -> int:
        key = (tensor, frozenset(elements))
        if key not in self.known:
            self.known[key] = 0
            self.known[key] = self._found(tensor, elements)
        return self.known[key]

    def _found(self, tensor: int, elements: list[Element]) -> int:
        facts, graph = self.facts, self.facts.graph
        own = graph.tensor_by_id[tensor]
        if not elements or facts.group[tensor] in self.counted or not own.shape or not facts.sizes([tensor]):
            return 0
        there = own.size // prod(own.shape) * len(elements)
        if tensor in self.made:
            return there
        op = graph.op_by_id.get(graph.producer.get(tensor, -1))
        access = None if op is None else facts.access(op.id)
        if op is None or access is None or len(op.outputs) != 1:
            return 0
        most = 0
        for position, read in enumerate(op.operands or op.inputs):
            if read is None or graph.tensor_by_id[read].kind is Kind.CONSTANT:
                continue
            before = self._back(access, position, graph.tensor_by_id[read].shape or (), elements)
            if facts.group[read] != facts.group[tensor] or before == elements:
                most = max(most, min(there, self._from(read, before)))
        return most

    @staticmethod
    def _back(access: Access, position: int, shape: tuple[int, ...], elements: list[Element]) -> list[Element]:
        """For each element, if there is one, an element of its own of the operand that its op is given for it."""
        made, dims = access.outputs[0], access.inputs[position]
        if dims is None or len(dims) != len(shape) or any(i is not None and i.axis == FIXED for i in dims):
            return []
        result: list[Element] = []
        seen: set[Element] = set()
        used: Counter[Element] = Counter()
        for element in elements:
            rows = {axis: row for axis, row in zip(made, element, strict=True) if axis is not None}
            box = access.need(position, shape, {axis: (row, row + 1) for axis, row in rows.items()})
            tied = [None if index is None else rows.get(index.axis) for index in dims]
            place = tuple(-1 if row is None else row for row in tied)
            number, at = used[place], list(place)
            used[place] += 1
            for d in reversed(range(len(at))):
                if tied[d] is None:
                    number, at[d] = divmod(number, shape[d])
            found = tuple(at)
            inside = all(a <= row < b for row, (a, b) in zip(found, box, strict=True))
            if number == 0 and inside and found not in seen:
                seen.add(found)
                result.append(found)
        return result
