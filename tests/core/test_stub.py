"""The core's stub says what the core has."""

from __future__ import annotations

import ast
import inspect
import pickle
from pathlib import Path

import pytest

import lowtide
from lowtide import _core
from stress_exact import ALL_ON

STUB = Path(lowtide.__file__).with_name("_core.pyi")


def statements(stub: str) -> list[str]:
    """What a stub declares, however it is laid out."""
    tree = ast.parse(stub)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            node.value = inspect.cleandoc(node.value)
    return [ast.dump(node) for node in tree.body if not isinstance(node, ast.ImportFrom)]


def test_the_stub_is_that_of_this_core() -> None:
    """`make stub` would change nothing but the layout."""
    stubgen = pytest.importorskip("nanobind.stubgen", reason="nanobind, which writes stubs, is not installed")
    generator = stubgen.StubGen(_core)
    generator.put(_core)
    assert statements(generator.get()) == statements(STUB.read_text(encoding="utf-8"))


def test_results_are_read_only_print_themselves_and_can_be_pickled() -> None:
    """Each field by name, records within records among them."""
    model = _core.Model([[], [0]], [4, 4], [[0, 1], [1]], [False, False], [False, True], [0, 0], [[], []])
    result = _core.solve(model, [0, 1], ALL_ON, 60.0, 1 << 20, 0, -1, False, False, 2000, None)
    assert (result.peak, result.proof, result.stopped) == (8, "cut", "proof")
    with pytest.raises(AttributeError):
        result.peak = 7  # type: ignore[misc]
    assert repr(result).startswith("Solution(order=[0, 1], peak=8, lower_bound=8, proof='cut', ")
    assert repr(pickle.loads(pickle.dumps(result))) == repr(result)
    cut = _core.cut_at(model, 1)
    assert repr(cut.cases[0].flow[0]) == "CutArc(storage=0, start=0, end=1, bytes=4)"
    assert repr(pickle.loads(pickle.dumps(cut))) == repr(cut)


def test_a_rule_that_is_not_there_is_a_key_error() -> None:
    """Of the exact scheduler as of the exact placer."""
    model = _core.Model([[]], [4], [[0]], [False], [True], [0], [[]])
    with pytest.raises(KeyError, match="colour"):
        _core.solve(model, [0], {"colour": True}, 60.0, 1 << 20, 0, -1, False, False, 2000, None)
