"""Part graphs of .tflite models: run beside the whole in TFLM and LiteRT, they give the same numbers."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from lowtide.ops.tflite import part as tflite_part
from lowtide.transform import part_builder
from lowtide.transform.cut import Cutter
from lowtide.transform.parts import apply
from lowtide.transform.tflite_file import TfliteParts, with_file

pytest.importorskip("tflite_micro", reason="parts are run in TFLM, which is not installed")
pytest.importorskip("ai_edge_litert", reason="parts are run in LiteRT, which is not installed")
from support.tflite_builder import SAME, Net, residual
from support.tflite_nets import Whole, graph_with_file, random_tflite, regions, ways_to_cut


def _random_cuts(seed: int, dtype: str = "int8") -> list[str]:
    """What is wrong with cuts of a random network: up to twelve regions, then two at once."""
    rng = random.Random(seed)
    whole = Whole(random_tflite(rng.choice, rng.choice((3, 5, 7)), dtype).bytes())
    stripes, ways = rng.choice((2, 3, 5)), list(ways_to_cut(whole.cutter))
    rng.shuffle(ways)
    every = [whole.cutter.region(whole.graph.own_order, axes, stripes, pace) for axes, pace in ways[:12]]
    wrong = [whole.differs([region]) for region in every]
    for a, b in zip(every[:6], every[6:12], strict=False):
        if not a.of.keys() & b.of.keys():
            with suppress(ValueError):  # one would have to run before and behind the other
                wrong.append(whole.differs([a, b]))
    return [text for text in wrong if text]


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 75, 25))
def test_random_networks_of_bytes_in_parts(first: int) -> None:
    """75 random int8 networks, every cut bit for bit what the whole gives, in each runtime."""
    assert not [text for seed in range(first, first + 25) for text in _random_cuts(seed)]


@pytest.mark.slow
def test_random_networks_of_floats_in_parts() -> None:
    """The same of floats, to 1e-5 where a runtime may take another kernel."""
    assert not [text for seed in range(1000, 1020) for text in _random_cuts(seed, "float32")]


@pytest.mark.slow
def test_a_residual_network_in_parts() -> None:
    """Halos of two convolutions, a sum whose operands lag behind each other, in two, three and seven stripes."""
    whole = Whole(residual().bytes())
    for stripes in (2, 3, 7):
        found = [r for r in regions(whole.cutter, stripes) if len(r.cuts) > 2 and r.cuts[0].axis != 3]
        assert found
        assert not [text for region in found for text in [whole.differs([region])] if text]


@pytest.mark.slow
@pytest.mark.parametrize("kernel", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("stride", [1, 2, 3])
def test_padding_of_every_parity(kernel: int, stride: int) -> None:
    """SAME windows over odd and even sizes, from one row a stripe on: no row of padding is one too early or late."""
    for height in (5, 6, 7):
        for depthwise in (False, True):
            net = Net(height)
            x = net.tensor((1, height, 6, 2), zero=7)
            a = net.conv(x, 1 if depthwise else 3, (kernel, 3), (stride, 1), SAME, depthwise=depthwise)
            b = net.conv(a, 2, (3, 2), (2, 2), SAME)
            net.ends([x], [b])
            whole = Whole(net.bytes())
            for stripes in (2, height):
                assert not [text for r in regions(whole.cutter, stripes) for text in [whole.differs([r])] if text]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kernel", "stride", "pads"), [(3, 1, 1), (3, 2, 0), (4, 1, 2), (5, 1, 3), (5, 2, 2), (2, 1, 0)]
)
@pytest.mark.parametrize("depthwise", [False, True])
def test_a_part_of_one_row_is_padded_at_the_ends_alone(kernel: int, stride: int, pads: int, depthwise: bool) -> None:
    """Where padding is more before than behind, or two rows more behind; all else SAME with a long step says."""
    for axis, size in ((1, (8, 7)), (2, (6, 8))):
        net = Net()
        x = net.tensor((1, *size, 8), zero=5)
        filters = 1 if depthwise else 4
        net.ends([x], [net.conv(x, filters, (kernel, kernel), (stride, stride), SAME, depthwise=depthwise)])
        whole = Whole(net.bytes())
        rows = 8 // stride
        region = next(r for r in regions(whole.cutter, rows) if r.cuts[0].axis == axis)
        assert len(region.cuts[0].ends) == rows
        made = [op for op in apply(whole.cutter, [region]).graph.ops if op.type == "PAD"]
        assert len(made) == pads
        assert not whole.differs([region])


def test_joins_of_more_than_an_operator_takes() -> None:
    """TFLM's CONCATENATION has ten operands: twelve rows are put together in groups."""
    net = Net()
    x = net.tensor((1, 12, 4, 2))
    net.ends([x], [net.conv(net.conv(x, 4), 2, (1, 1))])
    whole = Whole(net.bytes())
    region = next(r for r in regions(whole.cutter, 12) if len(r.cuts) == 2 and r.cuts[0].axis == 1)
    joins = [op for op in apply(whole.cutter, [region]).graph.ops if op.type == "CONCATENATION"]
    assert max(len(op.inputs) for op in joins) == tflite_part.MOST_OPERANDS
    assert not whole.differs([region])


