"""Plans that cut for a fast memory: less moves than without, also below the largest op, and all of it is checked."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import msgspec
import pytest

import lowtide
from lowtide.cli import main
from lowtide.errors import InputError, VerificationError
from lowtide.ops.working_set import working_set_bound
from lowtide.plan import Plan, from_json
from lowtide.spill_plan import PlanStream
from lowtide.stop import Progress
from lowtide.write.command_stream import command_stream
from support.small_nets import pyramid

MODEL_SIZES = (1800, 2304, 4608, 30_000)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network that is worth cutting."""
    path = tmp_path_factory.mktemp("tiers") / "net.onnx"
    path.write_bytes(pyramid().model().SerializeToString())
    return path


def planned(model: Path, fast: int, **how: object) -> Plan:
    """Its plan with cuts in so much fast memory."""
    return lowtide.research.plan(model, target="strict", memories={"fast": fast}, allow="tile", time=20, **how)  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.parametrize("fast", MODEL_SIZES)
def test_a_plan_with_cuts_and_moves_holds(model: Path, fast: int) -> None:
    """Checked, proved again where it is proved, and run: also below what an op of the model needs by itself."""
    plan = planned(model, fast)
    assert plan.status == "ok"
    assert plan.moves is not None
    again = from_json(plan.to_json())
    report = lowtide.verify(model, again, prove=True, run=True)
    names = [rule.name for rule in report.checks]
    assert ("parts" in names) == (plan.exactness is not None)
    assert ("streams" in names) == (plan.streams is not None)
    assert plan.memories is not None
    assert (plan.memories[0].size_bytes or 0) <= fast
    without = lowtide.research.plan(model, target="strict", memories={"fast": fast}, time=20)
    if without.moves is not None:
        assert (plan.traffic_bytes or 0) <= (without.traffic_bytes or 0)
    else:
        assert without.status == "impossible"


@pytest.fixture(scope="module")
def streaming(model: Path) -> Plan:
    """A plan whose input does not fit whole, nor does something between two regions."""
    plan = planned(model, 2048)
    assert any(s.stored_bytes for s in plan.streams or [])
    return plan


def test_nothing_is_cut_where_nothing_moves(model: Path) -> None:
    """The uncut model fits: no ops more than there are."""
    plan = planned(model, 40_000)
    assert (plan.traffic_bytes, plan.rewrites, plan.exactness, plan.optimal) == (0, None, None, True)


@pytest.mark.slow
def test_where_a_cut_fits_whole_nothing_moves(model: Path) -> None:
    """Traffic falls to none, with the fewest ops of those that do it."""
    cut = lowtide.research.plan(model, target="strict", allow="tile")
    fast = cut.required_bytes
    plan = planned(model, fast)
    assert (plan.traffic_bytes, plan.traffic_lower_bound_bytes, plan.optimal) == (0, 0, True)
    assert len(plan.order) <= len(cut.order)
    assert (lowtide.research.plan(model, target="strict", memories={"fast": fast}).traffic_bytes or 1) > 0


Box = tuple[tuple[int, int], ...]


def _cells(box: Box) -> set[tuple[int, ...]]:
    return set(product(*(range(a, b) for a, b in box)))


@pytest.mark.slow
def test_what_the_driver_loads_is_there(model: Path, streaming: Plan) -> None:
    """Of a tensor on the host whole each row is stored before it is loaded, and what moves is what the plan says."""
    tensors = {t.id: t for t in streaming.tensors}
    whole = {s.tensor for s in streaming.streams or []}
    graph = lowtide.load(model)
    there: dict[int, set[tuple[int, ...]]] = {}
    for t in graph.tensors:
        if t.id in whole and t.id not in graph.producer:
            there[t.id] = _cells(tuple((0, n) for n in t.shape or ()))
    moved = 0
    run = set()
    for c in command_stream(streaming):
        run |= {c.op} - {None}
        if c.action not in ("load", "store", "fill", "spill"):
            continue
        assert c.tensor is not None
        piece = tensors[c.tensor].piece
        moved += c.bytes or 0
        if piece is None or piece.of not in whole:
            continue
        cells = _cells(tuple(piece.box))
        if c.action == "store":
            there.setdefault(piece.of, set()).update(cells)
        elif c.action == "load":
            assert cells <= there[piece.of], tensors[c.tensor].name
    ends = sum(t.size for t in graph.tensors if t.kind in ("input", "output"))
    assert moved == (streaming.traffic_bytes or 0) + ends
    roles = {op.id: op.part.role if op.part else "whole" for op in streaming.ops}
    assert {roles[o] for o in streaming.order if o not in run} <= {"slice", "join"}


BROKEN = {
    "a tensor that is not there": [PlanStream(tensor=9999, stored_bytes=0, loaded_bytes=0)],
    "nothing streamed": None,
}


@pytest.mark.slow
@pytest.mark.parametrize("streams", BROKEN.values(), ids=BROKEN)
def test_other_streams_are_refused(model: Path, streaming: Plan, streams: list[PlanStream] | None) -> None:
    """Of what is on the host whole nothing can be left out or put in."""
    with pytest.raises(VerificationError):
        lowtide.verify(model, msgspec.structs.replace(streaming, streams=streams))


