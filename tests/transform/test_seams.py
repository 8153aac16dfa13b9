"""Seams: what runs on each operand of a concat gives the numbers of the whole; with any rule broken, it does not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from lowtide.graph import Kind
from lowtide.ops.forms import Convolution
from lowtide.ops.onnx import part as onnx_part
from lowtide.read import read_model
from lowtide.transform import seam_parts, seams
from lowtide.transform.cut import Cutter
from lowtide.transform.parts import Builder, PartGraph
from lowtide.transform.seam_parts import apply_with_elimination, together
from lowtide.transform.seams import Elimination, find_elimination, operand_rows
from support.seam_nets import seam_net
from support.small_nets import Nets

pytest.importorskip("onnxruntime", reason="parts are run in onnxruntime, which is not installed")
from support.part_runs import difference, differs, feeds

Patch = Callable[[pytest.MonkeyPatch], None]


def _fixed(options: object) -> object:
    raise AssertionError("nothing is drawn")


def _dense() -> Nets:
    """Concats of concats behind convolutions of every kind, a norm, a pool and an activation."""
    nets = Nets(_fixed)
    x = nets.input((1, 4, 7, 6))
    (a,) = nets.node("Conv", [x, nets.floats((4, 4, 3, 3), 0.3)], pads=[1] * 4)
    (b,) = nets.node("Conv", [x, nets.floats((2, 4, 1, 1), 0.3), nets.floats((2,))])
    (c,) = nets.node("Concat", [a, b], axis=1)
    vectors = [nets.floats((6,)), nets.floats((6,)), nets.floats((6,)), nets.positive(6)]
    (d,) = nets.node("BatchNormalization", [c, *vectors])
    (e,) = nets.node("Relu", [d])
    (f,) = nets.node("Conv", [e, nets.floats((3, 6, 3, 3), 0.3), nets.floats((3,))], pads=[1] * 4)
    (g,) = nets.node("Concat", [c, f, b], axis=1)
    (h,) = nets.node("Conv", [g, nets.floats((22, 1, 3, 3), 0.3), nets.floats((22,))], pads=[1] * 4, group=11)
    (i,) = nets.node("MaxPool", [h], kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    (j,) = nets.node("Conv", [i, nets.floats((2, 22, 1, 1), 0.3), nets.floats((2,))])
    (k,) = nets.node("Relu", [j])
    nets.node("ReduceMax", [i, nets.ints(1)])
    nets.node("Sigmoid", [k])
    return nets


def _in_parts(nets: Nets, folder: Path, *, accumulate: bool, fine: bool) -> tuple[Path, Cutter, PartGraph]:
    source = folder / "net.onnx"
    source.write_bytes(nets.model().SerializeToString())
    cutter = Cutter(read_model(source))
    concats = [op.id for op in cutter.graph.ops if operand_rows(cutter, op.id) is not None]
    found = find_elimination(cutter, accumulate=accumulate, fine=concats if fine else ())
    return source, cutter, apply_with_elimination(cutter, (), found)


@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.parametrize("fine", [False, True])
def test_seams_give_the_same_numbers(accumulate: bool, fine: bool, tmp_path: Path) -> None:
    """Channel-wise and kernel-wise partitions of a dense network: no concat is left, and every kind of op is cut."""
    source, cutter, parts = _in_parts(_dense(), tmp_path, accumulate=accumulate, fine=fine)
    assert not [op for op in parts.graph.ops if op.type == "Concat"]
    cut = {cutter.graph.op_by_id[c.op].type for c in parts.elimination.cuts}
    assert cut == {"Concat", "BatchNormalization", "Relu", "Conv", "MaxPool", "ReduceMax"}
    assert any(op.type.endswith("FusedConv") for op in parts.graph.ops) == accumulate
    assert any(op.type == "Slice" for op in parts.graph.ops) == fine
    assert not differs(source, tmp_path, cutter, parts)


def test_every_order_of_adding_up_is_the_same_sum(tmp_path: Path) -> None:
    """Sums of parts in falling order, by sums or in place: terms are what was added so far."""
    for accumulate in (False, True):
        source, cutter, parts = _in_parts(_dense(), tmp_path, accumulate=accumulate, fine=False)
        turns = {c.op: c.turns[::-1] for c in parts.elimination.cuts if c.turns}
        again = apply_with_elimination(cutter, (), parts.elimination.turned(turns))
        assert not differs(source, tmp_path, cutter, again)
        apart = [p.terms for p in again.slices.values() if p.terms is not None]
        assert apart
        assert all(list(terms) == together(terms) for terms in apart)


def test_what_follows_a_sum_follows_all_of_it(tmp_path: Path) -> None:
    """onnxruntime's convolution with an activation is cut only where its parts add themselves up; the activation is the
    last one's."""
    nets = _dense()
    model = nets.model()
    for node in model.graph.node:
        if node.op_type == "Conv" and node.input[0] == "t4":
            node.op_type, node.domain = "FusedConv", "com.microsoft"
            node.attribute.add(name="activation", s=b"Relu", type=3)
    opset = model.opset_import.add()
    opset.domain, opset.version = "com.microsoft", 1
    source = tmp_path / "net.onnx"
    source.write_bytes(model.SerializeToString())
    cutter = Cutter(read_model(source))
    fused = next(op for op in cutter.graph.ops if op.type.endswith("FusedConv"))
    assert fused.id not in {c.op for c in find_elimination(cutter).cuts}
    parts = apply_with_elimination(cutter, (), find_elimination(cutter, accumulate=True))
    own = [op for op in parts.graph.ops if parts.parts.get(op.id) and parts.parts[op.id].of == fused.id]
    assert [("activation" in op.attributes) for op in own] == [False, True]
    assert not differs(source, tmp_path, cutter, parts)


