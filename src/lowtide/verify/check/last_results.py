"""Re-checks what is live when the last results of a graph are materialised, element by element.

Claim: at the end of the last result, or of the last but one, a plan needs `goal` bytes. Take any result as the last
one. With all results live, its op reads a materialised tensor, or its tiles are concatenated. If that is below the
goal, take any other result as the last but one. The same holds of it with all results live but the last; and of the
last result, at least one element is live on each of many disjoint paths that lead to it.

A path is a list of elements, one of each tensor, from a tensor that is made by then to the last result: the op that
makes an element is given the element before it. Paths that share no element have at least one live element each. They
are listed here one by one. See docs/proofs.md, section 15.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import product
from math import prod

from lowtide.graph import Graph, Kind, Op
from lowtide.ops.access import Access
from lowtide.ops.forms import Concat, Reshape
from lowtide.ops.index import FIXED
from lowtide.ops.meaning import Meaning

_MOST = 2**16  # elements of a result whose paths are listed

Element = tuple[int, ...]


@dataclass(frozen=True)
class Facts:
    """What the check of regions knows of a graph."""

    graph: Graph
    sizes: Callable[[Iterable[int]], int]  # bytes of tensors, of those that may share a storage the largest
    group: Mapping[int, int]  # the same number for tensors that may share a storage
    # given_all, made_before, cut, overwrites, meaning: whether all of a tensor is given to an op; what is made before
    # tensors, and these; whether an op may be cut; whether the untiled op may write its result over what it reads; what
    # it means.
    given_all: Callable[[Op, int], bool]
    made_before: Callable[[Collection[int]], set[int]]
    cut: Callable[[int], bool]
    overwrites: Callable[[Op], bool]
    meaning: Callable[[int], Meaning | None]


def end_needs(facts: Facts, goal: int) -> bool:
    """Whether every plan needs so many bytes when its last results are materialised."""
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
        if every + _other_bytes(facts, more[last], last) >= goal:
            continue
        made = facts.made_before(others) - set(results)
        for before in others:
            counted = {facts.group[t] for t in (*others, *more[before])}
            paths = _Paths(facts, made, counted).bytes_to(last)
            if facts.sizes(others) + _other_bytes(facts, more[before], before) + paths < goal:
                return False
        if not others:
            return False
    return bool(results)


def _given(facts: Facts, result: int, results: Collection[int]) -> list[int]:
    """What the op that makes a result is given all of."""
    op = facts.graph.op_by_id[facts.graph.producer[result]]
    groups = {facts.group[t] for t in results}
    return [t for t in op.inputs if facts.group[t] not in groups and facts.given_all(op, t)]


def _other_bytes(facts: Facts, given: Collection[int], result: int) -> int:
    """Bytes in addition to the results when one is materialised, by its untiled op or by a concat of its tiles."""
    op = facts.graph.op_by_id[facts.graph.producer[result]]
    untiled = 0 if facts.overwrites(op) else facts.sizes(given)
    return min(untiled, facts.sizes([result])) if facts.cut(op.id) else untiled


Found = tuple[int, frozenset[int]]  # bytes of paths, and the groups of all tensors that they lead through


@dataclass
class _Paths:
    """Paths to a tensor from such as are made, none through what is counted already."""

    facts: Facts
    made: Collection[int]
    counted: Collection[int]
    known: dict[tuple[int, frozenset[Element]], Found] = field(
        default_factory=dict[tuple[int, frozenset[Element]], Found]
    )

    def bytes_to(self, tensor: int) -> int:
        """Bytes of as many paths as are found."""
        shape = self.facts.graph.tensor_by_id[tensor].shape or ()
        if not 0 < prod(shape) <= _MOST:
            return 0
        return self._from(tensor, list(product(*map(range, shape))))[0]

    def _from(self, tensor: int, elements: list[Element]) -> Found:
        key = (tensor, frozenset(elements))
        if key not in self.known:
            self.known[key] = (0, frozenset())
            self.known[key] = self._bytes_through(tensor, elements)
        return self.known[key]

    def _bytes_through(self, tensor: int, elements: list[Element]) -> Found:
        facts, graph = self.facts, self.facts.graph
        own, group = graph.tensor_by_id[tensor], facts.group[tensor]
        if not elements or group in self.counted or not own.shape or not facts.sizes([tensor]):
            return 0, frozenset()
        there = own.size // prod(own.shape) * len(elements)
        if tensor in self.made:
            return there, frozenset({group})
        op = graph.op_by_id.get(graph.producer.get(tensor, -1))
        known = None if op is None else facts.meaning(op.id)
        if op is None or known is None or len(op.outputs) != 1:
            return 0, frozenset()
        found: list[Found] = []
        for position, read in enumerate(op.operands or op.inputs):
            if read is None or graph.tensor_by_id[read].kind is Kind.CONSTANT:
                continue
            shape = graph.tensor_by_id[read].shape or ()
            wanted = [_in_rows(at, own.shape, shape) for at in elements] if isinstance(known.form, Reshape) else None
            before = _back(known.access, position, shape, elements, wanted)
            if facts.group[read] != group or before in (elements, wanted):
                found.append(self._from(read, before))
        if isinstance(known.form, Concat):
            apart = list[Found]()
            for each in found:
                if all(each[1].isdisjoint(other) for _, other in apart):
                    apart.append(each)
            size = sum(size for size, _ in apart)
        else:
            apart = [max(found, key=lambda each: each[0], default=(0, frozenset[int]()))]
            size = apart[0][0]
        return min(there, size), frozenset({group}).union(*(through for _, through in apart))


def _in_rows(element: Element, shape: tuple[int, ...], other: tuple[int, ...]) -> Element:
    """The element at the same place, row by row, of a tensor of another shape."""
    number = 0
    for at, size in zip(element, shape, strict=True):
        number = number * size + at
    result = []
    for size in reversed(other):
        number, at = divmod(number, size)
        result.append(at)
    return tuple(reversed(result))


def _back(
    access: Access, position: int, shape: tuple[int, ...], elements: list[Element], wanted: list[Element] | None
) -> list[Element]:
    """For each element, if there is one, an element of its own of the operand that its op is given for it: that which
    is wanted, or the one at its place, or the next."""
    made, dims = access.outputs[0], access.inputs[position]
    if dims is None or len(dims) != len(shape) or any(i is not None and i.axis == FIXED for i in dims):
        return []
    result: list[Element] = []
    seen: set[Element] = set()
    used: Counter[Element] = Counter()
    for k, element in enumerate(elements):
        rows = {axis: row for axis, row in zip(made, element, strict=True) if axis is not None}
        box = access.need(position, shape, {axis: (row, row + 1) for axis, row in rows.items()})
        if any(a >= b for a, b in box):
            continue
        tied = [None if index is None else rows.get(index.axis) for index in dims]
        place = tuple(-1 if row is None else row if a <= row < b else a for row, (a, b) in zip(tied, box, strict=True))
        number, at = used[place], list(place)
        used[place] += 1
        for d in reversed(range(len(at))):
            if tied[d] is None:
                number, at[d] = divmod(number, shape[d])
        found = tuple(at) if wanted is None else wanted[k]
        inside = all(a <= row < b for row, (a, b) in zip(found, box, strict=True))
        if (number == 0 or wanted is not None) and inside and found not in seen:
            seen.add(found)
            result.append(found)
    return result
