"""The list of methods in the help of `compare`."""

from __future__ import annotations

from lowtide.optimize.recompute.registry import recompute_methods
from lowtide.schedule import registry
from lowtide.spill.registry import spill_methods
from support.command import Captured, run


def test_methods_and_their_options_are_listed(capsys: Captured):
    """In the help of `compare`, as far as registries go; `plan --help` says where."""
    text = " ".join(run(capsys, "research", "compare", "--help")[1].split())
    for name, method in [*registry.methods().items(), *spill_methods().items(), *recompute_methods().items()]:
        assert f" {name} " in text
        assert all(f"{option}: {takes}" in text for option, takes in registry.options_of(method).items()), name
    assert "see `lowtide research compare --help`" in run(capsys, "research", "plan", "--help")[1]
