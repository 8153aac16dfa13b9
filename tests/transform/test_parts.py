"""Part graphs: run beside the whole, they give the same numbers; with any rule of them broken, they do not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import lowtide
from lowtide.graph import Graph, Kind, Op
from lowtide.ops import part as ops_part
from lowtide.ops.access import Access, Box, Shape
from lowtide.ops.forms import Convolution, Pool
from lowtide.ops.index import Range
from lowtide.ops.onnx import part as onnx_part
from lowtide.ops.part import Glue, Spelled, Spelling
from lowtide.read import read_model
from lowtide.transform import part_builder, parts
from lowtide.transform import stripes as stripes_of_region
from lowtide.transform.cut import PACES, Cut, Cutter, Pace, Region
from lowtide.transform.parts import apply
from lowtide.write.onnx_parts import write_onnx_parts
from support.small_nets import Nets, random_net

pytest.importorskip("onnxruntime", reason="parts are run in onnxruntime, which is not installed")
from support.arena_replay import spoiled
from support.part_runs import difference, differs, feeds, tensors_of
from support.part_suite import SUITE, broken


@st.composite
def _cut_nets(draw: st.DrawFn) -> tuple[bytes, list[tuple[int, int, int, int, int]]]:
    """A network, and for up to three regions: seed, axis, first op, ops, stripes; all counted modulo what there is."""
    model = random_net(lambda options: draw(st.sampled_from(tuple(options))), draw(st.sampled_from((3, 6, 10))))
    many = st.integers(0, 99)
    regions = draw(st.lists(st.tuples(many, many, many, many, st.integers(2, 6)), min_size=1, max_size=3))
    return model.SerializeToString(), regions


def _regions(cutter: Cutter, drawn: list[tuple[int, int, int, int, int]]) -> list[Region]:
    graph = cutter.graph
    regions: list[Region] = []
    for seed, way, first, many, stripes in drawn:
        rest = [op for op in graph.own_order if not any(op in region.of for region in regions)]
        begin = first % max(1, len(rest))
        within = rest[begin:][: many % 12 + 1]
        if not within:
            continue
        op = within[seed % len(within)]
        ways = cutter.axes(op)
        axes = cutter.grow(within, op, ways[way % len(ways)]) if ways else None
        if axes is not None:
            regions.append(cutter.region(graph.own_order, axes, stripes, PACES[seed % 3]))
    return regions


def _random_parts(source: Path, ways: list[tuple[int, int, int, int, int]]) -> parts.PartGraph:
    """The parts of a network that onnxruntime runs, in the regions drawn; gives the example up if there are none."""
    try:
        assert difference(source, source, feeds(source)) == 0
    except Exception:  # onnxruntime's own kinds of error have no common base
        assume(False)
    cutter = Cutter(read_model(source))
    regions = _regions(cutter, ways)
    assume(regions)
    try:
        return apply(cutter, regions)
    except ValueError as error:
        assume("before and behind" not in str(error))
        raise


@pytest.mark.slow
@settings(deadline=None, max_examples=100, suppress_health_check=list(HealthCheck))
@given(_cut_nets())
def test_random_networks_in_parts(drawn: tuple[bytes, list[tuple[int, int, int, int, int]]]) -> None:
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
@settings(deadline=None, max_examples=100, suppress_health_check=list(HealthCheck))
@given(_cut_nets())
def test_random_networks_in_parts_inside_an_arena(
    drawn: tuple[bytes, list[tuple[int, int, int, int, int]]],
) -> None:
    """Where the plan lays parts over each other no op, nor the caller, finds other bytes than without an arena."""
    model, ways = drawn
    with TemporaryDirectory() as name:
        source, target = Path(name) / "m.onnx", Path(name) / "parts.onnx"
        source.write_bytes(model)
        result = _random_parts(source, ways)
        write_onnx_parts(source, result, result.graph.own_order, target)
        plan = lowtide.plan(result.graph, target="generic", time=5)
        numbers = {**feeds(source), **tensors_of(target)}
        assert plan.offsets is not None
        assert plan.arena_bytes is not None
        offsets = {int(t): at for t, at in plan.offsets.items()}
        assert not spoiled(result.graph, plan.order, offsets, plan.arena_bytes, numbers)


def _check_pieces(source: Path, target: Path, result: parts.PartGraph) -> None:
    """Each new tensor holds the rows of the old one that it is said to hold."""
    pieces = {result.graph.tensor_by_id[t].name: p for t, p in result.pieces.items()}
    made = {t for op in result.graph.ops for t in op.outputs}
    names = {result.graph.tensor_by_id[t].name for t in made if t in result.pieces}
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
            rows = [p.rows for p in result.parts.values() if p.of == one.op]
            assert [b for _, b in rows[:-1]] == [a for a, _ in rows[1:]], one
    read = {t for op in graph.ops for t in op.inputs}
    unread = {t for op in graph.ops for t in op.outputs if t not in read}
    read = {t for op in result.graph.ops for t in op.inputs}
    for op in result.graph.ops:
        for t in op.outputs:
            piece = result.pieces.get(t)
            of = t if piece is None else piece.of
            assert t in read or result.graph.tensor_by_id[t].kind is Kind.OUTPUT or of in unread, op.name


@pytest.mark.slow
@pytest.mark.parametrize("name", SUITE)
def test_small_networks_in_every_cut(name: str, tmp_path: Path) -> None:
    """Every axis of every op, with what has to be cut along, and by itself."""
    assert not broken(name, tmp_path)
    assert not broken(name, tmp_path, stripes=2)


Patch = Callable[[pytest.MonkeyPatch], None]


def _narrow(patch: pytest.MonkeyPatch) -> None:
    """A halo of one row less before."""
    box = part_builder.given_box

    def narrower(access: Access, operand: int, shape: Shape, axis: int, rows: Range) -> Box:
        dims = access.inputs[operand] or ()
        whole = box(access, operand, shape, axis, rows)
        wide = (index is not None and index.axis == axis and index.hi > index.lo for index in dims)
        return tuple((a + 1, b) if w and 0 < a < b - 1 else (a, b) for w, (a, b) in zip(wide, whole, strict=True))

    patch.setattr(part_builder, "given_box", narrower)


def _short(patch: pytest.MonkeyPatch) -> None:
    """Kept rows begin one too late."""
    held = stripes_of_region._Stripes._held

    def later(self: stripes_of_region._Stripes, tensor: int, dim: int) -> stripes_of_region._Held:
        result = held(self, tensor, dim)
        return replace(result, lows=[low + 1 for low in result.lows])

    patch.setattr(stripes_of_region._Stripes, "_held", later)


def _without_keep(patch: pytest.MonkeyPatch) -> None:
    """Nothing is kept."""

    def forget(self: stripes_of_region._Stripes, t: int, held: stripes_of_region._Held, stripe: int) -> None:
        held.kept = held.fresh = held.have = None

    patch.setattr(stripes_of_region._Stripes, "_keep", forget)


def _attributes(change: Callable[[dict[str, Any], Mapping[str, Any]], None]) -> Patch:
    """Something else in the attributes of a part of a window."""

    def broken_rule(patch: pytest.MonkeyPatch) -> None:
        windowed = onnx_part._windowed

        def changed(graph: Graph, op: Op, form: Convolution | Pool, axis: int, grain: int) -> Spelling | None:
            how = windowed(graph, op, form, axis, grain)
            if how is None:
                return None

            def spell(rows: Range, shapes: tuple[Shape, ...]) -> Spelled:
                attributes = dict(how.spell(rows, shapes).attributes)
                change(attributes, op.attributes)
                return Spelled(attributes)

            return replace(how, spell=spell)

        patch.setattr(onnx_part, "_windowed", changed)

    return broken_rule


def _own(*names: str) -> Patch:
    """Parts keep some of the op's attributes."""

    def keep(attributes: dict[str, Any], own: Mapping[str, Any]) -> None:
        for name in names:
            attributes.pop(name, None)
            if name in own:
                attributes[name] = own[name]

    return _attributes(keep)


