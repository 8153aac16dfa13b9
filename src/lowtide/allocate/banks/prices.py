"""Prices of memory, section by section: how much more an assignment must cost, and where to look first.

Lagrangian relaxation of the temporal knapsack: a byte in memory k during section t costs ``price[k, t]``, and
capacities are no limit. Each buffer then takes its cheapest memory by itself, and for any prices

    sum over buffers of min over k (cost[b, k] + what its bytes cost in k) - sum over k, t of price[k, t] * capacity[k]

is a lower bound of every assignment whose loads fit. Prices rise where too much is wanted and fall where room is left
(a subgradient step), which tends to the bound of the linear relaxation.

Source: Fisher, "The Lagrangian relaxation method for solving integer programming problems", Management Science 27
(1981).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lowtide.allocate.banks.bank import Demand, Loads

if TYPE_CHECKING:
    import numpy as np


ROUNDS = 4000  # subgradient steps
WORK = 20_000_000  # steps times buffers and sections that an instance may cost; at least 100 steps are made
PATIENCE = 60  # steps without a better bound after which they get half as long


@dataclass(frozen=True)
class Prices:
    """The best prices found."""

    bound: float  # no assignment that fits costs less, up to rounding
    slack: list[tuple[float, ...]]  # per section and memory, the price of a byte
    # Per buffer and place in its list, how much more it costs there than where it is cheapest, prices included.
    extra: list[tuple[float, ...]]


def find_prices(loads: Loads, demands: Sequence[Demand], capacities: Sequence[int], upper: int) -> Prices:
    """Find prices, given the cost `upper` of an assignment that fits, or of one that is not to be exceeded."""
    import numpy as np

    sections, banks = len(loads.sections), len(capacities)
    owner, begin, end, size = _stretches(loads)
    room = np.array(capacities, dtype=np.float64)[:, None]
    cost = np.full((loads.count, banks), np.inf)
    for b, d in enumerate(demands):
        for place, k in enumerate(d.allowed):
            cost[b, k] = place * d.bytes
    price = np.zeros((banks, sections))
    best, kept, stale, step = -1.0, price, 0, 1.0
    rows = np.arange(loads.count)  # without prices the bound is 0, so the first step betters it
    for _ in range(min(ROUNDS, max(100, WORK // (banks * (loads.count + sections))))):
        full = cost + _paid(price, owner, begin, end, size, loads.count)
        chosen = full.argmin(axis=1)
        bound = float(full[rows, chosen].sum() - (price * room).sum())
        if bound > best + 1e-9 * abs(best):
            best, kept, stale = bound, price, 0
        else:
            stale += 1
            if stale >= PATIENCE:
                step, stale, price = step / 2, 0, kept
                if step < 1e-3:
                    break
                continue
        over = np.zeros((banks, sections + 1))
        np.add.at(over, (chosen[owner], begin), size)
        np.add.at(over, (chosen[owner], end), -size)
        excess = np.cumsum(over[:, :sections], axis=1) - room
        excess[(excess < 0) & (price <= 0)] = 0
        length = float((excess * excess).sum())
        if length == 0 or bound >= upper:
            break
        price = np.maximum(0.0, price + step * (upper - bound) / length * excess)
    full = cost + _paid(kept, owner, begin, end, size, loads.count)
    least = full.min(axis=1)
    extra = [tuple(float(full[b, k] - least[b]) for k in d.allowed) for b, d in enumerate(demands)]
    bound = float(least.sum() - (kept * room).sum())
    return Prices(bound, [tuple(float(x) for x in kept[:, t]) for t in range(sections)], extra)


def _paid(
    price: np.ndarray, owner: np.ndarray, begin: np.ndarray, end: np.ndarray, size: np.ndarray, count: int
) -> np.ndarray:
    """Per buffer and memory, what its bytes cost in all its sections."""
    import numpy as np

    paid = np.zeros((count, len(price)))
    for k, row in enumerate(price):
        total = np.concatenate(([0.0], np.cumsum(row)))
        np.add.at(paid[:, k], owner, (total[end] - total[begin]) * size)
    return paid


def _stretches(loads: Loads) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Buffer, first section, section after the last, and bytes of each stretch in which a buffer keeps its bytes."""
    import numpy as np

    rows: list[tuple[int, int, int, int]] = []
    since: dict[int, tuple[int, int]] = {}

    def close(i: int, t: int) -> None:
        start, size = since.pop(i)
        if size:
            rows.append((i, start, t, size))

    for t, section in enumerate(loads.sections):
        for i in section.ended:
            close(i, t)
        for i, _ in section.changed:
            close(i, t)
            since[i] = (t, section.live[i])
        for i in section.begun:
            since[i] = (t, section.live[i])
    for i in list(since):
        close(i, len(loads.sections))
    table = np.array(rows, dtype=np.int64).reshape(-1, 4)
    return table[:, 0], table[:, 1], table[:, 2], table[:, 3].astype(np.float64)
