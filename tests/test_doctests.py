"""The examples in docstrings do what they say."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import lowtide

MODULES = sorted(
    m.name for m in pkgutil.walk_packages(lowtide.__path__, "lowtide.") if not m.name.endswith(("__main__", "_core"))
)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["lowtide", *MODULES])
def test_examples(name: str):
    """Every module's examples hold; most have none."""
    assert doctest.testmod(importlib.import_module(name)).failed == 0
