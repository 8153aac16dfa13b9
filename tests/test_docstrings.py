"""What signatures and docstrings owe the reader: names by role, and what is raised."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import lowtide

SOURCE = Path(lowtide.__file__).parent

NO_ROLES = {"made", "found", "said", "told", "came", "known", "asked"}
"""Past participles: they say that a value came from somewhere, and not what it is."""


@pytest.fixture(scope="module")
def files() -> dict[Path, ast.Module]:
    """The syntax tree of every source file: made when a test asks for it, not when tests are collected."""
    return {p.relative_to(SOURCE): ast.parse(p.read_text(encoding="utf-8")) for p in sorted(SOURCE.rglob("*.py"))}


def _functions(node: ast.AST, public: bool = True) -> Iterator[tuple[ast.FunctionDef, bool]]:
    """Every function below a node, and whether it can be reached by public names."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef):
            yield child, public and not child.name.startswith("_")
            yield from _functions(child, False)
        elif isinstance(child, ast.ClassDef):
            yield from _functions(child, public and not child.name.startswith("_"))
        else:
            yield from _functions(child, public)


@cache
def _all_functions(tree: ast.Module) -> list[tuple[ast.FunctionDef, bool]]:
    """Those of a file, looked for once."""
    return list(_functions(tree))


def _raised(node: ast.AST) -> Iterator[str]:
    """Names of the exceptions that a function's own statements raise."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.Lambda | ast.ClassDef):
            continue
        if isinstance(child, ast.Raise) and isinstance(child.exc, ast.Call) and isinstance(child.exc.func, ast.Name):
            yield child.exc.func.id
        yield from _raised(child)


def _promised(files: dict[Path, ast.Module]) -> set[str]:
    """Names of methods whose protocol says what they raise."""
    return {
        method.name
        for tree in files.values()
        for kind in ast.walk(tree)
        if isinstance(kind, ast.ClassDef) and any("Protocol" in ast.unparse(base) for base in kind.bases)
        for method in kind.body
        if isinstance(method, ast.FunctionDef) and "aises" in (ast.get_docstring(method) or "")
    }


@pytest.mark.slow
def test_parameters_are_named_by_role(files: dict[Path, ast.Module]):
    """`plan`, `output`, `program`: never `made` or `found`."""
    bad = [
        f"{path}:{argument.lineno}: {function.name}({argument.arg})"
        for path, tree in files.items()
        for function, _ in _all_functions(tree)
        for argument in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)
        if argument.arg in NO_ROLES
    ]
    assert not bad, "\n".join(bad)


@pytest.mark.slow
def test_functions_are_named_by_what_they_return(files: dict[Path, ast.Module]):
    """A past participle alone is no name of a function either."""
    bad = [f"{path}:{f.lineno}: {f.name}" for path, tree in files.items() for f, _ in _all_functions(tree)
           if f.name.lstrip("_") in NO_ROLES]  # fmt: skip
    assert not bad, "\n".join(bad)


@pytest.mark.slow
def test_what_is_raised_is_reported(files: dict[Path, ast.Module]):
    """Public functions name the errors that they raise, or the protocol that they follow does. Commands do not, whose
    errors become an exit status."""
    promised = _promised(files)
    silent = [
        f"{path}:{function.lineno}: {function.name} raises {name}"
        for path, tree in files.items()
        if path.parts[0] != "cli"
        for function, public in _all_functions(tree)
        if public and function.name not in promised
        for name in set(_raised(function))
        if name[0].isupper() and name != "AssertionError"
        for text in (ast.get_docstring(function) or "",)
        if name not in text and "Raises" not in text and f"``{name}``" not in text
    ]
    assert not silent, "\n".join(silent)


def test_both_checks_can_fail():
    """A function of each kind is seen."""
    tree = ast.parse("def load(made):\n    '''Read it.'''\n    raise InputError('no')")
    ((function, public),) = _functions(tree)
    assert public
    assert list(_raised(function)) == ["InputError"]
    assert function.args.args[0].arg in NO_ROLES
