"""Which tensors may lie in which, each by itself and together."""

from __future__ import annotations

from pathlib import Path

import pytest

from lowtide.analyse.storage import memory_model
from lowtide.graph import Graph
from lowtide.read import read_model
from lowtide.target import Target, resolve
from lowtide.transform.alias import Alias, Forest, apply, box_place, why_not
from lowtide.transform.alias_candidates import Candidates
from support.onnx_builder import constant, model, node, saved, value

CONTIGUOUS = resolve("generic,pieces=contiguous")
STRIDED = resolve("generic,pieces=strided")
X = value("x", (1, 2, 2, 2))


def _graph(folder: Path, nodes: list, results: dict[str, tuple[int, ...]], constants: tuple = ()) -> Graph:
    made = model(nodes, [X], [value(name, shape) for name, shape in results.items()], constants)
    return read_model(saved(made, folder))


def _named(graph: Graph, aliases: tuple[Alias, ...]) -> set[tuple[str, str, str]]:
    name = {t.id: t.name for t in graph.tensors}
    return {(name[a.tensor], name[a.of], a.how) for a in aliases}


def _some(graph: Graph, target: Target) -> set[tuple[str, str, str]]:
    return _named(graph, Candidates(graph, target).all)


def test_pieces_and_what_lies_underneath(tmp_path: Path):
    """Operands of a concat, what an op that makes one writes over, and no input of the graph."""
    nodes = [
        node("Neg", "x", "a"),
        node("Relu", "a", "p"),
        node("Concat", "p x", "y", axis=1),
        node("Neg", "y", "z"),
    ]
    graph = _graph(tmp_path, nodes, {"z": (1, 4, 2, 2)})
    assert _some(graph, CONTIGUOUS) == {("p", "y", "join"), ("a", "p", "over")}
    assert _some(graph, resolve("generic")) == set()


def test_what_a_view_reads_lies_with_it(tmp_path: Path):
    """A reshape in front of a concat."""
    shape = constant("s", [1, 2, 2, 2], dtype=7)
    nodes = [
        node("Neg", "x", "a"),
        node("Reshape", "a s", "p"),
        node("Concat", "p p2", "y", axis=1),
        node("Neg", "y", "z"),
    ]
    nodes.insert(2, node("Exp", "x", "p2"))
    graph = _graph(tmp_path, nodes, {"z": (1, 4, 2, 2)}, (shape,))
    assert ("a", "p", "same") in _some(graph, CONTIGUOUS)


def test_slices_and_splits_are_taken_where_they_are_one_stretch(tmp_path: Path):
    """Channels are; rows of several channels are only for kernels with a pitch."""
    ints = [constant(n, [v], dtype=7) for n, v in (("zero", 0), ("one", 1), ("two", 2), ("three", 3))]
    nodes = [
        node("Neg", "x", "a"),
        node("Slice", "a zero one one", "c"),
        node("Slice", "a zero one two", "r"),
        node("Split", "a", "u v", axis=1, num_outputs=2),
        node("Sum", "c u v", "m"),
        node("Neg", "r", "n"),
    ]
    graph = _graph(tmp_path, nodes, {"m": (1, 1, 2, 2), "n": (1, 2, 1, 2)}, tuple(ints))
    taken = {("c", "a", "take"), ("u", "a", "take"), ("v", "a", "take")}
    assert _some(graph, CONTIGUOUS) == taken
    assert _some(graph, STRIDED) == taken | {("r", "a", "take")}
    rows = next(a for a in Candidates(graph, STRIDED).all if a.how == "take" and a.run == 8)
    assert (rows.first, rows.pitch) == (0, 16)


def test_a_concat_of_some_operands_lies_in_that_of_more(tmp_path: Path):
    """So do dense blocks grow in one place, and their pieces have one place in both."""
    nodes = [
        node("Neg", "x", "a"),
        node("Exp", "x", "b"),
        node("Concat", "a b", "y", axis=1),
        node("Relu", "y", "c"),
        node("Concat", "a b c", "z", axis=1),
        node("Neg", "z", "r"),
    ]
    graph = _graph(tmp_path, nodes, {"r": (1, 8, 2, 2)})
    assert ("y", "z", "nested") in _some(graph, CONTIGUOUS)
    forest = Forest(graph, CONTIGUOUS)
    id_of = {t.name: t.id for t in graph.tensors}
    inner = [a for a in Candidates(graph, CONTIGUOUS).all if (a.tensor, a.of) == (id_of["b"], id_of["y"])]
    outer = [a for a in Candidates(graph, CONTIGUOUS).all if a.how == "nested"]
    assert forest.add([*inner, *outer]) is None
    assert forest.places[id_of["b"]].first == 32
    assert forest.places[id_of["b"]].root == id_of["z"]