@st.composite
def _cases(draw: st.DrawFn) -> tuple[bytes, list[int], list[int], int, bool]:
    """A network, ops that are not cut, concats that are sliced, the turn of sums, and whether parts add themselves."""
    model = seam_net(lambda options: draw(st.sampled_from(tuple(options))), draw(st.sampled_from((6, 10, 16))))
    some = st.lists(st.integers(0, 20), max_size=3)
    return model.SerializeToString(), draw(some), draw(some), draw(st.integers(0, 5)), draw(st.booleans())


@pytest.mark.slow
@settings(deadline=None, max_examples=35, suppress_health_check=list(HealthCheck))
@given(_cases())
def test_random_networks_at_seams(case: tuple[bytes, list[int], list[int], int, bool]) -> None:
    """Equal to the bit where that is said, else to 1e-5; nothing runs for nobody, and each op has each of its rows."""
    model, without, fine, turn, accumulate = case
    with TemporaryDirectory() as name:
        source = Path(name) / "m.onnx"
        source.write_bytes(model)
        try:
            assert difference(source, source, feeds(source)) == 0
        except Exception:  # onnxruntime's own kinds of error have no common base
            assume(False)
        cutter = Cutter(read_model(source))
        found = find_elimination(cutter, without, accumulate=accumulate, fine=fine)
        assume(found.cuts)
        turns = {c.op: c.turns[turn % len(c.turns) :] + c.turns[: turn % len(c.turns)] for c in found.cuts if c.turns}
        parts = apply_with_elimination(cutter, (), found.turned(turns))
        assert not differs(source, Path(name), cutter, parts)
        _check_rows(cutter, parts)


def _check_rows(cutter: Cutter, parts: PartGraph) -> None:
    read = {t for op in parts.graph.ops for t in op.inputs}
    unread = {t for op in cutter.graph.ops for t in op.outputs if not cutter.graph.consumers.get(t)}
    for op in parts.graph.ops:
        for t in op.outputs:
            of = parts.slices[t].of if t in parts.slices else t
            assert t in read or parts.graph.tensor_by_id[t].kind is Kind.OUTPUT or of in unread, op.name
    for cut in parts.elimination.cuts:
        rows = sorted(p.rows for p in parts.parts.values() if p.of == cut.op and p.rows is not None)
        gone = operand_rows(cutter, cut.op) is not None
        assert tuple(rows) == (() if gone else cut.parts)


