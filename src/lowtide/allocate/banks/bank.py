"""What the search for an assignment is asked: memories, what each buffer demands of them, loads step by step."""

from __future__ import annotations

from dataclasses import dataclass

from lowtide.allocate.buffers import Problem


@dataclass(frozen=True, slots=True)
class Bank:
    """A memory: its name, bytes there are, and what offsets in it are multiples of."""

    name: str
    capacity: int
    alignment: int = 1


@dataclass(frozen=True, slots=True)
class Demand:
    """The memories that a buffer may lie in, the one it prefers first, and what it costs elsewhere.

    `bytes` is what counts once for each place down that list; `accesses`, bytes read and written in an inference,
    decides among assignments of equal bytes.
    """

    allowed: tuple[int, ...]
    bytes: int
    accesses: int = 0


@dataclass(frozen=True)
class Section:
    """A stretch of steps in which the same rectangles are live.

    `ended` and `begun` are buffers whose life ended before it, and begins with it; `changed` those that go on with
    another number of bytes, and by how much; `live` those with a rectangle there, and its bytes.
    """

    ended: tuple[int, ...]
    begun: tuple[int, ...]
    changed: tuple[tuple[int, int], ...]
    live: dict[int, int]


class Loads:
    """The sections of a problem, and what pairs of buffers may have in common (`shared`: partner and bytes)."""

    def __init__(self, problem: Problem) -> None:
        buffers = problem.buffers
        self.count = len(buffers)
        self.shared: dict[int, list[tuple[int, int]]] = {}
        for p in problem.pairs:
            size = min(buffers[p.lower].size - max(p.distance, 0), buffers[p.upper].size)
            if size > 0:
                self.shared.setdefault(p.lower, []).append((p.upper, size))
                self.shared.setdefault(p.upper, []).append((p.lower, size))
        steps = sorted({t for b in buffers for p in b.rectangles for t in (p.start, p.end)})
        at = {t: k for k, t in enumerate(steps)}
        begun: list[list[int]] = [[] for _ in steps]
        ended: list[list[int]] = [[] for _ in steps]
        rectangles: list[list[tuple[int, int]]] = [[] for _ in steps]
        for i, b in enumerate(buffers):
            if b.rectangles:
                begun[at[b.start]].append(i)
                ended[at[b.end]].append(i)
            for p in b.rectangles:
                rectangles[at[p.start]].append((i, p.size))
                if p.end < b.end and not any(q.start == p.end for q in b.rectangles):
                    rectangles[at[p.end]].append((i, 0))
        self.sections: list[Section] = []
        live: dict[int, int] = {}
        for k in range(len(steps)):
            for i in ended[k]:
                live.pop(i)
            fresh = set(begun[k])
            changed = tuple((i, size - live[i]) for i, size in rectangles[k] if i not in fresh)
            live.update(rectangles[k])
            self.sections.append(Section(tuple(ended[k]), tuple(begun[k]), changed, dict(live)))
