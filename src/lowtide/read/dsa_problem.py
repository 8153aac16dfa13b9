"""Placement problems as dsa-solver's JSON (`dsa-problem-v1`), which compilers for NPUs write; read, and nothing else.

A document has pools, buffers with half-open lifetimes, each in one pool, and what ties them. Pools have nothing to do
with each other, so each is a problem of its own.

Source: github.com/tonibohnlein/dsa-solver, docs/structured_problem_schema_v1.md and its JSON Schema, commit a8d1257.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from lowtide.errors import InputError
from lowtide.files import read_all
from lowtide.graph import MAX_BYTES

Natural = Annotated[int, msgspec.Meta(ge=0, le=2**62)]


class Interval(msgspec.Struct):
    """Steps from `lower` up to, not including, `upper`."""

    lower: Annotated[int, msgspec.Meta(ge=-(2**40), le=2**40)]
    upper: Annotated[int, msgspec.Meta(ge=-(2**40), le=2**40)]


class BufferEntry(msgspec.Struct):
    """A buffer: there in some intervals, in one of some pools."""

    id: Natural
    size: Natural
    live_intervals: list[Interval]
    allowed_pools: list[Natural]
    alignment: Annotated[int, msgspec.Meta(ge=1, le=2**40)] = 1
    name: str = ""


class Range(msgspec.Struct):
    """Addresses from `begin` up to, not including, `end`."""

    begin: Natural
    end: Natural


class Pool(msgspec.Struct):
    """A memory; a capacity of null is none."""

    id: Natural
    name: str = ""
    capacity: Natural | None = None
    reserved_ranges: list[Range] = []
    bank_geometry: Any = None


class Pair(msgspec.Struct):
    """Two buffers."""

    first: Natural
    second: Natural


class Pin(msgspec.Struct):
    """Where a buffer has to lie."""

    buffer: Natural
    pool: Natural
    offset: Natural
    exclusive_for_all_time: bool = False


class Constraints(msgspec.Struct):
    """What ties buffers."""

    colocations: list[Pair] = []
    separations: list[Pair] = []
    temporal_exclusions: list[Pair] = []
    pinned_allocations: list[Pin] = []


class Penalty(msgspec.Struct):
    """What it costs that two buffers share bytes, however many."""

    first: Natural
    second: Natural
    cost: Annotated[int, msgspec.Meta(ge=0, le=2**40)]


class CostModel(msgspec.Struct):
    """What a placement costs in addition to its height."""

    reuse_penalties: list[Penalty] = []


class Body(msgspec.Struct):
    """The problem itself."""

    pools: list[Pool]
    buffers: list[BufferEntry]
    constraints: Constraints = msgspec.field(default_factory=Constraints)
    cost_model: CostModel | None = None


class Document(msgspec.Struct):
    """The envelope."""

    schema_version: Literal[1]
    instance: str
    problem: Body
    profile: str = ""


@dataclass(frozen=True)
class PoolProblem:
    """What is to be placed in one pool."""

    pool: str  # its name, or its number where it has none
    capacity: int | None  # bytes there are; None if that is open
    buffers: tuple[BufferEntry, ...]  # those of the pool, under names that no two of them have
    names: dict[int, str]  # of each, by id
    apart: tuple[tuple[int, int], ...]  # ids of buffers that share no byte, ever
    offsets: dict[int, int]  # where some have to lie, by id
    reserved: tuple[tuple[int, int], ...]  # addresses that nothing may take, half-open
    # Pairs of ids, the smaller first, and what it costs that they share bytes; above 0.
    penalties: dict[tuple[int, int], int]


def read_dsa_problem(path: str | Path) -> list[PoolProblem]:
    """The pools of a document that hold buffers, in its order. Raises `InputError`: unreadable, no such document, ids
    that are not there or twice, a lifetime that is empty, sizes beyond 2^62 bytes, or what cannot be honoured: a buffer
    that may lie in several pools, colocations, temporal exclusions."""
    return parse_dsa_problem(read_all(path, "placement problem"), str(path))


def parse_dsa_problem(data: bytes, place: str = "") -> list[PoolProblem]:
    """The same of a document's bytes. Raises as `read_dsa_problem`."""
    try:
        document = msgspec.json.decode(data, type=Document)
    except msgspec.ValidationError as error:
        hint = "dsa-solver's docs/structured_problem_schema_v1.md says what it holds"
        raise InputError(f"not a dsa-problem of version 1: {error}; {hint}", place) from None
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise InputError(f"not JSON: {error}; is the file complete?", place) from None
    body, constraints = document.problem, document.problem.constraints
    for what, entries in (
        ("colocations", constraints.colocations), ("temporal_exclusions", constraints.temporal_exclusions),
    ):  # fmt: skip
        if entries:
            raise InputError(f"{what} cannot be honoured; give a problem without", place)
    pools = {pool.id: pool for pool in body.pools}
    if len(pools) < len(body.pools):
        ids = [pool.id for pool in body.pools]
        twice = next(k for k in ids if ids.count(k) > 1)
        raise InputError(f"two pools have the same id, {twice}; give each its own", place)
    home = _homes(body, pools, place)
    penalties = _penalties(body, home, place)
    problems = [_of_pool(body, home, pool, penalties, place) for pool in body.pools]
    return [problem for problem in problems if problem.buffers]


