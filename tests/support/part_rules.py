"""Rules of what a cut is, each broken on purpose: patches to try whether anybody notices."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from lowtide.graph import Graph, Op
from lowtide.ops import part as ops_part
from lowtide.ops.access import Access, Box, Shape
from lowtide.ops.forms import Convolution, Pool
from lowtide.ops.index import Range
from lowtide.ops.onnx import part as onnx_part
from lowtide.ops.part import Glue, Spelling, Written
from lowtide.transform import part_builder
from lowtide.transform import stripes as stripes_of_region
from lowtide.transform.cut import Cut, Cutter

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


def _again_late(patch: pytest.MonkeyPatch) -> None:
    """Rows that run again begin one too late."""
    begins = Cutter.begins

    def later(self: Cutter, op: int, axes: Mapping[int, int], ends: Sequence[int], readers: Mapping[int, Cut]) -> Any:
        result = begins(self, op, axes, ends, readers)
        return tuple(min(a + 1, done) for a, done in zip(result, (0, *ends), strict=False))

    patch.setattr(Cutter, "begins", later)


def _attributes(change: Callable[[dict[str, Any], Mapping[str, Any]], None]) -> Patch:
    """Something else in the attributes of a part of a window."""

    def broken_rule(patch: pytest.MonkeyPatch) -> None:
        windowed = onnx_part._windowed

        def changed(graph: Graph, op: Op, form: Convolution | Pool, axis: int, grain: int) -> Spelling | None:
            how = windowed(graph, op, form, axis, grain)
            if how is None:
                return None

            def spell(rows: Range, shapes: tuple[Shape, ...]) -> Written:
                attributes = dict(how.spell(rows, shapes).attributes)
                change(attributes, op.attributes)
                return Written(attributes)

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
    patch.setattr(onnx_part, "_sized", lambda op, grain: Spelling(grain, lambda rows, shapes: Written(op.attributes)))


def _whole_constants(patch: pytest.MonkeyPatch) -> None:
    """Parts are given whole weights."""
    patch.setattr(part_builder.Builder, "constant", lambda self, of, box: of)


def _moved_pieces(patch: pytest.MonkeyPatch) -> None:
    """Slices and pads are cut along the dimension of which they speak."""
    patch.setattr(onnx_part, "_indexed", lambda graph, op, known, axis: onnx_part._sized(op, 1))


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
    "first row that runs again": _again_late,
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

_SEEN_IN = {
    "groups": "widening", "grain": "groups", "means": "sums", "merge": "sums", "a bias that must be": "older",
    "literals": "widening", "pieces": "widening", "transposed windows": "spread", "attributes that count": "pieces",
    "one dimension": "diagonal", "rows of padding alone": "beside", "joined constants": "beside",
    "pads of a pool": "windows",
}  # fmt: skip


def most_likely_first(rule: str, names: Iterable[str]) -> list[str]:
    """Networks of the suite, and before all others the one that is known to show that a rule is broken."""
    return sorted(names, key=lambda name: name != _SEEN_IN.get(rule))
