"""A better order from a given one, window by window: what runs around its peak is ordered anew, all else stays.

Graphs of parts are long and much alike, and one order of all is out of reach of a search of all of them; but
their peaks are a few steps, and what is wrong there is mostly near. The ops of a window are a problem of their own:
what is live before and after it is fixed, and the exact scheduler (`lowtide.schedule.exact`) says whether some order
of them stays below the peak. Where none does, a wider window is tried, or an adjacent one. Nothing is proved of
the graph. Searches are counted in states: the clock only stops them, and what they find does not depend on its speed.
Source: large neighbourhood search (Shaw 1998), with windows of an order as neighbourhoods.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from lowtide import _core
from lowtide.analyse.liveness import Profile, profile
from lowtide.analyse.model import MemoryModel
from lowtide.schedule.exact import Exact
from lowtide.stop import Limits, count

_SIZES = (64, 128, 256, 512, 1024, 2048)
_SHIFTS = (0.5, 0.25, 0.75)
"""Where in a window the peak stands."""

_STATES = (2_000, 10_000, 40_000, 160_000)  # for the search of a window: quick looks at all of them first

_PATIENCE = 100_000  # states, at the least, that gain nothing before the search ends

_FIRST_SLICE = 500
_OP = 3_000  # nanoseconds of a look at a window, for each op of the order

MOST = 2048  # ops of a window that is looked at whether or not the peak is there, at the most


def improved(model: MemoryModel, order: Sequence[int], limits: Limits, enough: int = 0) -> tuple[tuple[int, ...], bool]:
    """Find an order of no higher peak; also say whether Ctrl-C ended the search. It ends, too, when it gained
    nothing for as many states as it took until its last gain. `order`: positions in the graph's file order. `enough`:
    bytes; no lower peak is of use."""
    best, states = list(order), 0
    try:
        while (more := _lowered(model, best, limits, enough, max(states, _PATIENCE))) is not None:
            states += more
    except KeyboardInterrupt:
        return tuple(best), True
    return tuple(best), False


def _lowered(model: MemoryModel, order: list[int], limits: Limits, enough: int, patience: int) -> int | None:
    """Put one window of an order into a better one. Returns the states that took; None: there was none within the
    `patience`, in states."""
    steps, spent = profile(model, order), 0
    if steps.peak <= enough:
        return None
    for begin, end, states in _windows(steps):
        if limits.over() or spent >= patience:
            return None
        limits.tell("", steps.peak, enough)
        found = _searched(model, order, steps, (begin, end), states, limits, steps.peak)
        spent += found.states
        if found.ops is not None:
            order[begin:end] = found.ops
            return spent
    return None


def lowest_within(
    model: MemoryModel, order: Sequence[int], windows: Sequence[tuple[int, int]], limits: Limits
) -> tuple[tuple[int, ...], bool]:
    """Put each of some windows into the lowest order that a quick look finds, whether or not the peak is there; also
    say whether Ctrl-C ended the search. `order`: positions in the graph's own order. `windows`: steps ``[begin, end)``;
    none of `MOST` ops or more is looked at."""
    best = list(order)
    try:
        for begin, end in windows:
            if limits.over():
                break
            if end - begin < MOST:
                steps = profile(model, best)
                peak = max(steps.footprint[begin:end])
                found = _searched(model, best, steps, (begin, end), _STATES[1], limits, peak, decided=False)
                best[begin:end] = found.ops or best[begin:end]
    except KeyboardInterrupt:
        return tuple(best), True
    return tuple(best), False


def _windows(steps: Profile) -> Iterator[tuple[int, int, int]]:
    """Windows around the first step of the peak, with the states for each: small ones and quick looks first."""
    ops = len(steps.footprint)
    at = max(range(ops), key=lambda k: steps.footprint[k])
    for states in _STATES:
        seen = set()
        for size in _SIZES:
            for shift in _SHIFTS:
                begin = max(0, at - int(size * shift))
                window = (begin, min(ops, begin + size))
                if window not in seen:
                    seen.add(window)
                    yield (*window, states)
            if size >= ops:
                break


class _Found(NamedTuple):
    """The ops of a window in a better order, if one was found, and the states that took."""

    ops: list[int] | None
    states: int


def _searched(
    model: MemoryModel,
    order: Sequence[int],
    steps: Profile,
    window: tuple[int, int],
    states: int,
    limits: Limits,
    peak: int,
    *,
    decided: bool = True,
) -> _Found:
    """The ops of a window in an order below a peak, the first that is found if that is to be decided."""
    count(_OP * len(order))
    begin, end = window
    ops = order[begin:end]
    position = {op: k for k, op in enumerate(ops)}
    touched: dict[int, list[int]] = {}
    for k, op in enumerate(ops):
        for s in model.touched[op]:
            touched.setdefault(s, []).append(k)
    number = {s: k for k, s in enumerate(touched)}
    around = sum(
        storage.size
        for s, storage in enumerate(model.storages)
        if s not in number and steps.first[s] < begin and steps.last[s] >= end
    )
    core = _core.Model(
        preds=[sorted(position[p] for p in model.graph.predecessors[op] if p in position) for op in ops],
        sizes=[model.storages[s].size for s in touched],
        users=list(touched.values()),
        at_start=[steps.first[s] < begin for s in touched],
        at_end=[steps.last[s] >= end for s in touched],
        workspace=[model.workspace[op] for op in ops],
        overwrites=[[(number[o.storage], o.saving) for o in model.overwrites[op]] for op in ops],
    )
    result = _core.solve(
        core,
        start=list(range(len(ops))),
        switches=Exact().switches,
        seconds=limits.clock_seconds,
        memory_bytes=limits.memory_bytes,
        seed=limits.seed,
        budget=peak - 1 - around,
        until_decided=decided,
        until_impossible=False,
        first_slice=_FIRST_SLICE,
        most_states=states,
        report=None,
    )
    count(result.work)
    if result.stopped == "interrupt":
        raise KeyboardInterrupt
    better = [ops[k] for k in result.order] if result.peak + around < peak else None
    return _Found(better, result.states + result.beam_states)