def test_other_bytes_are_refused(model: Path, streaming: Plan) -> None:
    """A stream moves what its pieces have, and the traffic is no less."""
    first, *others = streaming.streams or []
    for name in ("stored_bytes", "loaded_bytes"):
        other = msgspec.structs.replace(first, **{name: getattr(first, name) + 4})
        with pytest.raises(VerificationError, match="streams"):
            lowtide.verify(model, msgspec.structs.replace(streaming, streams=[other, *others]))
    twice = msgspec.structs.replace(streaming, streams=[first, first, *others])
    with pytest.raises(VerificationError, match="twice"):
        lowtide.verify(model, twice)
    less = msgspec.structs.replace(streaming, traffic_bytes=(streaming.traffic_bytes or 0) - 4)
    with pytest.raises(VerificationError):
        lowtide.verify(model, less)


def test_a_piece_that_is_streamed_is_refused(model: Path, streaming: Plan) -> None:
    """Only tensors of the user's graph lie on the host whole."""
    piece = next(t.id for t in streaming.tensors if t.piece is not None)
    more = [*(streaming.streams or []), PlanStream(tensor=piece, stored_bytes=0, loaded_bytes=0)]
    with pytest.raises(VerificationError, match="streams"):
        lowtide.verify(model, msgspec.structs.replace(streaming, streams=more))


def test_streams_with_other_moves_are_refused(model: Path, streaming: Plan) -> None:
    """What is loaded ahead could be loaded before it is stored."""
    assert streaming.spilling is not None
    ahead = msgspec.structs.replace(streaming, spilling=msgspec.structs.replace(streaming.spilling, lead=1))
    with pytest.raises(VerificationError, match="streams"):
        lowtide.verify(model, ahead)


def test_a_lead_streams_nothing(model: Path) -> None:
    """What does not fit then is said, and is no proof that nothing does."""
    plan = planned(model, 2048, moves={"lead": "1"})
    assert (plan.status, plan.moves, plan.streams) == ("over_budget", None, None)


@pytest.mark.parametrize("call", [1, 2, 5])
def test_an_interrupt_keeps_the_best_so_far(model: Path, call: int) -> None:
    """Whenever it comes, the plan there is by then holds, and says so."""
    calls = 0

    def stop(_: Progress) -> None:
        nonlocal calls
        calls += 1
        if calls >= call:
            raise KeyboardInterrupt

    plan = planned(model, 2304, report=stop)
    assert calls >= call
    assert (plan.stopped, plan.exit_status) == ("interrupt", 130)
    lowtide.verify(model, plan)


@pytest.mark.parametrize(
    ("how", "word"),
    [
        ({"allow": "recompute"}, "rematerialise"),
        ({"allow": "alias"}, "one arena"),
        ({"allow": "row-streaming"}, "one arena"),
        ({"allow": "tile", "moves": {"rematerialise": "true"}}, "rematerialise"),
        ({"allow": "tile", "max_overhead": "10%"}, "--max-overhead"),
    ],
)
def test_what_does_not_go_together_is_named(model: Path, how: dict[str, object], word: str) -> None:
    """Nothing asked for is dropped."""
    with pytest.raises(InputError, match=word):
        lowtide.research.plan(model, memories={"fast": 4096}, **how)  # type: ignore[arg-type]


@pytest.mark.slow
def test_what_no_cut_fits_is_named(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The op whose smallest part needs most of all; as little as that is enough."""
    least = working_set_bound(lowtide.load(model), streamed=True)
    fast = least.size - 1
    call = [
        "research", "plan", str(model), "--memory", f"fast={fast}", "--allow", "tile", "--time", "5", "--target",
        "strict",
    ]  # fmt: skip
    assert main(call) == 3
    err = capsys.readouterr().err
    assert f"tiled along any one dimension, n2 (Conv) needs {least.size:,} B; fast has {fast:,} B" in err
    plan = planned(model, fast)
    assert (plan.status, plan.moves) == ("over_budget", None)
    assert plan.search is not None
    assert (plan.search["cut_floor_bytes"], plan.search["cut_floor_op"]) == (least.size, least.op)
    lowtide.verify(model, plan)
    assert planned(model, least.size).status == "ok"


@pytest.mark.slow
def test_the_command_writes_it_all(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The model in parts, the plan and what a driver runs; the plan's screen names what is on the host."""
    out, plan, commands = tmp_path / "out.onnx", tmp_path / "p.json", tmp_path / "c.txt"
    files = ["-o", str(out), "--plan", str(plan), "--commands", str(commands)]
    call = [
        "research", "plan", str(model), "--memory", "fast=2KiB", "--allow", "tile", "--time", "5", "--target",
        "strict",
    ]  # fmt: skip
    assert main([*call, *files]) == 0
    screen = capsys.readouterr().out
    assert "in slices of" in screen
    assert "of these tiles" in screen
    assert "load" in commands.read_text()
    assert len(lowtide.load(out).ops) == len(from_json(plan.read_bytes()).order)