def _rule(room: object, name: str, make: Callable[..., object]) -> Patch:
    """Something else in the place of a function: `make` is given it."""

    def broken(patch: pytest.MonkeyPatch) -> None:
        patch.setattr(room, name, make(getattr(room, name)))

    return broken


def _bias_each(patch: pytest.MonkeyPatch) -> None:
    """Every part of a sum adds the bias."""
    meaning = Cutter.meaning

    def without_once(self: Cutter, op: int) -> object:
        known = meaning(self, op)
        return known and replace(known, access=replace(known.access, once=()))

    patch.setattr(Cutter, "meaning", without_once)


def _own_groups(patch: pytest.MonkeyPatch) -> None:
    """A part of a depthwise convolution keeps the groups of the whole."""
    windowed = onnx_part._windowed

    def ungrouped(graph: object, op: object, form: object, axis: int, grain: int) -> object:
        form = replace(form, channel=99) if isinstance(form, Convolution) else form
        return windowed(graph, op, form, axis, grain)  # type: ignore[arg-type]

    patch.setattr(onnx_part, "_windowed", ungrouped)


def _unpadded(patch: pytest.MonkeyPatch) -> None:
    """Parts have no padding."""
    part = Builder.part

    def bare(self: Builder, op: object, role: object, operands: object, outputs: object, attributes: dict) -> None:
        part(self, op, role, operands, outputs, {k: v for k, v in attributes.items() if k != "pads"})  # type: ignore[arg-type]

    patch.setattr(Builder, "part", bare)


def _first_parameters(patch: pytest.MonkeyPatch) -> None:
    """Every part has the first rows of weights and of the parameters of norms."""
    constant = Builder.constant

    def first(self: Builder, of: int, box: tuple[tuple[int, int], ...]) -> int:
        return constant(self, of, tuple((0, b - a) for a, b in box))

    patch.setattr(Builder, "constant", first)


def _activation_each(patch: pytest.MonkeyPatch) -> None:
    """What follows the sum follows each part of it."""
    known = onnx_part.accumulating

    def each(*given: object) -> object:
        adds = known(*given)  # type: ignore[arg-type]
        return adds and replace(adds, at_the_end=frozenset())

    patch.setattr(onnx_part, "accumulating", each)


def _next_operand(patch: pytest.MonkeyPatch) -> None:
    """Pieces of a concat's result are its operands, one too far."""
    join = seam_parts._Eliminated._join

    def turned(self: seam_parts._Eliminated, op: object, dim: int) -> None:
        join(self, op, dim)  # type: ignore[arg-type]
        for t, (d, pieces) in list(self.at.items()):
            sizes = {b - a for a, b in pieces}
            if len(sizes) == 1:
                first, *others = pieces.values()
                self.at[t] = (d, dict(zip(pieces, [*others, first], strict=True)))

    patch.setattr(seam_parts._Eliminated, "_join", turned)


BROKEN: dict[str, Patch] = {
    "bias once": _bias_each,
    "groups of a part": _own_groups,
    "padding": _unpadded,
    "rows of parameters": _first_parameters,
    "operands in order": _next_operand,
}


def _even() -> Nets:
    """A concat of operands of equal size, read by a convolution, a depthwise one and a norm."""
    nets = Nets(_fixed)
    x = nets.input((1, 2, 5, 5))
    both = [nets.node("Conv", [x, nets.floats((3, 2, 3, 3), 0.5)], pads=[1] * 4)[0] for _ in range(2)]
    (c,) = nets.node("Concat", both, axis=1)
    nets.node("Conv", [c, nets.floats((2, 6, 3, 3), 0.3), nets.floats((2,))], pads=[1] * 4)
    (d,) = nets.node("Conv", [c, nets.floats((6, 1, 3, 3), 0.3), nets.floats((6,))], pads=[1] * 4, group=6)
    vectors = [nets.floats((6,)), nets.floats((6,)), nets.floats((6,)), nets.positive(6)]
    (e,) = nets.node("BatchNormalization", [d, *vectors])
    nets.node("ReduceSum", [e, nets.ints(1)])
    return nets


