"""An oracle of plans that tile ops: from the definitions alone it looks for a plan of few bytes, and shows it.

A plan runs each op whole, or in two parts or more along one axis (`support.changed_ops`). What a part reads of a whole
tensor is a slice of it, unless that is all of it. What it reads of a tensor that is there in tiles is a tile, a slice
of one, or tiles and slices concatenated. Tiles of a tensor that others need whole are concatenated into a tensor of its
own; results over parts of a summed axis are added one after another. All of these are steps, and run in any order that
the data allow. `Steps.replay` counts bytes live at each.

The oracle need not find the best plan: whatever it finds is a plan of the class over which `region_bound` speaks
(docs/proofs.md, section 15), and so no bound may be above it. Nothing here is lowtide's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from support.changed_nets import Net
from support.changed_ops import ELEMENTWISE, VIEWS, Axis
from support.changed_steps import Steps


@dataclass(frozen=True)
class Rules:
    """What of a target's memory model matters here.

    Attributes
    ----------
    views
        Whether a tensor in another shape shares the storage of the first.
    in_place
        Whether an elementwise op may write over an operand of the same size that dies there and is no graph input.
    """

    views: bool
    in_place: bool


RULES = {"strict": Rules(views=False, in_place=False), "generic": Rules(views=True, in_place=True)}


PARTS = (8, 4, 3, 2)
"""In how many parts ops are tiled, at the most; the most first."""


@dataclass(frozen=True)
class Tiling:
    """A choice for a net.

    Attributes
    ----------
    axes
        Of each op the axis along which it runs in parts; None: it runs whole.
    whole
        Tensors in tiles that all readers read whole, although some could read tiles.
    parts
        In how many parts ops run, at the most.
    """

    axes: tuple[Axis | None, ...]
    whole: frozenset[int]
    parts: int


@dataclass(frozen=True)
class Found:
    """A plan: its steps, their order, the peak, and the choice that led to it."""

    steps: Steps
    order: list[int]
    peak: int
    tiling: Tiling | None

    def text(self) -> str:
        """Step by step, with bytes live."""
        lines = [
            f"{b:8} {self.steps.steps[k].label}" for k, b in zip(self.order, self.steps.replay(self.order), strict=True)
        ]
        return "\n".join(lines)


class Oracle:
    """Plans for one net under one target.

    Parameters
    ----------
    handed_on
        Whether tiles of a tensor that nobody needs whole may be read by ops in another region.
    """

    def __init__(self, net: Net, rules: Rules, *, most_states: int = 40, most_tilings: int = 100) -> None:
        self.net, self.rules = net, rules
        self.most_states, self.most_tilings = most_states, most_tilings
        self.axes = [net.axes(op) for op in net.ops]
        self.maker = {t: v for v, op in enumerate(net.ops) for t in op.makes}
        self.readers: dict[int, list[int]] = {}
        for v, op in enumerate(net.ops):
            for t in set(op.reads):
                self.readers.setdefault(t, []).append(v)
        self.size = [net.bytes_of(t) for t in range(len(net.shapes))]
        self.outputs = set(net.outputs)
        self._built: dict[Tiling, Steps | None] = {}

    def whole(self) -> Steps:
        """The steps where no op is tiled."""
        steps = self._steps_of(Tiling((None,) * len(self.net.ops), frozenset(), 2))
        assert steps is not None
        return steps

    def plan_below(self, limit: int, *, joined: bool) -> Found | None:
        """A plan all of whose steps need less than `limit` bytes, if one is found.

        Parameters
        ----------
        joined
            Whether every tensor that leaves its region has to be concatenated.
        """
        tried = 0
        for axes in self._choices(limit):
            for whole in self._regions(axes, joined=joined):
                for parts in PARTS:
                    steps = self._steps_of(Tiling(axes, whole, parts))
                    if steps is None:
                        continue
                    if steps.compiled.least >= limit:
                        break  # with fewer parts each needs more
                    tried += 1
                    order = steps.compiled.order_below(limit, self.most_states)
                    if order is not None:
                        return Found(steps, order, max(steps.replay(order)), Tiling(axes, whole, parts))
                    if tried >= self.most_tilings:
                        return None
        return None

    def lowest_below(self, limit: int, *, joined: bool) -> Found | None:
        """The lowest plan that is found when the limit falls to each plan in turn."""
        best = None
        while (found := self.plan_below(limit, joined=joined)) is not None:
            best, limit = found, found.peak
        return best

    # what may be tiled

    def _choices(self, limit: int) -> Iterator[tuple[Axis | None, ...]]:
        """Axes of all ops, readers first: none where an op by itself needs too much."""
        chosen: list[Axis | None] = [None] * len(self.net.ops)

        def choose(v: int) -> Iterator[tuple[Axis | None, ...]]:
            if v < 0:
                if any(chosen) and self._none_alone(chosen):
                    yield tuple(chosen)
                return
            for axis in (*self.axes[v], None):
                chosen[v] = axis
                if self._fits(v, chosen, limit):
                    yield from choose(v - 1)
            chosen[v] = None

        yield from choose(len(self.net.ops) - 1)

    def _none_alone(self, chosen: Sequence[Axis | None]) -> bool:
        """Whether no op is tiled by itself, which needs no less than to run it whole: slices and tiles are copies."""
        hang = {x for v, _, u in self._tiles_read(chosen, frozenset()) for x in (v, u)}
        return all(axis is None or v in hang for v, axis in enumerate(chosen))

    def _fits(self, v: int, chosen: Sequence[Axis | None], limit: int) -> bool:
        op, axis = self.net.ops[v], chosen[v]
        made = sum(self.size[t] for t in op.makes)
        if axis is None:
            read = sum(self.size[t] for t in set(op.reads))
            if (self.rules.in_place and op.kind in ELEMENTWISE) or (self.rules.views and op.kind in VIEWS):
                return max(read, made) < limit
            return read + made < limit
        for j, t in enumerate(op.makes):
            summed = axis.made[j] is None
            if (summed or self._needed_whole(t, axis.made[j], chosen)) and 2 * self.size[t] >= limit:
                return False
            if summed and not self.rules.in_place and 3 * self.size[t] >= limit:
                return False
        return True

    def _needed_whole(self, t: int, dim: int | None, chosen: Sequence[Axis | None]) -> bool:
        return t in self.outputs or any(not self._along(u, t, dim, chosen[u]) for u in self.readers.get(t, ()))

    def _along(self, u: int, t: int, dim: int | None, axis: Axis | None) -> bool:
        """Whether op u, tiled along an axis, reads tiles of t along dimension `dim`, wherever it reads t."""
        if axis is None or dim is None:
            return False
        rows = [r for r, read in zip(axis.reads, self.net.ops[u].reads, strict=True) if read == t]
        return all(r is not None and r.dim == dim for r in rows)

    # which regions that makes

    def _regions(self, axes: tuple[Axis | None, ...], *, joined: bool) -> Iterator[frozenset[int]]:
        """Of tensors that are there in tiles, and whole: those of which nobody reads tiles, though some could."""
        mixed = list(
            dict.fromkeys(
                t
                for v, t, _ in self._tiles_read(axes, frozenset())
                if self._needed_whole(t, self._dim(v, t, axes), axes)
            )
        )
        for k in range(1 << min(len(mixed), 3)):
            whole = frozenset(t for i, t in enumerate(mixed) if k >> i & 1)
            if self._regions_run(axes, whole, joined):
                yield whole

    def _dim(self, v: int, t: int, axes: Sequence[Axis | None]) -> int | None:
        """The dimension of a tensor along which op v, which is tiled, makes it."""
        axis = axes[v]
        assert axis is not None
        return axis.made[self.net.ops[v].makes.index(t)]

    def _tiles_read(self, axes: Sequence[Axis | None], whole: frozenset[int]) -> Iterator[tuple[int, int, int]]:
        """(maker, tensor, reader), for each reader that takes tiles."""
        for t, v in self.maker.items():
            if axes[v] is None or t in whole:
                continue
            dim = self._dim(v, t, axes)
            for u in self.readers.get(t, ()):
                if self._along(u, t, dim, axes[u]):
                    yield v, t, u

    def _regions_run(self, axes: Sequence[Axis | None], whole: frozenset[int], joined: bool) -> bool:
        """Whether ops that have to be in one region are in regions that can run one after another.

        Who reads tiles is in its maker's region, unless all readers of that tensor read tiles and it may be handed on.
        """
        region = list(range(len(self.net.ops)))
        tiles = list(self._tiles_read(axes, whole))
        for v, t, u in tiles:
            if joined or self._needed_whole(t, self._dim(v, t, axes), axes):
                old, new = region[u], region[v]
                region = [new if r == old else r for r in region]
        taken = {(v, t, u) for v, t, u in tiles}
        before: dict[int, set[int]] = {r: set() for r in region}
        for t, v in self.maker.items():
            for u in self.readers.get(t, ()):
                if region[u] != region[v]:
                    before[region[u]].add(region[v])
                elif u != v and (v, t, u) not in taken:
                    return False
        done: set[int] = set()
        while len(done) < len(before):
            more = {r for r, needs in before.items() if r not in done and needs <= done}
            if not more:
                return False
            done |= more
        return True

    # the steps of a plan

    def _steps_of(self, tiling: Tiling) -> Steps | None:
        """The steps of a tiling; None if some op has a single part."""
        if tiling not in self._built:
            ends = self._ends(tiling)
            self._built[tiling] = None if ends is None else _Writer(self, tiling, ends).steps
        return self._built[tiling]

    def _ends(self, tiling: Tiling) -> dict[int, list[int]] | None:
        """Of each op that is tiled the row at which each of its parts ends: as far as its readers need it."""
        ends: dict[int, list[int]] = {}
        taken: dict[int, list[tuple[int, int]]] = {}
        for v, t, u in self._tiles_read(tiling.axes, tiling.whole):
            taken.setdefault(v, []).append((t, u))
        group = self._groups(tiling, taken)
        stripes: dict[int, int] = {}
        for v in reversed(range(len(self.net.ops))):
            axis = tiling.axes[v]
            if axis is None:
                continue
            grains = -(-axis.size // axis.grain)
            count = stripes.setdefault(group[v], min(tiling.parts, grains))
            equal = [min(axis.size, axis.grain * (grains * (i + 1) // count)) for i in range(count)] if count else []
            if v not in taken:
                ends[v] = equal
                continue
            wanted = [0] * count
            for t, u in taken[v]:
                for i in range(count):
                    wanted[i] = max(wanted[i], self._wanted(t, u, tiling.axes[u], ends[u][i]))
            made = self.net.ops[v].makes
            if any(self._needed_whole(t, axis.made[j], tiling.axes) for j, t in enumerate(made)):
                wanted[-1] = axis.size
            ends[v] = [min(axis.size, -(-w // axis.grain) * axis.grain) for w in wanted]
            ends[v] = [max(ends[v][: i + 1]) for i in range(count)]
        return None if any(len(set(rows) - {0}) < 2 for rows in ends.values()) else ends

    def _wanted(self, t: int, u: int, axis: Axis | None, end: int) -> int:
        assert axis is not None
        rows = [r for r, read in zip(axis.reads, self.net.ops[u].reads, strict=True) if read == t and r is not None]
        return max(r.needed(0, end, self.net.shapes[t][r.dim])[1] if end else 0 for r in rows)

    def _groups(self, tiling: Tiling, taken: dict[int, list[tuple[int, int]]]) -> list[int]:
        group = list(range(len(self.net.ops)))
        for v, reads in taken.items():
            for _, u in reads:
                old, new = group[v], group[u]
                group = [new if g == old else g for g in group]
        return group


class _Writer:
    """Writes the steps of a tiling, op by op and part by part."""

    def __init__(self, oracle: Oracle, tiling: Tiling, ends: dict[int, list[int]]) -> None:
        self.o, self.net, self.tiling, self.ends = oracle, oracle.net, tiling, ends
        self.steps = Steps(list(oracle.size), set(self.net.inputs), set(self.net.outputs))
        self.tiles: dict[int, tuple[int, list[tuple[int, int, int]]]] = {}
        self.given: dict[tuple[int, int, int, int, int], int] = {}
        tiles = {(t, u) for _, t, u in oracle._tiles_read(tiling.axes, tiling.whole)}
        for v, op in enumerate(self.net.ops):
            axis = tiling.axes[v]
            if axis is None:
                self._step(v, op.kind, op.reads, op.makes)
            else:
                self._parts(v, axis, tiles)

    def _step(
        self, v: int, label: str, reads: Sequence[int], makes: Sequence[int], after: int | None = None,
        rows: tuple[Axis, int, int] | None = None,
    ) -> int:  # fmt: skip
        op, sizes = self.net.ops[v], self.steps.sizes
        over: list[int] = []
        if self.o.rules.in_place and op.kind in ELEMENTWISE:
            over = [t for t in reads if sizes[t] == sizes[makes[0]]]
        view = self.o.rules.views and op.kind in VIEWS
        return self.steps.add(f"{label} {v}", reads, makes, view=view, over=over, after=after, how=("run", v, rows))

    def _parts(self, v: int, axis: Axis, tiles: set[tuple[int, int]]) -> None:
        op = self.net.ops[v]
        sums, begin, turn = [0] * len(op.makes), 0, None
        for i, end in enumerate(self.ends[v]):
            if end <= begin:
                continue
            reads = []
            for t, rows in zip(op.reads, axis.reads, strict=True):
                if rows is None:
                    reads.append(t)
                    continue
                a = begin // axis.grain * axis.grain
                first, stop = rows.needed(a, end, self.net.shapes[t][rows.dim])
                if first < stop:
                    reads.append(self._read(t, rows.dim, first, stop, i, (t, v) in tiles))
            makes = [self._made(t, axis.made[j], begin, end) for j, t in enumerate(op.makes)]
            turn = self._step(v, f"{op.kind}[{begin}:{end}]", reads, makes, turn, (axis, begin, end))
            for j, t in enumerate(op.makes):
                if axis.made[j] is None:
                    sums[j] = self._added(sums[j] if begin else None, makes[j], t if end == axis.size else None, axis)
            begin = end
        for j, t in enumerate(op.makes):
            if axis.made[j] is not None and self._whole_is_read(t, v, tiles):
                self.steps.add(f"concat {t}", [x for x, _, _ in self.tiles[t][1]], [t], how=("concat", axis.made[j]))

    def _whole_is_read(self, t: int, v: int, tiles: set[tuple[int, int]]) -> bool:
        return t in self.o.outputs or any((t, u) not in tiles for u in self.o.readers.get(t, ()))

    def _made(self, t: int, dim: int | None, begin: int, end: int) -> int:
        """A tile, or a term of a sum."""
        size = self.o.size[t]
        if dim is None:
            return self.steps.tensor(size)
        tile = self.steps.tensor(size * (end - begin) // self.net.shapes[t][dim])
        self.tiles.setdefault(t, (dim, []))[1].append((tile, begin, end))
        return tile

    def _added(self, so_far: int | None, term: int, last: int | None, axis: Axis) -> int:
        if so_far is None:
            return term
        made = self.steps.tensor(self.steps.sizes[term]) if last is None else last
        over = [so_far, term] if self.o.rules.in_place else []
        self.steps.add(axis.merge, [so_far, term], [made], over=over, how=("merge", axis.merge))
        return made

    def _read(self, t: int, dim: int, first: int, stop: int, stripe: int, tiled: bool) -> int:
        """A tensor that holds rows ``[first, stop)`` of t."""
        length = self.net.shapes[t][dim]
        if not tiled:
            return t if (first, stop) == (0, length) else self._slice(t, t, 0, dim, first, stop, stripe)
        held = [(x, a, b) for x, a, b in self.tiles[t][1] if a < stop and first < b]
        found = []
        for x, a, b in held:
            within = (max(a, first), min(b, stop))
            found.append(x if within == (a, b) else self._slice(x, t, a, dim, *within, stripe))
        if len(found) == 1:
            return found[0]
        key = (-1 - t, dim, first, stop, stripe)
        if key not in self.given:
            self.given[key] = self.steps.tensor(self.o.size[t] * (stop - first) // length)
            self.steps.add(f"concat {t}[{first}:{stop}]", found, [self.given[key]], how=("concat", dim))
        return self.given[key]

    def _slice(self, source: int, t: int, at: int, dim: int, first: int, stop: int, stripe: int) -> int:
        key = (source, dim, first, stop, stripe)
        if key not in self.given:
            self.given[key] = self.steps.tensor(self.o.size[t] * (stop - first) // self.net.shapes[t][dim])
            self.steps.add(
                f"slice {t}[{first}:{stop}]", [source], [self.given[key]], how=("slice", dim, first - at, stop - at)
            )
        return self.given[key]
