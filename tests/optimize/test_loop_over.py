"""What loops write over inputs that die in them: as low as it has to be, and no lower."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lowtide
from lowtide.errors import VerificationError
from lowtide.graph import Graph
from lowtide.ops.raster import memory_dims
from lowtide.optimize.loop_over import least_block
from lowtide.plan import Plan
from lowtide.rewrites import PlanLoop
from lowtide.target import resolve
from lowtide.verify.check.loop_play import LoopPlay
from support.loop_files import SLOW, random_file, sliding, written
from support.tflite_builder import SAME, Net


def narrowing() -> Net:
    """An input that is the largest tensor, and a chain that needs a few rows of everything behind it."""
    net = Net()
    x = net.tensor((1, 24, 10, 3))
    y = net.conv(x, 8, (3, 3), (1, 1), SAME)
    y = net.conv(y, 1, (3, 3), (1, 1), SAME, depthwise=True)
    y = net.conv(y, 8, (1, 1))
    net.ends([x], [net.conv(y, 1, (3, 3), (3, 3), SAME)])
    return net


def diagonal() -> Net:
    """A convolution whose result is as large as its input: it can begin a row lower."""
    net = Net()
    x = net.tensor((1, 16, 8, 4))
    net.ends([x], [net.conv(x, 4, (3, 3), (1, 1), SAME)])
    return net


def planned(net: Net, folder: Path) -> tuple[Path, Plan]:
    """A network's file and its plan with loops."""
    model = written(net, folder)
    return model, lowtide.research.plan(model, target="loops", allow="row-streaming", time=20)


def test_rings_lie_over_the_input(tmp_path: Path) -> None:
    """The arena is the input, the result and what lies below the input; the replay finds every byte in its place."""
    model, plan = planned(narrowing(), tmp_path)
    (loop,) = list(plan.loops or ())
    assert list(loop.behind) == ["0"]
    assert loop.over not in {t.id for t in lowtide.load(model).tensors}
    kept = sum(r.slots * r.bytes for r in loop.keep.values() if r.over is None)
    assert loop.behind["0"] < kept
    assert plan.required_bytes == 24 * 10 * 3 + 8 * 4 + loop.behind["0"]
    assert [(out, read) for out, read, _ in plan.overlap or ()] == [(loop.over, 0)]
    lowtide.verify(model, plan, run=True, prove=True)


def test_a_result_lies_a_row_below_the_input(tmp_path: Path) -> None:
    """One op is a loop where its result can lie over what it reads: by hand, two rows of 32 B are still read."""
    model, plan = planned(diagonal(), tmp_path)
    (loop,) = list(plan.loops or ())
    assert (len(loop.ops), loop.keep, loop.over) == (1, {}, lowtide.load(model).ops[0].outputs[0])
    assert loop.behind in ({"0": 64}, {"0": 48})  # by rows, or by pixels: a row and a pixel of 4 B, rounded up
    assert plan.required_bytes == 512 + loop.behind["0"]
    lowtide.verify(model, plan, run=True, prove=True)


@pytest.mark.parametrize("net", [narrowing(), diagonal()])
def test_no_byte_nearer_holds(tmp_path: Path, net: Net) -> None:
    """`verify` works the distance out by itself: a plan that says less is refused."""
    model, plan = planned(net, tmp_path)
    (loop,) = list(plan.loops or ())
    less = msgspec.structs.replace(loop, behind={"0": loop.behind["0"] - 16})
    with pytest.raises(VerificationError, match="which it still reads"):
        lowtide.verify(model, msgspec.structs.replace(plan, loops=[less]))


def test_what_lies_nearer_than_the_plan_says_is_refused(tmp_path: Path) -> None:
    """Addresses are looked at, too."""
    model, plan = planned(diagonal(), tmp_path)
    offsets = dict.fromkeys(plan.offsets or {}, 0)
    with pytest.raises(VerificationError):
        lowtide.verify(model, msgspec.structs.replace(plan, offsets=offsets))


def test_an_input_that_is_kept_is_not_written_over(tmp_path: Path) -> None:
    """Neither is one that others read."""
    model, _ = planned(diagonal(), tmp_path)
    plan = lowtide.research.plan(model, target="loops,overwrite_inputs=false", allow="row-streaming", time=20)
    assert not plan.loops
    assert plan.required_bytes == 1024