def _always(room: object, name: str, value: object) -> Patch:
    """A question that has one answer."""
    return lambda patch: patch.setattr(room, name, lambda *given, **named: value)


def _sums_of_all(patch: pytest.MonkeyPatch) -> None:
    """Parts of a mean are added as if they were sums."""
    patch.setattr(onnx_part, "_SUMS", onnx_part._SUMS | {"ReduceMean", "GlobalAveragePool"})


def _added(patch: pytest.MonkeyPatch) -> None:
    """Largest ones are added."""
    patch.setattr(onnx_part, "merging", lambda merge: Glue("Add", {}))


def _bias_each(patch: pytest.MonkeyPatch) -> None:
    """Every part of a sum adds the bias."""
    part = stripes_of_region._Stripes._part

    def each(self: stripes_of_region._Stripes, one: Cut, stripe: int) -> None:
        known = self.cutter.meaning(one.op)
        assert known is not None
        self.cutter._meanings[one.op] = replace(known, access=replace(known.access, once=()))
        part(self, one, stripe)

    patch.setattr(stripes_of_region._Stripes, "_part", each)


def _own_literals(patch: pytest.MonkeyPatch) -> None:
    """Shapes that are operands stay those of the whole."""
    patch.setattr(onnx_part, "_SHAPED", frozenset())
    patch.setattr(onnx_part, "_sized", lambda op, grain: Spelling(grain, lambda rows, shapes: Spelled(op.attributes)))


