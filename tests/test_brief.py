"""What a notebook or a shell prints of a result is one short line, whatever the size of the model."""

from __future__ import annotations

import doctest
from typing import Any

import pytest

import lowtide
from lowtide import names
from lowtide.allocate.buffers import block

NETWORK = "zoo:nasnet_a_cifar"
MOST = 400


@pytest.fixture(scope="module")
def results() -> dict[str, Any]:
    """One of each public call."""
    plan = lowtide.research.plan(NETWORK, target="strict")
    return {
        "plan": plan,
        "spilled": lowtide.research.plan(NETWORK, target="strict", memories=["fast=1.75MiB"], time=0.5),
        "load": lowtide.load(NETWORK),
        "inspect": lowtide.inspect(NETWORK, target="strict"),
        "check": lowtide.check(NETWORK, "1MiB", target="strict"),
        "compare": lowtide.research.compare(NETWORK, ["exact"], target="strict")[0],
        "verify": lowtide.verify(NETWORK, plan, target="strict"),
        "share": lowtide.research.share([NETWORK, "zoo:swiftnet_cell_a"], target="strict"),
        "allocate": lowtide.research.allocate([block(f"b{i}", i, i + 2, 16) for i in range(1000)]),
        "target": lowtide.research.target("tflm"),
    }


@pytest.mark.slow
def test_every_result_is_short_and_names_what_matters(results: dict[str, Any]) -> None:
    """Its type, and its bytes."""
    for name, value in results.items():
        text = repr(value)
        assert text.startswith(f"{type(value).__name__}("), name
        assert len(text) <= (2 * MOST if name == "target" else MOST), name
        assert "\n" not in text, name
    plan = results["plan"]
    assert f"peak_bytes={plan.peak_bytes}" in repr(plan)
    assert f"ops={len(plan.ops)}" in repr(plan)
    assert "traffic_bytes" in repr(results["spilled"])
    assert "traffic_bytes" not in repr(plan)


def test_the_types_of_results_are_there_for_checkers() -> None:
    """The package says that it has types."""
    from importlib.resources import files

    assert files("lowtide").joinpath("py.typed").is_file()
    assert doctest.testmod(names).failed == 0