def test_tensors_keep_their_numbers() -> None:
    """What is still there has the number that it had, new tensors take those that are free, and none is left over."""
    graph = graph_with_file(residual().bytes())
    cutter = Cutter(graph)
    region = max(regions(cutter, 4), key=lambda r: len(r.cuts))
    file = with_file(apply(cutter, [region])).graph.file
    assert isinstance(file, TfliteParts)
    old = {t.id for t in graph.tensors}
    assert all(number == t for t, number in file.tensors.items() if t in old)
    assert sorted(file.tensors.values()) == list(range(len(file.model.subgraphs[0].tensors)))
    assert [op.id for op in file.graph.ops] == list(file.ops.values())


Patch = Callable[[pytest.MonkeyPatch], None]


def _answer(room: object, name: str, value: Any) -> Patch:
    """A question that has one answer."""
    return lambda patch: patch.setattr(room, name, lambda *given, **named: value)


def _one_less(patch: pytest.MonkeyPatch) -> None:
    """A row of padding less before, one more behind."""
    around = tflite_part._around

    def moved(*given: Any) -> tuple[int, int]:
        before, behind = around(*given)
        return (before - 1, behind + 1) if before else (before, behind)

    patch.setattr(tflite_part, "_around", moved)


def _never_padded(patch: pytest.MonkeyPatch) -> None:
    """Every part keeps the operator's own word."""
    windowed = tflite_part._windowed

    def kept(graph: Any, op: Any, form: Any, axis: int, grain: int) -> Any:
        how = windowed(graph, op, form, axis, grain)
        return None if how is None else replace(how, spell=lambda rows, shapes: tflite_part.Written(op.attributes))

    patch.setattr(tflite_part, "_windowed", kept)


def _split_evenly(patch: pytest.MonkeyPatch) -> None:
    """A part of one row is given no padding, where SAME has the odd row behind and the whole has it before."""
    one_row = tflite_part._one_row
    patch.setattr(tflite_part, "_one_row", lambda *given: replace(one_row(*given), padding=()))


def _padded_pools(patch: pytest.MonkeyPatch) -> None:
    """Zero points are put beside a pool as beside a convolution."""
    windowed = tflite_part._windowed

    def any_form(graph: Any, op: Any, form: Any, axis: int, grain: int) -> Any:
        if isinstance(form, tflite_part.Pool):
            form = tflite_part.Convolution(form.windows, channel=3)
        return windowed(graph, op, form, axis, grain)

    patch.setattr(tflite_part, "_windowed", any_form)


def _own_shapes(patch: pytest.MonkeyPatch) -> None:
    """A reshape names the shape of the whole."""
    patch.setattr(
        tflite_part, "_reshaped", lambda op, g: tflite_part.Spelling(g, lambda r, s: tflite_part.Written(op.attributes))
    )


def _whole_scales(patch: pytest.MonkeyPatch) -> None:
    """Rows of weights keep the scales of the first rows."""
    patch.setattr(part_builder, "quant_of_rows", lambda quant, box: quant)


def _own_options(patch: pytest.MonkeyPatch) -> None:
    """Slices and resizes are cut as if their operands spoke of parts."""

    def own(graph: Any, op: Any, known: Any, axis: int) -> Any:
        return tflite_part.Spelling(1, lambda rows, shapes: tflite_part.Written(op.attributes))

    patch.setattr(tflite_part, "_indexed", own)


def _any_join(patch: pytest.MonkeyPatch) -> None:
    """All parts are joined at once."""
    patch.setattr(tflite_part, "MOST_OPERANDS", 0)


def _every_filter(patch: pytest.MonkeyPatch) -> None:
    """Channels that LiteRT takes at once are cut apart."""
    patch.setattr(tflite_part, "_filters", lambda *given: 1)


RULES: dict[str, Patch] = {
    "padding before": _one_less,
    "word for padding": _never_padded,
    "a row's padding": _split_evenly,
    "pools": _padded_pools,
    "shapes of reshapes": _own_shapes,
    "scales of rows": _whole_scales,
    "operands of pieces": _own_options,
    "operands of a join": _any_join,
    "channels at once": _every_filter,
}


@pytest.mark.slow
@pytest.mark.parametrize("rule", RULES)
def test_a_broken_rule_is_seen(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever rule is broken, some network gives other numbers, or cannot be cut, written or run."""
    RULES[rule](monkeypatch)
    if rule == "operands of a join":
        with pytest.raises(AssertionError):
            test_joins_of_more_than_an_operator_takes()
        return
    for seed in (*range(300), *range(2000, 2200)):
        try:
            if _random_cuts(seed):
                return
        except Exception:  # what cannot be cut, written or run is seen as well
            return
    raise AssertionError(rule)
