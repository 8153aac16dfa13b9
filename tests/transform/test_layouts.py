"""Images in either layout: those that lie in others as the graph has them, all others with their channels last."""

from __future__ import annotations

from pathlib import Path

import pytest

import lowtide
from lowtide.analyse.storage import memory_model
from lowtide.graph import Graph
from lowtide.ops.raster import memory_dims
from lowtide.read import read_model
from lowtide.target import resolve
from lowtide.transform.alias import Forest, apply
from lowtide.transform.alias_candidates import Candidates
from lowtide.verify.check.memory import work_out
from support.onnx_builder import constant, model, node, saved, value

EITHER = resolve("generic,in_place_normalisation=true,pieces=contiguous,overlap=diagonal,layout=either")


@pytest.fixture
def net(tmp_path: Path) -> Path:
    """Two convolutions joined; what is made of both goes through two more."""
    widths = {"a": (3, 4), "b": (3, 4), "d": (8, 4), "y": (4, 4)}
    weights = [constant(f"w_{name}", [0.5] * (9 * i * o), [o, i, 3, 3]) for name, (i, o) in widths.items()]

    def conv(read: str, made: str) -> object:
        return node("Conv", f"{read} w_{made}", made, pads=[1, 1, 1, 1])

    nodes = [
        conv("x", "a"), conv("x", "b"), node("Relu", "b", "r"), node("Concat", "a r", "c", axis=1), conv("c", "d"),
        node("Relu", "d", "e"), conv("e", "y"),
    ]  # fmt: skip
    return saved(model(nodes, [value("x", (1, 3, 16, 16))], [value("y", (1, 4, 16, 16))], weights), tmp_path)


def _aliased(path: Path) -> Graph:
    graph = read_model(path)
    forest = Forest(graph, EITHER)
    assert forest.add([a for a in Candidates(graph, EITHER).all if a.how == "join"]) is None
    return apply(graph, EITHER, forest.aliases).graph


def test_what_lies_in_others_lies_as_the_graph_has_it(net: Path):
    """Channels of the concat in one stretch each; all else with its channels last."""
    graph = _aliased(net)
    lies = {t.name: memory_dims(graph, t.id, channels_last=True, aliases_keep_file_layout=True) for t in graph.tensors}
    assert {name for name in "abcdery" if lies[name] == (0, 1, 2, 3)} == {"a", "c", "r"}
    assert memory_model(graph, EITHER).groups


def test_nothing_is_written_over_what_lies_otherwise(net: Path):
    """A Relu over its input where both lie alike; a convolution behind its rows, none over the whole or into it."""
    graph = _aliased(net)
    name = {t.id: t.name for t in graph.tensors}
    pairs = {(name[o.output], name[o.input]) for row in memory_model(graph, EITHER).overwrites for o in row}
    assert pairs == {("e", "d"), ("y", "e")}
    over = work_out(graph, EITHER).overwritable
    assert {(name[graph.op_by_id[v].outputs[0]], name[t]) for v, reads in over.items() for t in reads} == pairs
    assert EITHER.in_place_inputs(graph, next(op for op in graph.ops if op.name.endswith("r"))) == ()


def test_a_plan_holds_and_needs_no_more_than_with_one_layout(net: Path):
    """Verified, and as low as the file's layout and channels last."""
    plan = lowtide.research.plan(net, target=EITHER, allow="alias")
    assert lowtide.verify(net, plan, target=EITHER).checks
    for word in ("file", "channels_last"):
        other = lowtide.research.plan(net, target=f"generic,overlap=diagonal,layout={word}", allow="alias")
        assert plan.peak_bytes <= other.peak_bytes
