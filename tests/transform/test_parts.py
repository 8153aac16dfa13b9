"""Part graphs: run beside the whole, they give the same numbers; with any rule of them broken, they do not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import lowtide
from lowtide.graph import Graph, Kind
from lowtide.read import read_model
from lowtide.transform import parts
from lowtide.transform.cut import PACES, RECOMPUTED_HALO, Cutter, Pace
from lowtide.transform.parts import apply
from lowtide.write.onnx_parts import write_onnx_parts
from support.small_nets import Nets, random_net

pytest.importorskip("onnxruntime", reason="parts are run in onnxruntime, which is not installed")
from support.arena_replay import spoiled
from support.part_rules import RULES, most_likely_first
from support.part_runs import difference, differs, feeds, tensors_of
from support.part_suite import SUITE, Drawn, broken, drawn_regions


@st.composite
def _cut_nets(draw: st.DrawFn) -> tuple[bytes, list[Drawn]]:
    """A network, and for up to three regions: seed, axis, first op, ops, stripes; all counted modulo what there is."""
    model = random_net(lambda options: draw(st.sampled_from(tuple(options))), draw(st.sampled_from((3, 6, 10))))
    many = st.integers(0, 99)
    regions = draw(st.lists(st.tuples(many, many, many, many, st.integers(2, 6)), min_size=1, max_size=3))
    return model.SerializeToString(), regions


def _random_parts(source: Path, ways: list[Drawn]) -> parts.PartGraph:
    """The parts of a network that onnxruntime runs, in the regions drawn; gives the example up if there are none."""
    try:
        assert difference(source, source, feeds(source)) == 0
    except Exception:  # onnxruntime's own kinds of error have no common base
        assume(False)
    cutter = Cutter(read_model(source))
    regions = drawn_regions(cutter, ways)
    assume(regions)
    try:
        return apply(cutter, regions)
    except ValueError as error:
        assume("before and after" not in str(error))
        raise


@pytest.mark.slow
@settings(deadline=None, max_examples=30, suppress_health_check=list(HealthCheck))
@given(_cut_nets())
def test_random_networks_in_parts(drawn: tuple[bytes, list[Drawn]]) -> None:
    """Up to three regions of a random network: equal to the bit where that is said, else to 1e-5; every tensor is the
    rows that it is said to be, nothing runs twice, nothing runs for nobody."""
    model, ways = drawn
    with TemporaryDirectory() as name:
        folder = Path(name)
        source = folder / "m.onnx"
        source.write_bytes(model)
        result = _random_parts(source, ways)
        cutter = Cutter(read_model(source))
        assert not differs(source, folder, cutter, result)
        _check_pieces(source, folder / "parts.onnx", result)
        _check_rows(cutter.graph, result)


@pytest.mark.slow
@settings(deadline=None, max_examples=40, suppress_health_check=list(HealthCheck))
@given(_cut_nets())
def test_random_networks_in_parts_inside_an_arena(
    drawn: tuple[bytes, list[Drawn]],
) -> None:
    """Where the plan lays parts over each other no op, nor the caller, finds other bytes than without an arena."""
    model, ways = drawn
    with TemporaryDirectory() as name:
        source, target = Path(name) / "m.onnx", Path(name) / "parts.onnx"
        source.write_bytes(model)
        result = _random_parts(source, ways)
        write_onnx_parts(source, result, result.graph.own_order, target)
        plan = lowtide.research.plan(result.graph, target="generic", time=5)
        numbers = {**feeds(source), **tensors_of(target)}
        assert plan.offsets is not None
        assert plan.arena_bytes is not None
        offsets = {int(t): at for t, at in plan.offsets.items()}
        assert not spoiled(result.graph, plan.order, offsets, plan.arena_bytes, numbers)


def _check_pieces(source: Path, target: Path, result: parts.PartGraph) -> None:
    """Each new tensor holds the rows of the old one that it is said to hold."""
    pieces = {result.graph.tensor_by_id[t].name: p for t, p in result.slices.items()}
    made = {t for op in result.graph.ops for t in op.outputs}
    names = {result.graph.tensor_by_id[t].name for t in made if t in result.slices}
    after = tensors_of(target, names)
    before = {**feeds(source), **tensors_of(source)}
    old = {t.id: t.name for t in read_model(source).tensors}
    for name in sorted(names):
        piece = pieces[name]
        if piece.terms is not None:
            continue
        sure = piece.box if piece.sure is None else piece.sure
        rows = before[old[piece.of]][tuple(slice(a, b) for a, b in sure)]
        known = tuple(slice(a - first, b - first) for (a, b), (first, _) in zip(sure, piece.box, strict=True))
        assert np.allclose(after[name][known], rows, rtol=1e-4, atol=1e-4, equal_nan=True), name


def _check_rows(graph: Graph, result: parts.PartGraph) -> None:
    """Parts of an op follow one another along its axis, and all that is made is read or given out."""
    for region in result.regions:
        for one in region.cuts:
            rows = [p.rows for p in result.parts.values() if p.of == one.op and p.rows is not None]
            if one.begins:
                assert rows == [(a, b) for a, b in zip(one.begins, one.ends, strict=True) if a < b], one
            else:
                assert [b for _, b in rows[:-1]] == [a for a, _ in rows[1:]], one
    read = {t for op in graph.ops for t in op.inputs}
    unread = {t for op in graph.ops for t in op.outputs if t not in read}
    read = {t for op in result.graph.ops for t in op.inputs}
    for op in result.graph.ops:
        for t in op.outputs:
            piece = result.slices.get(t)
            of = t if piece is None else piece.of
            assert t in read or result.graph.tensor_by_id[t].kind is Kind.OUTPUT or of in unread, op.name


@pytest.mark.slow
@pytest.mark.parametrize("name", SUITE)
def test_small_networks_in_every_cut(name: str, tmp_path: Path) -> None:
    """Every axis of every op, with what has to be cut along, and by itself."""
    assert not broken(name, tmp_path)
    assert not broken(name, tmp_path, stripes=2)


@pytest.mark.slow
@pytest.mark.parametrize("rule", RULES)
def test_a_broken_rule_is_seen(rule: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever rule of a cut is broken, a network of the suite gives other numbers, or cannot be written or run."""
    RULES[rule](monkeypatch)
    seen = []
    for name in most_likely_first(rule, SUITE):
        try:
            wrong = broken(name, tmp_path)
        except Exception as error:  # a cut that cannot be made, written or run is seen as well
            wrong = f"{type(error).__name__}: {error}"
        if wrong:
            seen.append((name, wrong))
            break
    assert seen


