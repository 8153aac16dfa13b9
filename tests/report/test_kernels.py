"""Choices of kernels as text."""

from __future__ import annotations

from random import Random

from lowtide.api.kernels import KernelChoice
from lowtide.report.figures import kernels_line, kernels_text
from lowtide.target import BUILT_IN
from support.plan_builder import make_plan
from support.random_graphs import random_graph


def test_what_is_not_exact_says_at_least():
    """And each row names the option that asks for it."""
    plan = make_plan(random_graph(Random(1)), BUILT_IN["strict"])
    choices: dict[str, KernelChoice] = {
        "any": KernelChoice(200, 300, True, True, plan),
        "esp_nn": KernelChoice(100, 150, False, True, plan),
    }
    *_, default, esp = kernels_text(choices).splitlines()
    assert default.split() == ["any", "of", "these", "(default)", "200", "B", "300", "B"]
    assert esp.split() == ["--set", "kernels=esp_nn", "100", "B", "at", "least", "150", "B", "-50.0", "%"]
    assert kernels_line(choices, 200).endswith("any 300 B, esp_nn at least 150 B (fits)")
