"""In-place row streaming: line buffers or results of a loop that overlap an input which dies in the loop.

    input           |##########|   rows that are read for the last time are free
    buffers       |..|~~~~~~|      begin `distance` bytes below: the first slots are written before the first rows die

A line buffer writes its slots in turn, so each of its bytes has a first write; so has each byte of a result. The rows
of the input die in turn. Simulation of the loop (`core/cut/loop.h`) gives both, and `distance` is the most by which a
first write precedes a last read. Line buffers of one block are sorted by bytes less own distance. This minimises the
distance of the block, as sorting by due dates minimises the maximum lateness of jobs (Jackson 1955).

Source: DMO (Blacker et al. 2020) and vMCU (MLSys 2024) for the output of one op; here for all that a loop keeps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from math import prod

from lowtide import _core
from lowtide.ops.index import Index
from lowtide.sizes import round_up
from lowtide.transform.loops import Axes, Loop, LoopRules, Over

Row = tuple[int, int, int, int, int]  # an index of the core: num, den, lo, hi, size
_NONE: Row = (0, 1, 0, 0, 1)  # of the columns where rows alone are looked at
_Reads = dict[int, list[tuple[int, Row, Row]]]
"""Of each op that reads an input: which one, and how its rows and columns are read, each time."""


def leads(rules: LoopRules, tensor: int, dims: Axes) -> bool:
    """Whether positions along these dimensions lie one after the other in memory: nothing is before them or between
    them, and none is several rows with columns of its own."""
    shape, lying = rules.graph.tensor_by_id[tensor].shape or (), rules.memory_dims(tensor)
    places = [lying.index(d) for d in dims]
    single = all(rules.grain(tensor, d) == 1 for d in dims[:-1])
    before = prod(shape[d] for d in lying[: places[0]])
    return single and before == 1 and all(b == a + 1 for a, b in pairwise(places))


def outside_reads(
    rules: LoopRules, axes: Mapping[int, Axes], order: Sequence[int], dying: Sequence[int]
) -> dict[int, tuple[_Reads, int]]:
    """Of each input that dies row by row how it is read, and bytes of a position; those that do not are left out."""
    result: dict[int, tuple[_Reads, int]] = {}
    for t in dying:
        readers = [o for o in order if t in rules.graph.op_by_id[o].inputs]
        along = {rules.read_along(o, t, axes[o]) for o in readers}
        dims = along.pop() if len(along) == 1 else None
        if dims is None or not leads(rules, t, dims[:1]):
            continue
        dims = dims if leads(rules, t, dims) else dims[:1]
        unit = rules.slot_bytes(t, dims)
        if unit is not None:
            result[t] = ({o: _read(rules, o, t, dims, len(result)) for o in readers}, unit)
    return result


def _read(rules: LoopRules, op: int, tensor: int, dims: Axes, number: int) -> list[tuple[int, Row, Row]]:
    counts = rules.tensor_counts(tensor, dims)
    result = []
    for t, read in rules.reads(op):
        if t == tensor:
            rows = [_row(rules, op, read[d], tensor, d, many) for d, many in zip(dims, counts, strict=True)]
            result.append((number, rows[0], rows[1] if len(rows) > 1 else _NONE))
    return result


def _row(rules: LoopRules, op: int, read: Index | None, tensor: int, dim: int, count: int) -> Row:
    assert read is not None, (op, tensor)
    index = rules.index(op, read, tensor, dim)
    return index.num, index.den, index.lo, index.hi, count


def best_over(
    rules: LoopRules,
    loop: Loop,
    play: _core.LoopPlay,
    inputs: Sequence[int],
    number: Mapping[int, int],
    results: Mapping[int, int],
) -> Loop:
    """The loop with the overlap that saves most; unmodified if none saves bytes. `play`: of the loop, with these
    inputs. `number`: of each tensor in the play. `results`: for each materialised result in consecutive positions, the
    number of the tensor that is written first in its memory."""
    unit, graph = rules.target.alignment, rules.graph
    best = loop
    for k, t in enumerate(inputs):
        size = graph.tensor_by_id[t].size
        options = [_block_over(loop, play, k, t, size, number, unit)]
        options += [_shared_over(loop, play, k, t, size, number, unit)] if loop.shared else []
        for result, first in results.items():
            distance = _least(play.behind[k][first], unit)
            own = graph.tensor_by_id[result].size
            options.append(replace(loop, over=Over(result, t, distance, min(size, own - distance))))
        for option in options:
            assert option.over is not None, option
            best = option if taken(option, unit) < taken(best, unit) else best
    return best


def taken(loop: Loop, alignment: int) -> int:
    """Bytes of a loop in addition to its inputs and results, less the overlap with an input."""
    return loop.workspace(alignment) - (0 if loop.over is None else loop.over.saving)


def _least(behind: int, unit: int) -> int:
    return round_up(max(0, behind), unit)


def _block_over(
    loop: Loop, play: _core.LoopPlay, k: int, tensor: int, size: int, number: Mapping[int, int], unit: int
) -> Loop:
    """All line buffers and accumulators overlap an input, in the order of least distance."""
    buffers = {t: round_up(bytes_, unit) for t, bytes_ in loop.buffers()}
    laid, distance = least_block(buffers, _late(loop, play, k, number))
    distance = _least(distance, unit)
    saving = min(size, sum(buffers.values()) - distance)
    return replace(loop, laid=tuple(laid), shared=(), over=Over(None, tensor, distance, saving))


def _shared_over(
    loop: Loop, play: _core.LoopPlay, k: int, tensor: int, size: int, number: Mapping[int, int], unit: int
) -> Loop:
    """The same, where line buffers share memory."""
    late, at = _late(loop, play, k, number), dict(loop.shared)
    distance = _least(max(at[t] + late[t] for t in at), unit)
    return replace(loop, over=Over(None, tensor, distance, min(size, loop.workspace(unit) - distance)))


def _late(loop: Loop, play: _core.LoopPlay, k: int, number: Mapping[int, int]) -> dict[int, int]:
    """Bytes by which each line buffer and accumulator alone has to begin below an input."""
    sums = dict(loop.accumulators)
    tensors = [t for t, _ in loop.buffers()]
    return {t: sums[t] - play.begun[k][number[t]] if t in sums else play.behind[k][number[t]] for t in tensors}


def least_block(buffers: Mapping[int, int], late: Mapping[int, int]) -> tuple[list[int], int]:
    """The order of adjacent buffers whose block begins the fewest bytes below an input; and these bytes, at least 0.
    `buffers`: bytes of each. `late`: bytes by which each alone has to begin below the input; negative: it may begin
    above its start."""
    laid = sorted(buffers, key=lambda t: buffers[t] - late[t])
    distance = at = 0
    for t in laid:
        distance, at = max(distance, at + late[t]), at + buffers[t]
    return laid, distance
