"""Rows of SERENITY and HMCOS that are as printed, and those that are not and say why."""

import math

import pytest

from lowtide.stop import Limits
from lowtide_research.reproduce.row import Outcome, outcome
from lowtide_research.reproduce.serenity_cells import CELLS, WAYS, reduction, scheduled
from lowtide_research.reproduce.suite import rows_of


def measured(paper: str, name: str) -> Outcome:
    """A row by its name."""
    (row,) = [r for r in rows_of(paper) if r.name == name]
    return outcome(paper, row, Limits(20))


@pytest.mark.parametrize(
    ("paper", "name"),
    [
        *(("serenity", f"table-2/rewriting/nodes/{part}") for part in "abc"),
        ("serenity", "figure-12/allocator/order"),
        ("serenity", "figure-12/no-allocator/order"),
        ("serenity", "figure-15/darts_imagenet_normal_cell/tflite"),
        ("hmcos", "table-1/darts_imagenet/rpo/arena"),
        ("hmcos", "table-1/darts_imagenet/hmcos/peak-reduction"),
        ("hmcos", "table-1/amoebanet_a_imagenet/serenity/fits"),
        ("hmcos", "algorithm-1/darts_imagenet/peak"),
        ("hmcos", "figure-5/darts_imagenet/iterations"),
        ("hmcos", "figure-5/darts_imagenet/most-freed"),
    ],
)
def test_as_printed(paper: str, name: str) -> None:
    """Equal to the last printed digit."""
    assert measured(paper, name).state == "equal"


@pytest.mark.parametrize(
    ("paper", "name"),
    [
        ("serenity", "table-2/rewriting/nodes"),
        ("serenity", "figure-15/darts_imagenet_normal_cell/order"),
        ("hmcos", "algorithm-1/amoebanet_a_cifar/peak"),
        ("hmcos", "table-1/darts_imagenet/serenity/arena"),
    ],
)
def test_differs_with_a_reason(paper: str, name: str) -> None:
    """What is not as printed says why."""
    got = measured(paper, name)
    assert got.state == "differs"
    assert got.because


def test_rows_on_rebuilt_networks_have_a_reason() -> None:
    """Whatever comes out there; and a search that a limit ended is no result."""
    rebuilt = ("table-1", "figure-3", "figure-10", "figure-11", "figure-15")
    assert all(r.because for r in rows_of("serenity") if r.name.startswith(rebuilt))
    assert all(r.because for r in rows_of("hmcos") if "randwire" in r.name)
    (row,) = [r for r in rows_of("hmcos") if r.name == "table-3/nasnet_a_cifar/speed-up-3"]
    assert outcome("hmcos", row, Limits(0.01)).state == "unfinished"


@pytest.mark.slow
def test_curves_and_reductions() -> None:
    """Curves have a point a step, peaks are their maxima, no arena is below its peak; Figure 10 follows from 15."""
    limits = Limits(60)
    products = dict.fromkeys(WAYS, 1.0)
    for cell in CELLS:
        baseline = scheduled(cell, "tflite", limits).arena_bytes
        for way in WAYS:
            found = scheduled(cell, way, limits)
            arena, live = found.curves()
            assert len(arena) == len(live) == len(found.order) == len(found.model.graph.ops)
            assert max(live) == found.peak_bytes <= found.arena_bytes
            assert max(arena) <= found.arena_bytes
            products[way] *= baseline / found.arena_bytes
        assert scheduled(cell, "rewriting", limits).peak_bytes <= scheduled(cell, "order", limits).peak_bytes
    for way in WAYS:
        assert math.isclose(reduction(way, limits), products[way] ** (1 / len(CELLS)))
    assert reduction("rewriting", limits) >= reduction("order", limits) >= reduction("tflite", limits) == 1