@pytest.mark.parametrize("pace", [*PACES, *RECOMPUTED_HALO])
def test_no_part_is_made_of_rows_that_nobody_reads(pace: Pace, tmp_path: Path) -> None:
    """The first rows of a pool, which a slice leaves out, run with the next ones; a runtime would keep them."""
    nets = Nets(lambda options: next(iter(options)))
    x = nets.input((1, 2, 24, 5))
    (pooled,) = nets.node("MaxPool", [x], kernel_shape=[1, 1], strides=[2, 1])
    (later,) = nets.node("Slice", [pooled, nets.ints(3), nets.ints(12), nets.ints(2)])
    nets.node("MaxPool", [later], kernel_shape=[1, 1], strides=[3, 1])
    source = tmp_path / "m.onnx"
    source.write_bytes(nets.model().SerializeToString())
    cutter = Cutter(read_model(source))
    for stripes in (2, 5, 12):
        axes = cutter.grow(cutter.graph.own_order, cutter.graph.own_order[0], 2)
        assert axes is not None
        result = apply(cutter, [cutter.region(cutter.graph.own_order, axes, stripes, pace)])
        assert not differs(source, tmp_path, cutter, result)
        read = {t for op in result.graph.ops for t in op.inputs}
        outputs = {t.id for t in result.graph.tensors if t.kind is Kind.OUTPUT}
        assert all(set(op.outputs) & (read | outputs) for op in result.graph.ops)


