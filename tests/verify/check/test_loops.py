"""What a plan says of its loops is checked: the plan holds, and with any of it changed it does not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import lowtide
from lowtide.cli import main
from lowtide.errors import InputError, VerificationError
from lowtide.plan import Plan, from_json
from support.hand_loops import HAND_LOOPS
from support.tflite_builder import SAME, Net, s

Change = Callable[[dict[str, Any]], None]


def net(height: int = 24) -> Net:
    """Large at first: two convolutions around a depthwise one, an addition, a pool over all, and a product."""
    net = Net()
    x = net.tensor((1, height, 16, 3))
    a = net.conv(x, 8, (3, 3), (1, 1), SAME)
    b = net.conv(a, 1, (3, 3), (1, 1), SAME, depthwise=True)
    c = net.add(a, net.conv(b, 8, (1, 1)))
    d = net.conv(c, 4, (3, 3), (2, 2), SAME)
    e = net.conv(d, 32, (1, 1))
    f = net.pool(e, "AVERAGE_POOL_2D", (net.shape(e)[1], net.shape(e)[2]), (1, 1))
    net.ends([x], [net.reshape(f, (1, 32))])
    return net


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network that is worth looping."""
    path = tmp_path_factory.mktemp("loops") / "net.tflite"
    path.write_bytes(net().bytes())
    return path


@pytest.fixture(scope="module")
def plan(model: Path) -> Plan:
    """Its plan with loops, the input held."""
    return lowtide.research.plan(model, target="loops", allow="row-streaming")


@pytest.fixture(scope="module")
def streamed(model: Path) -> Plan:
    """Its plan with loops, the input handed over."""
    return lowtide.research.plan(model, target="loops", allow="row-streaming", stream_input=True)


def test_loops_need_less_than_any_order(model: Path, plan: Plan, streamed: Plan) -> None:
    """Less with loops, least with the input handed over; the plans hold and come back from their files the same."""
    best = lowtide.research.plan(model, target="loops")
    assert best.optimal
    assert streamed.required_bytes < plan.required_bytes < best.required_bytes
    for one in (plan, streamed):
        assert one.version == 2
        assert one.exactness == "bits"
        assert one.proved_over == "orders"
        assert (one.search or {})["loops_path_complete"]
        report = lowtide.verify(model, from_json(one.to_json()), prove=True)
        assert "loops" in [rule.name for rule in report.checks]
        assert "yes, over all orders of what runs" in [rule.result for rule in report.checks if rule.name == "optimal"]
    assert not any(loop.streamed for loop in plan.loops or ())
    assert [list(loop.streamed.values()) for loop in streamed.loops or () if loop.streamed] == [["t0"]]


