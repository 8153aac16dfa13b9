"""docs/api.md is true to the code: every public name has its row, with the parameters and fields that it has."""

from __future__ import annotations

import doctest
import inspect
import re
from dataclasses import fields, is_dataclass
from pathlib import Path

import pytest

import lowtide
import lowtide.torch
from lowtide.plan import Plan

PATH = Path(__file__).parents[1] / "docs/api.md"
PAGE = PATH.read_text(encoding="utf-8")
ROWS = {match[1]: match[2] for match in re.finditer(r"^\| `((?:research\.)?\w+)` \|(.*)\|$", PAGE, re.MULTILINE)}
FUNCTIONS = {name: getattr(lowtide, name) for name in lowtide.__all__ if inspect.isfunction(getattr(lowtide, name))}
FUNCTIONS |= {f"research.{name}": getattr(lowtide.research, name) for name in lowtide.research.__all__}
CLASSES = sorted(
    name
    for name in lowtide.__all__
    if inspect.isclass(getattr(lowtide, name)) and not issubclass(getattr(lowtide, name), BaseException)
)


def _words(text: str) -> list[str]:
    return re.findall(r"`(\w+)`", re.sub(r"\([^)]*\)", "", text))


def test_every_public_name_is_on_the_page_and_no_other_row() -> None:
    """Calls and types have rows; errors and the version are in a sentence."""
    assert set(ROWS) == {*FUNCTIONS, *CLASSES}
    rest = set(lowtide.__all__) - set(ROWS)
    assert {name for name in rest if f"`{name}`" not in PAGE and f"`lowtide.{name}`" not in PAGE} == set()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_call_has_the_parameters_of_its_row(name: str) -> None:
    """In their order; and what it returns is named."""
    signature = inspect.signature(FUNCTIONS[name])
    parameters, result = ROWS[name].split("|")
    assert _words(parameters) == list(signature.parameters)
    for kind in re.findall(r"[A-Z]\w+", str(signature.return_annotation)):
        assert kind in ("None", "Any") or f"`{kind}`" in result, kind


@pytest.mark.parametrize("name", CLASSES)
def test_a_type_has_what_its_row_says(name: str) -> None:
    """All fields of a dataclass, and nothing that is not there."""
    kind = getattr(lowtide, name)
    words = _words(ROWS[name].partition(". `lowtide")[0])
    assert [word for word in words if not hasattr(kind, word) and word not in _fields(kind)] == []
    assert set(_fields(kind)) <= set(words)
    if kind is Plan:
        own = {key for key, value in vars(Plan).items() if inspect.isfunction(value) or isinstance(value, property)}
        assert {key for key in own if not key.startswith("_")} == set(words)


def test_the_names_of_lowtide_torch_are_on_the_page() -> None:
    """Calls with the parameters that they have, and a docstring each; without torch, as it is imported by the calls."""
    rows = dict(re.findall(r"^\| `lowtide\.torch\.(\w+)` \|(.*?)\|", PAGE, re.MULTILINE))
    for name in lowtide.torch.__all__:
        value = getattr(lowtide.torch, name)
        assert re.search(rf"^\.\. auto\w+:: lowtide\.torch\.{name}$", PAGE, re.MULTILINE), name
        if inspect.isfunction(value):
            assert _words(rows[name]) == list(inspect.signature(value).parameters), name
        else:
            assert f"`{name}`" in PAGE, name


def _fields(kind: type) -> list[str]:
    return [field.name for field in fields(kind)] if is_dataclass(kind) else []


def test_the_examples_run() -> None:
    """What the page prints is what comes."""
    assert doctest.testfile(str(PATH), module_relative=False).failed == 0