def _block(folder: Path, beside: str = "") -> Cutter:
    """A convolution that makes three times what it reads, an activation, a depthwise one and one back; with somebody
    `beside` who reads the activation, too."""
    nets = Nets(lambda options: next(iter(options)))
    x = nets.input((1, 2, 12, 5))
    (a,) = nets.node("Conv", [x, nets.floats((6, 2, 1, 1)), nets.floats((6,))])
    (b,) = nets.node("Relu", [a])
    (c,) = nets.node("Conv", [b, nets.floats((6, 1, 3, 3), 0.3)], group=6, pads=[1, 1, 1, 1])
    nets.node("Conv", [c, nets.floats((2, 6, 1, 1))])
    if beside:
        nets.node(beside, [b], axis=2)
    (folder / "m.onnx").write_bytes(nets.model().SerializeToString())
    return Cutter(read_model(folder / "m.onnx"))


def _cuts(cutter: Cutter, pace: Pace) -> dict[str, tuple[tuple[int, ...], tuple[int, ...]]]:
    """Where the stripes of the first four ops begin and end."""
    ops = cutter.graph.own_order[:4]
    axes = cutter.grow(ops, ops[-1], 2)
    assert axes is not None
    region = cutter.region(ops, axes, 3, pace)
    return {cutter.graph.op_by_id[cut.op].name: (cut.begins, cut.ends) for cut in region.cuts}


def test_who_makes_more_than_it_reads_runs_rows_again(tmp_path: Path) -> None:
    """The expansion and its activation do, as far as the window behind them reaches; who makes less keeps its rows."""
    cutter = _block(tmp_path)
    assert _cuts(cutter, "pull again") == {
        "n0": ((0, 3, 7), (5, 9, 12)), "n1": ((0, 3, 7), (5, 9, 12)), "n2": ((), (4, 8, 12)), "n3": ((), (4, 8, 12)),
    }  # fmt: skip
    assert all(begins == () for begins, _ in _cuts(cutter, "pull").values())
    assert {name: ends for name, (_, ends) in _cuts(cutter, "pull").items()} == {
        name: ends for name, (_, ends) in _cuts(cutter, "pull again").items()
    }


def test_what_others_read_runs_once(tmp_path: Path) -> None:
    """An activation that others read too is put together from parts that share no row; nor does it pay to make what it
    reads again."""
    cutter = _block(tmp_path, "Softmax")
    again = _cuts(cutter, "pull again")
    assert again["n1"] == ((), (5, 9, 12))


@pytest.mark.parametrize("pace", RECOMPUTED_HALO)
def test_halos_computed_again_are_joined_by_nobody(pace: Pace, tmp_path: Path) -> None:
    """Fewer ops and a lower peak in turn than with kept rows, and the same numbers to the bit."""
    cutter = _block(tmp_path)
    ops = cutter.graph.own_order
    axes = cutter.grow(ops, ops[-1], 2)
    assert axes is not None
    once: Pace = "pull" if pace == "pull again" else "late"
    kept, again = (apply(cutter, [cutter.region(ops, axes, 4, p)]) for p in (once, pace))
    assert not differs(tmp_path / "m.onnx", tmp_path, cutter, again)
    assert len(again.graph.ops) < len(kept.graph.ops)
    joined = [again.slices.get(op.outputs[0]) for op in again.graph.ops if again.parts[op.id].role == "join"]
    assert joined == [None]
    low, high = (lowtide.research.plan(p.graph, target="generic", method="own").peak_bytes for p in (again, kept))
    assert low < high


def test_no_plan_says_that_other_rows_run_again(tmp_path: Path) -> None:
    """Rows that begin elsewhere than where they are read, or of an op that others read, are refused."""
    from lowtide.transform.cut import Region
    from lowtide.transform.lower import _can_be

    for beside in ("", "Softmax"):
        cutter = _block(tmp_path, beside)
        ops = cutter.graph.own_order[:4]
        axes = cutter.grow(ops, ops[-1], 2)
        assert axes is not None
        region = cutter.region(ops, axes, 3, "pull again")
        assert _can_be(cutter, region)
        for begins in ((0, 4, 7), (0, 3, 6), (0, 3), (1, 3, 7), (0, 3, 7)):
            cuts = tuple(replace(cut, begins=begins) if k == 1 else cut for k, cut in enumerate(region.cuts))
            assert _can_be(cutter, Region(cuts)) == (begins == (0, 3, 7) and not beside)