def test_only_where_positions_lie_in_turn(tmp_path: Path) -> None:
    """Rows of an image are no stretch where its channels are second, as the file has them, and are where they are
    last."""
    model = written(sliding(), tmp_path)
    assert not lowtide.research.plan(model, target="loops", allow="row-streaming", time=20).loops
    plan = lowtide.research.plan(model, target="loops,layout=channels_last", allow="row-streaming", time=20)
    (loop,) = list(plan.loops or ())
    assert loop.behind in ({"0": 256}, {"0": 160})  # two rows, or a row and two pixels of 16 B
    assert lowtide.verify(model, plan)
    as_the_file = msgspec.structs.replace(plan, target="loops", rules=resolve("loops"))
    with pytest.raises(VerificationError, match="from its first byte"):
        lowtide.verify(model, as_the_file)


def least_distance(graph: Graph, loop: PlanLoop, begin: int, *, channels_last: bool = False) -> int:
    """By brute force: bytes of memory, and of each the last time at which the input is read there."""
    play, key = LoopPlay(graph, loop), int(next(iter(loop.behind)))
    tensor = graph.tensor_by_id[key]
    lying = memory_dims(graph, key, channels_last=channels_last)
    shape = tuple((tensor.shape or ())[d] for d in lying)
    unit = tensor.size
    for size in shape:
        unit //= size
    read, last = 0, [-1] * tensor.size
    events = list(play.events())
    for time, event in enumerate(events):
        op = None if event.op is None else graph.op_by_id[event.op]
        for t, rows in [] if op is None else play.outside(op, event.position):
            if t == key:
                boxes = [0]
                for (a, b), size in zip((rows[d] for d in lying), shape, strict=True):
                    boxes = [at * size + r for at in boxes for r in range(a, b)]
                for at in boxes:
                    last[at * unit : (at + 1) * unit] = [time] * unit
                    read += 1
    assert read
    writes: list[tuple[int, int, int]] = []
    for time, event in enumerate(events):
        for t in event.makes:
            ring, added = loop.keep.get(str(t)), loop.sums.get(str(t))
            if loop.over == t:
                size = graph.tensor_by_id[t].size // (play.sizes(t)[0] * play.sizes(t)[1])
                writes.append((time, event.position * size, size))
            elif loop.over in graph.tensor_by_id:
                continue
            elif ring is not None and ring.over is None:
                writes.append((time, (ring.offset or 0) - begin + event.position % ring.slots * ring.bytes, ring.bytes))
            elif added is not None:
                writes.append((time, (added.offset or 0) - begin, added.bytes))

    def holds(distance: int) -> bool:
        for time, at, size in writes:
            for byte in range(max(0, at - distance), min(at + size - distance, tensor.size)):
                if last[byte] >= time:
                    return False
        return True

    return next(d for d in range(10**6) if holds(d))


@pytest.mark.slow
@given(st.data())
@settings(max_examples=8, deadline=None, suppress_health_check=SLOW)
def test_distances_are_those_of_single_bytes(data: st.DataObject) -> None:
    """Of random networks: never less than bytes need, and no more where all that is written is in turn."""
    with TemporaryDirectory() as folder:
        model = random_file(data, Path(folder), 5)
        graph, onnx = lowtide.load(model), model.suffix == ".onnx"
        layout = ",layout=channels_last" if onnx else ""
        plan = lowtide.research.plan(model, target=f"loops,alignment=1{layout}", allow="row-streaming", time=20)
        lowtide.verify(model, plan)
        for loop in plan.loops or ():
            if loop.behind and loop.over is not None and not any(r.over is not None for r in loop.keep.values()):
                begin = (plan.offsets or {}).get(str(loop.over), 0)
                assert least_distance(graph, loop, begin, channels_last=onnx) <= next(iter(loop.behind.values()))


def test_rings_are_laid_by_what_is_late() -> None:
    """The order of pieces in a block is the best of all orders, by trying them."""
    draw = Random(4)
    for _ in range(200):
        pieces = {t: 16 * draw.randint(1, 6) for t in range(draw.randint(1, 5))}
        late = {t: draw.randint(-100, 100) for t in pieces}

        def distance(order: tuple[int, ...], pieces: dict[int, int] = pieces, late: dict[int, int] = late) -> int:
            at = most = 0
            for t in order:
                most, at = max(most, at + late[t]), at + pieces[t]
            return most

        assert least_block(pieces, late)[1] == min(map(distance, permutations(pieces)))
