"""Decisions and the graphs that they give: level by level as each change alone gives them, and the same from a file."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from lowtide.graph import Graph
from lowtide.read import read_model
from lowtide.rewrites import Recompute
from lowtide.transform import runs
from lowtide.transform.cut import Cutter
from lowtide.transform.decision import Decision, Level, LevelRewrite, level_of, tilings_as_rewrites
from lowtide.transform.hand_on import hand_on, may_split
from lowtide.transform.lower import base_of, lower, lower_level, with_turns
from lowtide.transform.parts import PartGraph, apply
from lowtide.transform.rounds import nested, of_file
from lowtide.transform.seam_parts import apply_with_elimination
from lowtide.transform.seams import find_elimination
from lowtide.transform.sections import by_sections, of_user, products
from lowtide.write.onnx_parts import write_onnx_parts
from support.cut_rounds import Ways, drawn_regions
from support.section_nets import attention
from support.small_nets import pyramid, random_net


@st.composite
def _drawn(draw: st.DrawFn) -> tuple[bytes, list[Ways]]:
    model = random_net(lambda options: draw(st.sampled_from(tuple(options))), draw(st.sampled_from((2, 4, 7))))
    many = st.integers(0, 99)
    ways = st.lists(st.tuples(many, many, many, many, st.integers(2, 4)), min_size=1, max_size=2)
    return model.SerializeToString(), draw(st.lists(ways, min_size=1, max_size=3))


def _from_a_file(graph: Graph, level: Level) -> Level:
    """The level after a way through JSON."""
    rewrites = [*level.clones, *tilings_as_rewrites(level)]
    read = msgspec.json.decode(msgspec.json.encode(rewrites), type=list[LevelRewrite])
    return with_turns(base_of(graph, level_of(read)), level_of(read))


@pytest.mark.slow
@settings(deadline=None, max_examples=60, suppress_health_check=list(HealthCheck))
@given(drawn=_drawn(), split=st.booleans(), seams=st.booleans())
def test_levels_give_what_each_change_gives(drawn: tuple[bytes, list[Ways]], *, split: bool, seams: bool) -> None:
    """`lower` composes tiles, seams, pieces that stay apart and further levels as each of them alone is applied."""
    model, all_ways = drawn
    with TemporaryDirectory() as name:
        path = Path(name) / "m.onnx"
        path.write_bytes(model)
        graph = user = read_model(path)
    levels: list[Level] = []
    expected: PartGraph | None = None
    for ways in all_ways:
        cutter = Cutter(graph)
        found = find_elimination(cutter) if seams and not levels else Level().elimination
        at_seams = {cut.op for cut in found.cuts}
        regions = [r for r in drawn_regions(cutter, ways) if at_seams.isdisjoint(r.of)]
        try:
            parts = apply_with_elimination(cutter, regions, found)
        except ValueError as error:
            assume("before and after" in str(error))
            continue
        kept = may_split(graph, parts) if split else frozenset[int]()
        parts = hand_on(graph, parts) if split else parts
        level = Level(regions=tuple(regions), elimination=found, split=kept)
        assert lower_level(graph, _from_a_file(graph, level)) == parts
        levels.append(level)
        expected = parts if expected is None else nested(expected, parts)
        graph = parts.graph
    assume(expected is not None)
    assert lower(user, Decision(tuple(levels))) == expected


def test_sections_are_a_level(tmp_path: Path) -> None:
    """Products by sections and tiles of what they give are one level, as they are if each is applied by hand."""
    path = tmp_path / "m.onnx"
    path.write_bytes(attention().model().SerializeToString())
    graph = read_model(path)
    chosen = products(graph)
    sectioned = by_sections(graph, chosen)
    cutter = Cutter(sectioned.graph)
    regions = drawn_regions(cutter, [(1, 0, 0, 9, 2)])
    assert chosen
    assert regions
    expected = of_user(apply(cutter, regions), sectioned)
    assert lower_level(graph, Level(products=tuple(p.op for p in chosen), regions=tuple(regions))) == expected


def test_an_op_of_a_level_runs_again(tmp_path: Path) -> None:
    """A tile is recomputed in the level behind: the written file has it twice, and gives the same numbers."""
    pytest.importorskip("onnxruntime", reason="the model is run in onnxruntime, which is not installed")
    from support.part_runs import difference, feeds

    source, out = tmp_path / "m.onnx", tmp_path / "out.onnx"
    source.write_bytes(pyramid().model().SerializeToString())
    graph = read_model(source)
    cutter = Cutter(graph)
    axes = cutter.grow(graph.own_order, graph.own_order[1], 2)
    assert axes is not None
    tiles = Level(regions=(cutter.region(graph.own_order, axes, 4),))
    tiled = lower_level(graph, tiles).graph
    again = next(k for k, op in enumerate(tiled.ops) if op.type == "Conv" and len(tiled.consumers[op.outputs[0]]) > 1)
    last = max(tiled.index_of[o] for o in tiled.consumers[tiled.ops[again].outputs[0]])
    sequence = [*range(last), again, *range(last, len(tiled.ops))]
    clones = tuple(r for r in runs.apply(tiled, sequence).rewrites if isinstance(r, Recompute))
    decision = Decision((tiles, Level(clones=clones)))
    parts = lower(graph, decision)
    assert len(parts.graph.ops) == len(tiled.ops) + 1
    write_onnx_parts(source, of_file(parts), parts.graph.own_order, out)
    assert difference(source, out, feeds(source)) == 0


def test_a_tensor_that_has_to_be_materialised_is_not_split(tmp_path: Path) -> None:
    """A decision that leaves it in pieces is refused, and none is guessed."""
    path = tmp_path / "m.onnx"
    path.write_bytes(pyramid().model().SerializeToString())
    graph = read_model(path)
    cutter = Cutter(graph)
    axes = cutter.grow(graph.own_order, graph.own_order[1], 2)
    assert axes is not None
    level = Level(regions=(cutter.region(graph.own_order, axes, 4),), split=frozenset({graph.ops[-1].outputs[0]}))
    with pytest.raises(ValueError, match="has to be materialised"):
        lower_level(graph, level)