def test_an_op_writes_over_only_what_no_order_needs_later(tmp_path: Path):
    """Another reader that may run later forbids it; one that comes before in every order does not."""
    nodes = [
        node("Neg", "x", "a"),
        node("Relu", "a", "p"),
        node("Exp", "a", "q"),
        node("Concat", "p q", "y", axis=1),
        node("Neg", "y", "z"),
    ]
    graph = _graph(tmp_path, nodes, {"z": (1, 4, 2, 2)})
    together = Candidates(graph, CONTIGUOUS).all
    over = tuple(a for a in together if a.how == "over")[:1]
    joins = tuple(a for a in together if a.how == "join")
    assert "may run after" in (why_not(graph, CONTIGUOUS, (*joins, *over)) or "")
    nodes[1:3] = [node("Exp", "a", "q"), node("Mul", "a q", "p")]
    graph = _graph(tmp_path, nodes, {"z": (1, 4, 2, 2)})
    id_of = {t.name: t.id for t in graph.tensors}
    some = [a for a in Candidates(graph, CONTIGUOUS).all if (a.tensor, a.of) == (id_of["a"], id_of["p"])]
    joins = tuple(a for a in Candidates(graph, CONTIGUOUS).all if a.how == "join")
    assert why_not(graph, CONTIGUOUS, (*joins, *some)) is None


def test_two_places_and_circles_are_refused(tmp_path: Path):
    """One tensor in two wholes; nothing changes in a forest that refuses."""
    nodes = [
        node("Neg", "x", "a"),
        node("Exp", "x", "b"),
        node("Concat", "a b", "y", axis=1),
        node("Concat", "b a", "z", axis=1),
        node("Add", "y z", "r"),
    ]
    graph = _graph(tmp_path, nodes, {"r": (1, 4, 2, 2)})
    some = Candidates(graph, CONTIGUOUS).all
    assert len(some) == 4
    assert why_not(graph, CONTIGUOUS, some) == "a tensor would lie in two others"
    forest = Forest(graph, CONTIGUOUS)
    assert forest.add(some[:2]) is None
    before = forest.aliases
    assert forest.add(some[2:3]) is not None
    assert forest.aliases == before
    forest.remove([some[0].tensor])
    assert forest.aliases == (some[1],)


def test_a_whole_is_one_storage(tmp_path: Path):
    """Its pieces count once, from the first to the last reader; kernels with a pitch write over nothing there."""
    nodes = [
        node("Neg", "x", "a"),
        node("Exp", "x", "b"),
        node("Relu", "a", "c"),
        node("Concat", "c b", "y", axis=2),
        node("Neg", "b", "d"),
        node("Neg", "y", "z"),
    ]
    graph = _graph(tmp_path, nodes, {"z": (1, 2, 4, 2), "d": (1, 2, 2, 2)})
    joins = tuple(a for a in Candidates(graph, STRIDED).all if a.how == "join")
    memory = memory_model(apply(graph, STRIDED, joins).graph, STRIDED)
    id_of = {t.name: t.id for t in graph.tensors}
    (storage,) = {memory.storage_of[id_of[n]] for n in ("b", "c", "y")}
    assert memory.storages[storage].size == graph.tensor_by_id[id_of["y"]].size
    reader = graph.index_of[graph.producer[id_of["d"]]]
    assert not memory.overwrites[reader]


@pytest.mark.parametrize(
    ("box", "place"),
    [
        (((0, 2), (0, 3), (0, 4)), (0, 96, 96)),
        (((1, 2), (0, 3), (0, 4)), (48, 48, 96)),
        (((1, 2), (1, 2), (1, 3)), (68, 8, 96)),
        (((0, 2), (1, 3), (0, 4)), (16, 32, 48)),
        (((0, 2), (0, 3), (3, 4)), (12, 4, 16)),
        (((0, 2), (1, 2), (1, 3)), None),
    ],
)
def test_rows_of_a_box(box: tuple, place: tuple[int, int, int] | None):
    """Of floats of shape 2, 3, 4: first byte, run and pitch."""
    assert box_place((2, 3, 4), box, 4) == place
