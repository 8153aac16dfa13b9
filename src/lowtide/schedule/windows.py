"""A better order from a given one, window by window: what runs around its peak is ordered anew, all else stays.

Graphs of parts are long and much alike, and one order of all is out of reach of a search of all of them; but
their peaks are a few steps, and what is wrong there is mostly near. The ops of a window are a problem of their own:
what is live before and behind it is fixed, and the exact scheduler (`lowtide.schedule.exact`) says whether some order
of them stays below the peak. Where none does, a wider window is asked, or an adjacent one. Nothing is proved of
the graph.
Source: large neighbourhood search (Shaw 1998), with windows of an order as neighbourhoods.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lowtide import _core
from lowtide.analyse.liveness import Profile, profile
from lowtide.analyse.model import MemoryModel
from lowtide.schedule.exact import Exact
from lowtide.stop import Limits, Patience, Progress

_SIZES = (64, 128, 256, 512, 1024, 2048)
_SHIFTS = (0.5, 0.25, 0.75)
"""Where in a window the peak stands."""

_SECONDS = (0.1, 0.5, 2.0, 8.0)  # for the search of a window: quick looks at all of them first

_FIRST_SLICE = 500

MOST = 2048  # ops of a window that is looked at whether or not the peak is there, at the most


def improved(model: MemoryModel, order: Sequence[int], limits: Limits, enough: int = 0) -> tuple[tuple[int, ...], bool]:
    """Find an order of no higher peak; also say whether Ctrl-C ended the search. It ends, too, when it gained
    nothing for as long as it took until its last gain (`lowtide.stop.Patience`). `order`: positions in the graph's
    file order. `enough`: bytes; no lower peak is of use."""
    best, patience = list(order), Patience()
    try:
        while _lowered(model, best, limits, enough, patience):
            patience.gain()
    except KeyboardInterrupt:
        return tuple(best), True
    return tuple(best), False


def _lowered(model: MemoryModel, order: list[int], limits: Limits, enough: int, patience: Patience) -> bool:
    """Put one window of an order into a better one; whether there was one."""
    steps = profile(model, order)
    if steps.peak <= enough:
        return False
    for begin, end, seconds in _windows(steps):
        if limits.over() or not patience.left_seconds:
            return False
        if limits.report is not None:
            limits.report(Progress(steps.peak, enough, limits.spent_seconds))
        left = min(seconds, limits.left_seconds, patience.left_seconds)
        ops = _below(model, order, steps, (begin, end), left, limits, steps.peak)
        if ops is not None:
            order[begin:end] = ops
            return True
    return False


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
                steps, left = profile(model, best), min(_SECONDS[1], limits.left_seconds)
                peak = max(steps.footprint[begin:end])
                ops = _below(model, best, steps, (begin, end), left, limits, peak, decided=False)
                if ops is not None:
                    best[begin:end] = ops
    except KeyboardInterrupt:
        return tuple(best), True
    return tuple(best), False


def _windows(steps: Profile) -> Iterator[tuple[int, int, float]]:
    """Windows around the first step of the peak, with the seconds for each: small ones and quick looks first."""
    ops = len(steps.footprint)
    at = max(range(ops), key=lambda k: steps.footprint[k])
    for seconds in _SECONDS:
        seen = set()
        for size in _SIZES:
            for shift in _SHIFTS:
                begin = max(0, at - int(size * shift))
                window = (begin, min(ops, begin + size))
                if window not in seen:
                    seen.add(window)
                    yield (*window, seconds)
            if size >= ops:
                break


def _below(
    model: MemoryModel,
    order: Sequence[int],
    steps: Profile,
    window: tuple[int, int],
    seconds: float,
    limits: Limits,
    peak: int,
    *,
    decided: bool = True,
) -> list[int] | None:
    """The ops of a window in an order below a peak, the first that is found if that is to be decided; None: there is
    none, or none was found."""
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
        seconds=seconds,
        memory_bytes=limits.memory_bytes,
        seed=limits.seed,
        budget=peak - 1 - around,
        until_decided=decided,
        until_impossible=False,
        first_slice=_FIRST_SLICE,
        report=None,
    )
    if result.stopped == "interrupt":
        raise KeyboardInterrupt
    return [ops[k] for k in result.order] if result.peak + around < peak else None