def test_within_a_budget_no_loop_is_made_that_need_not_be(model: Path, plan: Plan) -> None:
    """The best order where that fits; else as few ops in loops as fit."""
    best = lowtide.research.plan(model, target="loops")
    within = lowtide.research.plan(model, target="loops", allow="row-streaming", budget=best.required_bytes)
    assert (within.loops, within.version) == (None, 1)
    between = (plan.required_bytes + best.required_bytes) // 2
    some = lowtide.research.plan(model, target="loops", allow="row-streaming", budget=between)
    assert some.status == "ok"
    looped = [sum(len(loop.ops) for loop in one.loops or ()) for one in (some, plan)]
    assert 0 < looped[0] <= looped[1]
    never = lowtide.research.plan(model, target="loops", allow="row-streaming", budget=plan.required_bytes // 2)
    assert never.status == "over_budget"


def _ring(table: dict[str, Any], key: str) -> dict[str, Any]:
    """A ring with memory of its own of the first loop: its first one, or its largest."""
    rings = [r for r in table["loops"][0]["keep"].values() if "over" not in r]
    return rings[0] if key == "first" else max(rings, key=lambda r: r["slots"] * r["bytes"])


def _set(*path: str | int, to: Any) -> Change:
    def change(table: dict[str, Any]) -> None:
        at: Any = table
        for step in path[:-1]:
            at = at[step]
        at[path[-1]] = to

    return change


def _fewer_slots(table: dict[str, Any]) -> None:
    ring = _ring(table, "largest")
    ring["slots"] -= 1


def _moved(by: int) -> Change:
    def change(table: dict[str, Any]) -> None:
        _ring(table, "largest")["offset"] += by

    return change


def _other_axis(table: dict[str, Any]) -> None:
    along = table["loops"][0]["along"]
    first = next(iter(along))
    along[first] = [3] * len(along[first])


def _op_left_out(table: dict[str, Any]) -> None:
    loop = table["loops"][0]
    gone = loop["ops"].pop(0)
    del loop["along"][str(gone)]
    for op in table["ops"]:
        if op["id"] == loop["op"]:
            op["origin"] = loop["ops"]


def _one_kept_no_more(table: dict[str, Any]) -> None:
    keep = table["loops"][0]["keep"]
    del keep[next(iter(keep))]


def _two_loops(table: dict[str, Any]) -> None:
    table["loops"].append(table["loops"][0])


def _over_nothing(table: dict[str, Any]) -> None:
    keep = table["loops"][0]["keep"]
    first, second = list(keep)[:2]
    keep[second] = {**keep[second], "over": int(first)}
    keep[second].pop("offset", None)


CHANGES: list[Change] = [
    _fewer_slots,
    _moved(16),
    _moved(1),
    _moved(-16 * 10**6),
    _other_axis,
    _op_left_out,
    _one_kept_no_more,
    _two_loops,
    _over_nothing,
    _set("loops", 0, "parts", to=1),
    _set("loops", 0, "merge", to={}),
    _set("exactness", to="sum"),
    _set("version", to=1),
    _set("proved_over", to=None),
    lambda table: table["loops"].pop(),
    lambda table: _ring(table, "first").update(bytes=_ring(table, "first")["bytes"] + 1),
    lambda table: _ring(table, "first").update(name="nobody"),
    lambda table: _ring(table, "first").update(offset=None),
    lambda table: table["loops"][0]["axis"].update({next(iter(table["loops"][0]["axis"])): [2, 1]}),
    lambda table: table["loops"][0].update(sums={next(iter(table["loops"][0]["merge"])): {"bytes": 4, "offset": 0}}),
]


@pytest.mark.parametrize("change", range(len(CHANGES)))
@pytest.mark.parametrize("handed", [False, True])
def test_a_plan_with_other_loops_does_not_hold(
    model: Path, plan: Plan, streamed: Plan, change: int, handed: bool
) -> None:
    """Whatever is changed of the loops is noticed."""
    table = msgspec.json.decode((streamed if handed else plan).to_json())
    CHANGES[change](table)
    with pytest.raises((VerificationError, InputError)):
        lowtide.verify(model, msgspec.convert(table, Plan))


def test_an_input_is_handed_over_where_the_plan_says_so(model: Path, streamed: Plan) -> None:
    """A ring of it is not enough if the caller hands it over whole, nor another dimension of it."""
    table = msgspec.json.decode(streamed.to_json())
    loop = next(loop for loop in table["loops"] if loop.get("streamed"))
    loop["streamed"] = {}
    with pytest.raises(VerificationError, match="loops"):
        lowtide.verify(model, msgspec.convert(table, Plan))


@pytest.mark.parametrize("flaw", HAND_LOOPS)
def test_a_loop_with_one_flaw_does_not_hold(flaw: str) -> None:
    """It is refused; where the graph is what is wrong, the plan holds for the same graph without that."""
    loop = HAND_LOOPS[flaw]()
    if loop.flawless is not None:
        lowtide.verify(loop.flawless, msgspec.convert(loop.document(loop.flawless), Plan), target=loop.target)
    with pytest.raises(VerificationError) as refused:
        lowtide.verify(loop.graph, msgspec.convert(loop.document(), Plan), target=loop.target)
    assert refused.value.failure == loop.failure


def _leaves(at: Any) -> Iterator[tuple[Any, Any]]:
    """Every number in a table, as what holds it and the key."""
    for key, value in at.items() if isinstance(at, dict) else enumerate(at):
        if isinstance(value, dict | list):
            yield from _leaves(value)
        elif isinstance(value, int):
            yield at, key


@pytest.mark.slow
def test_every_number_of_a_loop_counts(model: Path, streamed: Plan) -> None:
    """With any of them another one, the plan does not hold, and nothing worse happens; a ring may have a slot more
    where the alignment leaves room for it."""
    table = msgspec.json.decode(streamed.to_json())
    for holder, key in list(_leaves(table["loops"])):
        own = holder[key]
        for other in (own + 1, own - 1, -1, 10**6):
            if other != own and not (key == "slots" and other == own + 1):
                holder[key] = other
                with pytest.raises((VerificationError, InputError)):
                    lowtide.verify(model, msgspec.convert(table, Plan))
        holder[key] = own
    lowtide.verify(model, msgspec.convert(table, Plan))


@pytest.mark.slow
def test_every_key_of_a_loop_counts(model: Path, streamed: Plan) -> None:
    """Without an entry, or with one under another id, the plan does not hold."""
    table = msgspec.json.decode(streamed.to_json())
    for loop in table["loops"]:
        for word in ("along", "axis", "merge", "keep", "streamed"):
            entries = loop.get(word, {})
            for key in list(entries):
                for other in (None, "999", "x", "-1", f"0{key}"):
                    changed = {k: v for k, v in entries.items() if k != key}
                    loop[word] = changed if other is None else {**changed, other: entries[key]}
                    with pytest.raises((VerificationError, InputError)):
                        lowtide.verify(model, msgspec.convert(table, Plan))
            loop[word] = entries


def test_what_does_not_go_with_loops_is_said(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Other targets, other changes, other options: one line, and how to mend it."""
    for arguments, words in (
        (["--allow", "row-streaming"], "--target loops"),
        (["--target", "loops", "--stream-input"], "--allow row-streaming"),
        (["--target", "loops", "--allow", "row-streaming", "--max-ops", "9"], "--max-ops"),
        (["--target", "loops", "--allow", "row-streaming", "--method", "rpo"], "--method"),
        (["--target", "loops", "--allow", "row-streaming", "-o", str(tmp_path / "out.tflite")], "row-streaming"),
    ):
        assert main(["research", "plan", str(model), *arguments]) == 2
        assert words in capsys.readouterr().err, arguments
    assert not (tmp_path / "out.tflite").exists()


def test_an_input_that_cannot_be_handed_over_is_named(tmp_path: Path) -> None:
    """An op that reads all of it at once says so."""
    flat = Net()
    x = flat.tensor((1, 16))
    options = s.SoftmaxOptionsT()
    options.beta = 1.0
    flat.ends([x], [flat.unary("SOFTMAX", x, options, scale=1 / 256, zero=-128)])
    path = tmp_path / "flat.tflite"
    path.write_bytes(flat.bytes())
    with pytest.raises(InputError, match=r"t0.*leave it out"):
        lowtide.research.plan(path, target="loops", allow="row-streaming", stream_input=True)


def test_the_screen_says_what_each_loop_keeps(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Ops, axis, rows kept for each tensor, bytes."""
    assert (
        main(["research", "plan", str(model), "--target", "loops", "--allow", "row-streaming", "--stream-input"]) == 0
    )
    screen = capsys.readouterr().out
    for words in ("in 2 loops", "of dimension 1", "streamed", "least over all paths of loops", "of these loops"):
        assert words in screen, screen


def test_the_arena_counts_where_paths_differ_in_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The path of least peak has holes in its arena: another one, of a higher peak, has a lower arena, and the screen
    says how far its peak is from the least."""
    net = Net()
    x = net.tensor((1, 12, 12, 2))
    a = net.conv(net.conv(x, 1, (3, 3), (2, 2), SAME, depthwise=True), 16, (1, 1))
    b = net.conv(net.conv(a, 1, (3, 3), (1, 1), SAME, depthwise=True), 16, (3, 3), (1, 1), SAME)
    c = net.conv(net.conv(b, 1, (3, 3), (1, 1), SAME, depthwise=True), 1, (3, 3), (2, 2), SAME, depthwise=True)
    net.ends([x], [c])
    path = tmp_path / "net.tflite"
    path.write_bytes(net.bytes())
    plan = lowtide.research.plan(path, target="loops", allow="row-streaming")
    search = plan.search or {}
    assert search["loops_least_path_bytes"] < plan.peak_bytes == plan.arena_bytes
    assert main(["research", "plan", str(path), "--target", "loops", "--allow", "row-streaming"]) == 0
    assert f"need at least {search['loops_least_path_bytes']:,} B" in capsys.readouterr().out
