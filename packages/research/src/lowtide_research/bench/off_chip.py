"""SERENITY's off-chip study (MLSys 2020, Figure 11): Belady's replacement under two orders, by on-chip memory size.

The paper says that it "sweeps different on-chip memory configurations" from 32 to 256 KB with "Belady's optimal
algorithm", and that traffic is zero where the activations fit; it gives neither the unit of replacement nor what
counts. What is done here:

- On-chip memory holds pages of 1 KiB (a tensor begins a page of its own), since single ops do not fit 32 KB. A KB of
  memory is 1024 bytes.
- An op reads the pages of its inputs in order, then writes those of its outputs. A page that is not there is brought in
  when it is touched; the page whose next touch is furthest goes, dead ones first. Belady's choice is optimal: all
  pages are of one size.
- Traffic is a read of a page that was there before, and a write of a page that leaves, is needed again and has no copy
  outside. The first read of a graph input and the last write of an output are compulsory and not counted; weights are
  not in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

from lowtide.analyse.liveness import profile
from lowtide.analyse.storage import MemoryModel, memory_model
from lowtide.schedule.exact import Exact
from lowtide.stop import Limits
from lowtide.target import resolve
from lowtide_research.bench.networks import graph_of
from lowtide_research.zoo.published.cases import CELLS

PAGE_BYTES = 1024
KB = 1024
ON_CHIP = (32, 64, 96, 128, 192, 256)


@dataclass(frozen=True)
class Traffic:
    """Bytes read and written that are not compulsory."""

    read_bytes: int
    written_bytes: int

    @property
    def bytes(self) -> int:
        """Both."""
        return self.read_bytes + self.written_bytes


@dataclass(frozen=True)
class OffChip:
    """Traffic of one cell under Belady's replacement of pages, in the file order and in that of least peak."""

    network: str
    on_chip_kb: int
    own_bytes: int
    least_peak_bytes: int
    peak_bytes: int


def study(limits: Callable[[], Limits]) -> Iterator[OffChip]:
    """SERENITY's cells under each size of on-chip memory."""
    for case in CELLS:
        graph = graph_of(case)
        model = memory_model(graph, resolve("strict"))
        order = Exact().schedule(model, limits()).order
        peak = profile(model, order).peak
        for size in ON_CHIP:
            own, least = (paged_traffic(model, o, size * KB).bytes for o in (range(len(graph.ops)), order))
            yield OffChip(case.name, size, own, least, peak)


def paged_traffic(
    model: MemoryModel, order: Sequence[int], capacity_bytes: int, page_bytes: int = PAGE_BYTES
) -> Traffic:
    """Run an order on a memory of pages under Belady's replacement. `order`: positions in file order."""
    assert capacity_bytes >= page_bytes
    sizes, first_page = _pages(model, page_bytes)
    touches: list[tuple[int, bool]] = []
    for i in order:
        op = model.graph.ops[i]
        for ids, writes in ((op.inputs, False), (op.outputs, True)):
            for s in dict.fromkeys(model.storage_of[t] for t in ids if t in model.storage_of):
                touches += [(p, writes) for p in range(first_page[s], first_page[s + 1])]
    after = [0] * len(touches)
    upcoming = [len(touches)] * len(sizes)
    for k in range(len(touches) - 1, -1, -1):
        after[k] = upcoming[touches[k][0]]
        upcoming[touches[k][0]] = k
    never = len(touches)
    room = capacity_bytes // page_bytes
    there: dict[int, int] = {}
    heap: list[tuple[int, int]] = []
    copied = [False] * len(sizes)
    seen = [False] * len(sizes)
    is_output = [False] * len(sizes)
    for s, storage in enumerate(model.storages):
        for p in range(first_page[s], first_page[s + 1]):
            copied[p], is_output[p] = storage.at_start, storage.at_end
    read = written = 0
    for k, (p, writes) in enumerate(touches):
        if p not in there:
            while len(there) >= room:
                negative, old = heappop(heap)
                if there.get(old) != -negative:
                    continue
                if there.pop(old) < never and not copied[old]:
                    written += sizes[old]
                    copied[old] = True
            if seen[p]:
                read += sizes[p]
            seen[p] = True
        if writes:
            copied[p] = is_output[p]
        if after[k] == never:
            there.pop(p, None)
            continue
        there[p] = after[k]
        heappush(heap, (-after[k], p))
    return Traffic(read, written)


def _pages(model: MemoryModel, page_bytes: int) -> tuple[list[int], list[int]]:
    """Size of each page, and the first page of each storage."""
    sizes: list[int] = []
    first = [0]
    for storage in model.storages:
        whole, rest = divmod(storage.size, page_bytes)
        sizes += [page_bytes] * whole + ([rest] if rest else [])
        first.append(len(sizes))
    return sizes, first
