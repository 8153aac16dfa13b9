"""The examples in docstrings do what they say."""

from __future__ import annotations

import doctest
import importlib
import importlib.util
import pkgutil
from pathlib import Path

import pytest

import lowtide

MODULES = sorted(
    m.name for m in pkgutil.walk_packages(lowtide.__path__, "lowtide.") if not m.name.endswith(("__main__", "_core"))
)
ROOT = Path(lowtide.__file__).parent


def source(name: str) -> str:
    """The text of a module, which is not imported for it."""
    path = ROOT.joinpath(*name.split(".")[1:])
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return file.read_text(encoding="utf-8")


def test_every_module_is_imported():
    """None fails, whatever optional packages there are."""
    for name in MODULES:
        importlib.import_module(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in ["lowtide", *MODULES] if ">>>" in source(name)])
def test_examples(name: str):
    """The examples of every module that has some hold."""
    result = doctest.testmod(importlib.import_module(name))
    assert result.failed == 0