def _whole_constants(patch: pytest.MonkeyPatch) -> None:
    """Parts are given whole weights."""
    patch.setattr(part_builder.Builder, "constant", lambda self, of, box: of)


def _moved_pieces(patch: pytest.MonkeyPatch) -> None:
    """Slices and pads are cut along the dimension of which they speak."""
    patch.setattr(onnx_part, "_piece", lambda graph, op, known, axis: onnx_part._sized(op, 1))


def _transposed_windows(patch: pytest.MonkeyPatch) -> None:
    """Rows that are spread over others are cut as others are."""
    windowed = onnx_part._windowed

    def plain(graph: Graph, op: Op, form: Convolution | Pool, axis: int, grain: int) -> Spelling | None:
        form = replace(form, transposed=False) if isinstance(form, Convolution) else form
        return windowed(graph, op, form, axis, grain)

    patch.setattr(onnx_part, "_windowed", plain)


def _unchanged(patch: pytest.MonkeyPatch) -> None:
    """Every op is its own part, whatever its attributes count."""
    patch.setattr(onnx_part, "_unchanged", lambda op, form: True)


RULES: dict[str, Patch] = {
    "halo": _narrow,
    "first row that is kept": _short,
    "kept rows": _without_keep,
    "padding": _own("pads"),
    "automatic padding": _own("auto_pad", "pads"),
    "rounding up": _own("ceil_mode", "pads"),
    "groups": _own("group"),
    "grain": _always(Access, "grain_of", 1),
    "means": _sums_of_all,
    "merge": _added,
    "bias": _bias_each,
    "a bias that must be": _always(onnx_part, "_must_have_bias", False),
    "literals": _own_literals,
    "weights": _whole_constants,
    "pieces": _moved_pieces,
    "transposed windows": _transposed_windows,
    "attributes that count": _unchanged,
    "one dimension": _always(Cutter, "_agree", True),
    "rows of padding alone": _always(ops_part, "_reads_all_along", True),
    "joined constants": _always(onnx_part, "_joins_constants", False),
    "pads of a pool": _always(onnx_part, "_padded_as_said", True),
}


@pytest.mark.slow
@pytest.mark.parametrize("rule", RULES)
def test_a_broken_rule_is_seen(rule: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever rule of a cut is broken, a network of the suite gives other numbers, or cannot be written or run."""
    RULES[rule](monkeypatch)
    seen = []
    for name in SUITE:
        try:
            wrong = broken(name, tmp_path)
        except Exception as error:  # a cut that cannot be made, written or run is seen as well
            wrong = f"{type(error).__name__}: {error}"
        if wrong:
            seen.append((name, wrong))
            break
    assert seen


@pytest.mark.parametrize("pace", PACES)
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