@pytest.mark.parametrize("rule", BROKEN)
def test_every_rule_is_needed(rule: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """With a rule broken, the parts give other numbers or do not run."""
    source, cutter, parts = _in_parts(_even(), tmp_path, accumulate=False, fine=False)
    assert not differs(source, tmp_path, cutter, parts)
    BROKEN[rule](monkeypatch)
    try:
        source, cutter, parts = _in_parts(_even(), tmp_path, accumulate=False, fine=False)
        wrong = bool(differs(source, tmp_path, cutter, parts))
    except Exception:  # onnxruntime's own kinds of error have no common base
        wrong = True
    assert wrong


def test_activations_are_no_part_of_a_sum(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """With an activation behind each part of a sum, its numbers are others."""
    _activation_each(monkeypatch)
    with pytest.raises(AssertionError):
        test_what_follows_a_sum_follows_all_of_it(tmp_path)


def test_groups_that_lie_across_operands_are_not_cut(tmp_path: Path) -> None:
    """Two groups of three channels each, over operands of two and four."""
    nets = Nets(_fixed)
    x = nets.input((1, 2, 5, 5))
    sizes = (2, 4)
    both = [nets.node("Conv", [x, nets.floats((n, 2, 1, 1))])[0] for n in sizes]
    (c,) = nets.node("Concat", both, axis=1)
    nets.node("Conv", [c, nets.floats((4, 3, 3, 3))], group=2)
    _, _, parts = _in_parts(nets, tmp_path, accumulate=True, fine=False)
    assert parts.elimination == Elimination(())
    patch = pytest.MonkeyPatch()
    with patch.context() as broken:
        broken.setattr(seams, "_rows", lambda known, index, ends: tuple(e * known.access.sizes[1] // 6 for e in ends))
        _, cutter, _ = _in_parts(nets, tmp_path, accumulate=False, fine=False)
        assert not find_elimination(cutter).cuts


def test_bits_alone_are_kept_where_that_is_asked(tmp_path: Path) -> None:
    """With `exact_bits`, no convolution and no sum is cut, and what is left gives equal bits."""
    source, _, _ = _in_parts(_dense(), tmp_path, accumulate=False, fine=False)
    cutter = Cutter(read_model(source), exact_bits=True)
    found = find_elimination(cutter, accumulate=True)
    types = {cutter.graph.op_by_id[c.op].type for c in found.cuts}
    assert "Conv" not in types
    parts = apply_with_elimination(cutter, (), found)
    assert not differs(source, tmp_path, cutter, parts)


def test_a_reader_of_the_whole_keeps_the_concat(tmp_path: Path) -> None:
    """Where one reader takes the whole, the concat runs for it, and another reader takes its operands."""
    nets = _even()
    nets.node("Softmax", ["t2"], axis=1)
    source, cutter, parts = _in_parts(nets, tmp_path, accumulate=False, fine=False)
    assert [op.type for op in parts.graph.ops].count("Concat") == 1
    whole = next(t.id for t in parts.graph.tensors if t.name == "t2")
    assert len(parts.graph.consumers[whole]) == 1
    assert not differs(source, tmp_path, cutter, parts)


def test_a_cut_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    """Seams that were read from a file: an op twice, other rows, parts of a sum that are added twice."""
    _, cutter, parts = _in_parts(_dense(), tmp_path, accumulate=False, fine=False)
    cuts = parts.elimination.cuts
    summed = next(k for k, c in enumerate(cuts) if c.turns)
    wrong = [
        (*cuts, cuts[0]),
        tuple(c for c in cuts if c.op != cuts[1].op),
        (*cuts[:summed], replace(cuts[summed], turns=(0,) * len(cuts[summed].turns)), *cuts[summed + 1 :]),
    ]
    for changed in wrong:
        with pytest.raises(ValueError, match=r"tiled twice|pieces|parts|no op makes"):
            apply_with_elimination(cutter, (), Elimination(changed))
