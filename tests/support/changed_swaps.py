"""An oracle of plans whose tensors leave memory for the host and come back while ops run: the least time within a
budget. Nothing here is lowtide's.

One engine stores and one loads, each one tensor at a time, beside the ops, which run one after the other. A stored
tensor keeps its bytes until the store has ended; one that comes back has them from the begin of the load, and is read
from its end on. The step's inputs and outputs stay.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from support.changed_nets import Net


class State(NamedTuple):
    """Bits of the tensors in memory, of those on the host, and of the ops that have run (where none may run again),
    and the tensor that each engine moves (-1: none), with the time that it takes yet."""

    live: int
    host: int
    done: int
    storing: int
    stores: int
    loading: int
    loads: int


class Swaps:
    """Plans for one net, nothing of which is written in place.

    Parameters
    ----------
    times
        Of a run of each op.
    rates
        Bytes that a unit of time stores and loads.
    again
        Whether ops may run more than once.
    """

    def __init__(self, net: Net, times: Sequence[int], rates: tuple[int, int], *, again: bool) -> None:
        self.net, self.times, self.rates, self.again = net, times, rates, again
        self.size = [net.bytes_of(t) for t in range(len(net.shapes))]
        self.inputs = sum(1 << t for t in net.inputs if any(t in op.reads for op in net.ops))
        self.outputs = sum(1 << t for t in net.outputs)
        self.moving = [t for t in range(len(net.shapes)) if t not in net.inputs and t not in net.outputs]

    def least_time(self, budget: int) -> int | None:
        """Of all plans within a budget; None: there is no such plan."""
        start = State(self.inputs, 0, 0, -1, 0, -1, 0)
        if self._bytes(start) > budget:
            return None
        best, heap = {start: 0}, [(0, start)]
        while heap:
            now, state = heapq.heappop(heap)
            if now > best[state]:
                continue
            if state.live & self.outputs == self.outputs:
                return now
            for after, more in self._next(state):
                if self._bytes(after) <= budget and now + more < best.get(after, now + more + 1):
                    best[after] = now + more
                    heapq.heappush(heap, (now + more, after))
        return None

    def _bytes(self, state: State) -> int:
        coming = 0 if state.loading < 0 else 1 << state.loading
        return sum(s for t, s in enumerate(self.size) if (state.live | coming) >> t & 1)

    def _next(self, state: State) -> Iterator[tuple[State, int]]:
        live, host, done, storing, stores, loading, loads = state
        for t in range(len(self.size)):
            if live >> t & 1 and t != storing:
                yield state._replace(live=live & ~(1 << t)), 0
        for v, op in enumerate(self.net.ops):
            reads, makes = sum(1 << t for t in set(op.reads)), sum(1 << t for t in op.makes)
            held = live | (0 if loading < 0 else 1 << loading)
            if not reads & ~live and not makes & held and (self.again or not done >> v & 1):
                ran = done if self.again else done | 1 << v
                # what the op makes is there while it runs, and what is loaded meanwhile, too
                yield self._later(state._replace(live=live | makes, done=ran), self.times[v]), self.times[v]
        for t in self.moving:
            if storing < 0 and live >> t & 1 and not host >> t & 1:
                yield state._replace(storing=t, stores=-(-self.size[t] // self.rates[0])), 0
            if loading < 0 and host >> t & 1 and not live >> t & 1:
                yield state._replace(loading=t, loads=-(-self.size[t] // self.rates[1])), 0
        for wait in {left for left in (stores, loads) if left}:
            yield self._later(state, wait), wait

    @staticmethod
    def _later(state: State, time: int) -> State:
        """The state when so much time has passed."""
        if state.storing >= 0:
            left = max(0, state.stores - time)
            state = state._replace(stores=left)
            if not left:
                state = state._replace(host=state.host | 1 << state.storing, storing=-1)
        if state.loading >= 0:
            left = max(0, state.loads - time)
            state = state._replace(loads=left)
            if not left:
                state = state._replace(live=state.live | 1 << state.loading, loading=-1)
        return state
