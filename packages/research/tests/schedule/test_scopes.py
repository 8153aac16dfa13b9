"""Scopes of cells from a file: what HMCOS makes of them, and what is wrong with some."""

import json
from pathlib import Path
from random import Random

import pytest

from lowtide.analyse.liveness import profile
from lowtide.analyse.storage import memory_model
from lowtide.errors import InputError
from lowtide.graph import Graph
from lowtide.schedule.registry import make
from lowtide.stop import Limits
from lowtide.target import BUILT_IN
from lowtide_research import zoo
from lowtide_research.schedule.hmcos import Hmcos
from lowtide_research.schedule.scopes import read_scopes
from support.brute import optimum
from support.random_graphs import random_graph


def scopes_file(folder: Path, content: object) -> str:
    """A file with that JSON."""
    path = folder / "scopes.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return str(path)


def cells_of(graph: Graph, cell_output: str = "Concat") -> dict[str, list[int]]:
    """The cells that op types give: what each output needs and no earlier cell has."""
    taken, cells = set[int](), dict[str, list[int]]()
    for v, op in enumerate(graph.ops):
        if op.type == cell_output:
            stack, members = [v], set[int]()
            while stack:
                u = stack.pop()
                if u not in taken | members:
                    members.add(u)
                    stack.extend(graph.predecessors[u])
            taken |= members
            cells[op.name] = [graph.ops[u].id for u in sorted(members)]
    return cells


@pytest.mark.parametrize("hierarchy", ["cells", "groups"])
def test_the_same_cells_give_the_same_order(hierarchy: str, tmp_path: Path) -> None:
    """The cells that `cell_output` gives, handed over, are scheduled as these."""
    graph = zoo.build("darts_imagenet").graph()
    model = memory_model(graph, BUILT_IN["hmcos"])
    file = scopes_file(tmp_path, cells_of(graph))
    guessed, given = (make("hmcos", {"hierarchy": hierarchy, **o}) for o in ({}, {"scopes": file}))
    a, b = guessed.schedule(model, Limits()), given.schedule(model, Limits())
    assert profile(model, a.order).peak == profile(model, b.order).peak
    assert a.counters["cells"] == b.counters["cells"]


def test_any_cells_give_an_order(tmp_path: Path) -> None:
    """Cells drawn at random, some ops in none: they are what is asked for, and the order is one."""
    groups = 0
    for seed in range(150):
        rng = Random(seed)
        graph = random_graph(rng, rng.randint(2, 9))
        model = memory_model(graph, BUILT_IN["hmcos"])
        bounds = sorted(rng.sample(range(len(graph.ops) + 1), 2))
        cells = {"a": [op.id for op in graph.ops[: bounds[0]]], "b": [op.id for op in graph.ops[bounds[0] : bounds[1]]]}
        file = scopes_file(tmp_path, cells)
        scope = read_scopes(file, graph)
        assert [scope.count(0), scope.count(1)] == [len(c) for c in cells.values()]
        for options in (Hmcos(scopes=file), Hmcos(scopes=file, hierarchy="cells", dissolve="makers")):
            found = options.hierarchical(model, Limits())
            assert sorted(found.order) == list(range(len(graph.ops)))
            place = {v: k for k, v in enumerate(found.order)}
            assert all(place[u] < place[v] for v, before in enumerate(graph.predecessors) for u in before)
            assert found.peak_bytes >= optimum(graph, BUILT_IN["hmcos"])
            assert found.peak_bytes == profile(model, found.order).peak
            groups += len(found.groups)
            for group in found.groups if options.hierarchy == "cells" else ():
                assert len({scope[v] for s in group for v in found.sequences[s]}) == 1
    assert groups > 100


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("no json", "no JSON"),
        ([[0, 1]], "the scopes of cells are written as"),
        ({"a": 3}, "the scopes of cells are written as"),
        ({"a": ["missing"]}, "there is no such op"),
        ({"a": [True]}, "there is no such op"),
        ({"a": [999]}, "there is no such op"),
        ({"a": [0, 1], "b": [1]}, "is in two places"),
        ({"a": [0, 20]}, "needs results of ops outside"),
    ],
)
def test_wrong_scopes(content: object, why: str, tmp_path: Path) -> None:
    """One line that says what to change."""
    graph = zoo.build("swiftnet_cell_a").graph()
    with pytest.raises(InputError, match=why):
        read_scopes(scopes_file(tmp_path, content), graph)
    with pytest.raises(InputError, match="cannot read"):
        read_scopes(tmp_path / "nowhere.json", graph)
