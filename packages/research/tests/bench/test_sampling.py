"""`lowtide research bench space`: the sampler against its definition, the distribution, its drawing."""

import json
from collections import Counter
from math import prod
from pathlib import Path
from random import Random
from typing import Any
from xml.etree import ElementTree

import pytest

from lowtide import _core
from lowtide.analyse.liveness import profile
from lowtide.analyse.storage import MemoryModel, memory_model
from lowtide.cli import main
from lowtide.errors import InputError
from lowtide.graph import Graph
from lowtide.schedule.method import core_model
from lowtide.target import BUILT_IN
from lowtide_research import zoo
from lowtide_research.bench.drawing import Distribution, svg, text
from lowtide_research.bench.sampling import SpaceSuite, distribution
from lowtide_research.bench.suite import Watch, run
from lowtide_research.bench.tables import json_text
from support.random_graphs import random_graph
from support.small_models import branches, graph_file

KEYS = [
    "suite", "schema", "machine", "network", "ops", "target", "unit", "form", "drawn_by", "seed", "orders",
    "complete", "cpu_seconds", "different_peaks", "least_bytes", "greatest_bytes", "quantiles",
    "lower_bound_bytes", "constraint", "constraint_bytes", "share_within_constraint", "marks", "bins",
]  # fmt: skip


def chances(model: MemoryModel) -> dict[int, float]:
    """Probability of each peak if every step runs one of the ready ops, all equally likely."""
    found: Counter[int] = Counter()
    n = len(model.graph.ops)

    def walk(order: list[int], ways: list[int]) -> None:
        ready = [v for v in range(n) if v not in order and set(model.graph.predecessors[v]) <= set(order)]
        if not ready:
            found[profile(model, order).peak] += 1 / prod(ways)  # type: ignore[assignment]
        for v in ready:
            walk([*order, v], [*ways, len(ready)])

    walk([], [])
    return dict(found)


@pytest.mark.parametrize("target", ["strict", "hmcos", "generic"])
def test_peaks_are_as_likely_as_they_should_be(target: str) -> None:
    """On small graphs every possible peak is drawn, no other, and as often as it should be."""
    for seed in range(25):
        rng = Random(seed)
        graph = random_graph(rng, rng.randint(1, 7))
        model = memory_model(graph, BUILT_IN[target])
        expected = chances(model)
        drawn = _core.sample(core_model(model), orders=20_000, seed=seed, report=None)
        peaks = dict(drawn.peaks)
        assert drawn.orders == sum(peaks.values()) == 20_000
        assert set(peaks) <= set(expected)
        for size, chance in expected.items():
            assert abs(peaks.get(size, 0) / 20_000 - chance) < 0.02


def test_the_same_seed_draws_the_same() -> None:
    """And another one does not."""
    core = core_model(memory_model(zoo.build("swiftnet_cell_a").graph(), BUILT_IN["strict"]))
    first, again, other = (_core.sample(core, orders=3000, seed=s, report=None).peaks for s in (1, 1, 2))
    assert first == again != other


def space(*network: str | Graph, watch: Watch | None = None, **options: Any) -> Distribution:
    """What the suite says."""
    return distribution(run(SpaceSuite(*network, **options), watch))


@pytest.mark.slow
def test_distribution_of_swiftnet() -> None:
    """Bins and shares add up; the optimum is marked; a few per cent are within 250 KB (SERENITY, Figure 3: 4.1 %)."""
    found = space("swiftnet_cell_a", orders=20_000)
    assert found.complete
    assert found.orders == 20_000 == sum(b.orders for b in found.bins)
    assert 0.02 < (found.share_within_constraint or 0) < 0.1
    marks = {m.method: m for m in found.marks}
    assert marks["exact"].optimal
    assert marks["exact"].peak_bytes == 200_704 == found.lower_bound_bytes
    assert marks["exact"].share_at_most < 0.01
    assert found.least_bytes >= 200_704
    assert list(found.quantiles.values()) == sorted(found.quantiles.values())
    assert list(json.loads(json_text(found))) == KEYS


def test_nasnet_is_as_in_hmcos() -> None:
    """HMCOS, Figure 2: about 4 % of the orders are within 4.60 MiB, none below 4.40 MiB, and the optimum is 4.13."""
    found = space(orders=20_000, methods=["exact"])
    assert found.network == "nasnet_a_imagenet"
    assert 0.03 < (found.share_within_constraint or 0) < 0.05
    assert found.least_bytes > 4.40 * 2**20
    assert round(found.marks[0].peak_bytes / 2**20, 3) == 4.135


def test_drawings_say_it() -> None:
    """The text has every method; the SVG is well-formed and has a bar per bin that is not empty."""
    found = space("swiftnet_cell_b", orders=500, methods=["own", "exact"])
    shown = text(found)
    assert "lowtide" in shown
    assert "proved optimal" in shown
    assert "not uniform" in shown
    assert "250 KB" in shown
    root = ElementTree.fromstring(svg(found))
    bars = [e for e in root if e.tag.endswith("rect")]
    assert len(bars) == 1 + sum(1 for b in found.bins if b.orders)


def test_one_order() -> None:
    """A chain has one order, one peak, one bin."""
    graph = zoo.build("unet:side=32,filters=4").graph()
    found = space(graph, orders=50, methods=["own"])
    assert (found.different_peaks, len(found.bins), found.bins[0].orders) == (1, 1, 50)
    assert ElementTree.fromstring(svg(found)) is not None
    assert text(found)


def test_interrupted_drawing_gives_what_it_has() -> None:
    """Ctrl-C while drawing: the orders drawn so far, no methods."""

    def stop(count: int, of: int) -> None:
        raise KeyboardInterrupt

    found = space("swiftnet_cell_a", orders=10_000, watch=Watch(count=stop))
    assert not found.complete
    assert 0 < found.orders < 10_000
    assert not found.marks


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Methods on stdout, files in DIR; a file is a network too; errors are exit 2."""
    path = graph_file(tmp_path, branches())
    words = ["research", "bench", "space", "--network", str(path), "--orders", "300", "--methods", "own,exact"]
    assert main([*words, "-o", str(tmp_path / "out")]) == 0
    assert "lowtide" in capsys.readouterr().out
    names = sorted(p.suffix for p in (tmp_path / "out").iterdir())
    assert names == [".json", ".svg"]
    assert str(tmp_path) not in "".join(p.read_text() for p in (tmp_path / "out").iterdir())
    assert main([*words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["orders"] == 300
    assert main(["research", "bench", "space", "--orders", "0"]) == 2
    assert main(["research", "bench", "space", "--network", "nowhere"]) == 2


def test_wrong_calls() -> None:
    """Nothing to draw, nothing to order, no such method."""
    with pytest.raises(InputError, match="orders"):
        space("swiftnet_cell_a", orders=-1)
    with pytest.raises(InputError, match="no ops"):
        space(Graph("empty", (), ()))
    with pytest.raises(InputError, match="no method"):
        space("swiftnet_cell_a", methods=["fastest"])
