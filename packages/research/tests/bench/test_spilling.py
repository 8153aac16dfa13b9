"""`lowtide research bench spill`: its cells and files; SERENITY's pages; what is published."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from lowtide.analyse.storage import memory_model
from lowtide.cli import main
from lowtide.errors import InputError
from lowtide.graph import Graph, Kind, Op, Tensor
from lowtide.target import resolve
from lowtide_research.bench.command import write
from lowtide_research.bench.off_chip import paged_traffic
from lowtide_research.bench.spill_cells import HUMAN, NAS, SCHEMES
from lowtide_research.bench.spilling import SpillSuite
from lowtide_research.bench.suite import Results, run
from lowtide_research.zoo.published import UNITS, figures
from support.bench import json_of, markdown, text
from support.brute_pages import least_traffic
from support.random_graphs import random_graph, random_order

FAST = ("belady own", "greedy exact", "spill")


@pytest.fixture(scope="module")
def darts() -> Results[Any]:
    """DARTS under three schemes, activations only."""
    return run(SpillSuite(networks=["DARTS"], schemes=FAST, settings=["activations"], time=20))


@pytest.mark.slow
def test_cells_are_complete_and_least(darts: Results[Any]) -> None:
    """Three budgets, three schemes; ours is proved least and nothing at M_P."""
    assert darts.complete
    assert [(c.budget, c.scheme) for c in darts.rows] == [(b, s) for b in ("M_R", "M_H", "M_P") for s in FAST]
    ours = [c for c in darts.rows if c.scheme == "spill"]
    assert [c.traffic_bytes for c in ours] == [301_056, 150_528, 0]
    assert all(c.optimal and c.status == "ok" for c in ours)
    assert [c.proved_again for c in darts.rows if c.scheme != "spill"] == [None] * 6
    assert [c.proved_again for c in ours] == ["re-proved", "re-proved", None]
    assert all(c.peak_proved and not c.same and c.ops == 523 for c in darts.rows)
    assert all((c.traffic_bytes or 0) > 1_000_000 for c in darts.rows if c.scheme == "belady own")


@pytest.mark.slow
def test_tables_say_it(darts: Results[Any], tmp_path: Path) -> None:
    """Tables and JSON of one run; the files are written under its label."""
    shown = text(darts)
    for words in ("294.0*", "them: re-proved 2."):
        assert words in shown
    assert "| network |" in markdown(darts)
    made = json.loads(json_of(darts))
    assert len(made["rows"]) == 9
    assert made["rows"][2]["traffic_bytes"] == 301_056
    assert made["options"]["settings"] == ["activations"]
    assert sorted(p.name for p in write(darts, tmp_path, "x")) == [
        "spill-x.json",
        "spill-x.md",
    ]


@pytest.mark.slow
def test_a_limit_shows_as_such() -> None:
    """A scheme that its time ends says time, and still gives an answer."""
    found = run(SpillSuite(networks=["DARTS"], schemes=["cosma-dnc"], settings=["activations"], time=0.05))
    assert {c.status for c in found.rows if c.budget != "M_P"} == {"time"}
    assert all(c.traffic_bytes is not None for c in found.rows)
    assert "time" in text(found)


@pytest.mark.parametrize("wrong", [{"networks": ["x"]}, {"schemes": ["x"]}, {"settings": ["x"]}])
def test_what_is_not_there_is_reported(wrong: dict[str, Any]) -> None:
    """A network, scheme or setting that there is not."""
    with pytest.raises(InputError, match="there is no"):
        run(SpillSuite(**wrong))


def test_published_figures_have_their_cell() -> None:
    """Every published time is of a network and a scheme that are there."""
    known = {n.name for n in (*HUMAN, *NAS)}
    for f in figures("spill"):
        assert f.unit in UNITS
        assert f.amount > 0
        if f.figure == "time":
            assert f.network in known
            assert f.method in SCHEMES
    assert len([f for f in figures("spill") if f.figure == "time"]) == 39


def chain() -> Graph:
    """x -> a -> b -> out, and out reads a too: 2, 3, 2 and 1 pages."""
    sizes = {0: 2048, 1: 3072, 2: 2000, 3: 1024}
    kinds = {0: Kind.INPUT, 3: Kind.OUTPUT}
    tensors = tuple(Tensor(i, s, kinds.get(i, Kind.ACTIVATION)) for i, s in sizes.items())
    return Graph("chain", tensors, (Op(0, (0,), (1,)), Op(1, (1,), (2,)), Op(2, (2, 1), (3,))))


def test_pages_by_hand() -> None:
    """With four pages: b's two push one page of a out, which is written and read back; with six, nothing moves."""
    model = memory_model(chain(), resolve("strict"))
    assert paged_traffic(model, range(3), 6 * 1024).bytes == 0
    four = paged_traffic(model, range(3), 4 * 1024)
    assert (four.read_bytes, four.written_bytes) == (1024, 1024)


@pytest.mark.slow
def test_belady_reads_least_pages() -> None:
    """Reads are the least of any replacement: brute force over who leaves."""
    rng = Random(4)
    moved = 0
    for _ in range(120):
        graph = random_graph(rng, rng.randint(2, 6), plain=True, aliases=0)
        graph = Graph(graph.name, tuple(replace(t, size=rng.randint(1, 3)) for t in graph.tensors), graph.ops)
        model = memory_model(graph, resolve("strict"))
        order = [graph.index_of[i] for i in random_order(rng, graph)]
        pages = rng.randint(2, 5)
        found = paged_traffic(model, order, pages, page_bytes=1)
        assert found.read_bytes == least_traffic(model, order, pages)
        moved += found.read_bytes > 0
    assert moved > 20


@pytest.mark.slow
def test_the_command_writes_its_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`lowtide research bench spill`: cells on stderr, tables on stdout, two files; a wrong scheme is exit 2."""
    words = ["research", "bench", "spill", "--networks", "DARTS", "--schemes", "belady own,greedy exact", "--settings",
             "activations", "-o", str(tmp_path), "--label", "two"]  # fmt: skip
    assert main(words) == 0
    said = capsys.readouterr()
    assert "DARTS activations M_R greedy exact: 1,179,136 B" in said.err
    assert "greedy exact" in said.out
    assert sorted(p.name for p in tmp_path.iterdir()) == ["spill-two.json", "spill-two.md"]
    assert main(["research", "bench", "spill", "--schemes", "lru"]) == 2
    assert "there is no scheme 'lru'" in capsys.readouterr().err