def _homes(body: Body, pools: dict[int, Pool], place: str) -> dict[int, int]:
    """The pool of each buffer, and all that can be wrong with a single one."""
    home: dict[int, int] = {}
    total = 0
    for b in body.buffers:
        where = f"buffer {b.id}"
        if b.id in home:
            raise InputError(f"{where} is listed twice; give each an id of its own", place)
        if len(b.allowed_pools) != 1:
            raise InputError(
                f"{where} may lie in {len(b.allowed_pools)} pools; name the one that it shall lie in", place
            )
        if b.allowed_pools[0] not in pools:
            raise InputError(f"{where} lies in pool {b.allowed_pools[0]}, which does not exist; list the pool", place)
        ordered = sorted(b.live_intervals, key=lambda i: i.lower)
        if not ordered or any(i.lower >= i.upper for i in ordered):
            raise InputError(f"{where} has no lifetime, or an empty one: lower must be below upper", place)
        if any(one.upper > two.lower for one, two in pairwise(ordered)):
            raise InputError(f"{where} has lifetimes that overlap; merge them", place)
        total += b.size + b.alignment
        home[b.id] = b.allowed_pools[0]
    if total > MAX_BYTES:
        raise InputError("the sizes add up to more than 2^62 bytes; check them", place)
    return home


def _penalties(body: Body, home: dict[int, int], place: str) -> dict[tuple[int, int], int]:
    """Of each pair in one pool what its reuse costs; a pair that is named twice pays both."""
    costs: dict[tuple[int, int], int] = {}
    for penalty in body.cost_model.reuse_penalties if body.cost_model is not None else ():
        for number in (penalty.first, penalty.second):
            if number not in home:
                raise InputError(f"a penalty names buffer {number}, which does not exist; leave it out", place)
        if penalty.first == penalty.second:
            raise InputError(f"a penalty names buffer {penalty.first} twice; name two buffers", place)
        pair = min(penalty.first, penalty.second), max(penalty.first, penalty.second)
        if penalty.cost and home[pair[0]] == home[pair[1]]:
            costs[pair] = costs.get(pair, 0) + penalty.cost
    if sum(costs.values()) > MAX_BYTES:
        raise InputError("the penalties add up to more than 2^62; give them in a larger unit", place)
    return costs


def _of_pool(
    body: Body, home: dict[int, int], pool: Pool, penalties: dict[tuple[int, int], int], place: str
) -> PoolProblem:
    mine = tuple(b for b in body.buffers if home[b.id] == pool.id)
    counts: dict[str, int] = {}
    for b in mine:
        counts[b.name] = counts.get(b.name, 0) + 1
    names = {b.id: b.name if b.name and counts[b.name] == 1 else f"{b.name}#{b.id}" for b in mine}
    apart: dict[tuple[int, int], None] = {}
    for pair in body.constraints.separations:
        for number in (pair.first, pair.second):
            if number not in home:
                raise InputError(f"a separation names buffer {number}, which does not exist; leave it out", place)
        if pair.first == pair.second:
            raise InputError(f"buffers {pair.first} and {pair.second} cannot be kept apart: they are not two", place)
        if home[pair.first] == home[pair.second] == pool.id:
            apart[min(pair.first, pair.second), max(pair.first, pair.second)] = None
    offsets: dict[int, int] = {}
    for pin in body.constraints.pinned_allocations:
        if pin.buffer not in home:
            raise InputError(f"a pin names buffer {pin.buffer}, which does not exist; leave it out", place)
        if home[pin.buffer] != pin.pool or pin.buffer in offsets:
            raise InputError(
                f"buffer {pin.buffer} is pinned twice, or in a pool that is not its own; pin it once, in its pool",
                place,
            )
        if pin.exclusive_for_all_time:
            raise InputError(
                f"buffer {pin.buffer} is exclusive for all time, which cannot be honoured; keep it apart instead", place
            )
        if pin.pool == pool.id:
            offsets[pin.buffer] = pin.offset
    if pool.bank_geometry is not None:
        raise InputError(f"pool {pool.id} has banks, which cannot be honoured; give it without bank_geometry", place)
    reserved = tuple((r.begin, r.end) for r in pool.reserved_ranges)
    if any(begin >= end for begin, end in reserved):
        raise InputError(f"pool {pool.id} reserves an empty range; begin must be below end", place)
    name = pool.name or str(pool.id)
    costs = {pair: cost for pair, cost in penalties.items() if home[pair[0]] == pool.id}
    return PoolProblem(name, pool.capacity, mine, names, tuple(apart), offsets, reserved, costs)
