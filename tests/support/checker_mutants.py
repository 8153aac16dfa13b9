"""The checker with a switch at each of its rules: a rule that is off never refuses.

A rule is a place that raises, and each condition by itself where any of several makes it raise. `install` has to come
before anything of `lowtide.verify` is imported. Then `refusing` says which rules refused in a call, and `off` switches
some of them off for one.
"""

from __future__ import annotations

import ast
import importlib.abc
import importlib.machinery
import importlib.util
import pkgutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

ROOM = "lowtide.verify"


UNREACHED = {
    "check/offline:*": "of the plan in a .tflite file, not of a plan file (tests/verify/check/test_offline.py)",
    "check/shared:*": "of several models' plans in one arena, each checked by itself (tests/api/test_sharing.py)",
    "check/bound:check_bound 2": "a bound below 0 is refused as a plan file is read",
    "check/loop_play:LoopPlay._check_axes 6": "no form of an op says never of rows that it does not sum over: "
    "`Alone` of ops/forms.py, and no access is made with it elsewhere",
    "check/parts:_rank 1": "ops with parts have run in them, and what spells parts refuses those that never add up",
    "check/aliases:_Watch.__init__ 1": "reached by more than 256 MiB alone (tests/verify/check/test_aliases.py)",
    "check/banks:_check_alignment 1": "an alignment below 1 is refused as a plan file is read",
}
"""Rules that no forged plan file can break, as patterns, with what sees to it."""


@dataclass
class Switches:
    """The rules there are, which are off, and which have refused."""

    rules: dict[str, str] = field(default_factory=dict)
    off: set[str] = field(default_factory=set)
    fired: list[str] = field(default_factory=list)

    def holds(self, name: str, condition: Any) -> Any:
        """A condition that makes a rule refuse, unless the rule is off."""
        if name in self.off or not condition:
            return False
        self.fired.append(name)
        return condition

    def on(self, name: str) -> bool:
        """Whether the rule that stands here refuses."""
        if name in self.off:
            return False
        self.fired.append(name)
        return True


SWITCHES = Switches()


@contextmanager
def without(*names: str) -> Iterator[None]:
    """With these rules off."""
    before = SWITCHES.off
    SWITCHES.off = {*before, *names}
    try:
        yield
    finally:
        SWITCHES.off = before


class _Mutator(ast.NodeTransformer):
    """Puts the switches in."""

    def __init__(self, module: str, source: str) -> None:
        self.module, self.lines = module.removeprefix(f"{ROOM}."), source.splitlines()
        self.function: list[str] = []
        self.count: dict[str, int] = {}
        self.by_conditions: set[int] = set()

    def _name(self, what: str) -> str:
        place = f"{self.module.replace('.', '/')}:{'.'.join(self.function) or 'module'}"
        self.count[place] = k = self.count.get(place, 0) + 1
        name = f"{place} {k}"
        SWITCHES.rules[name] = " ".join(what.split())
        return name

    def _text(self, node: ast.expr | ast.stmt) -> str:
        """As `ast.get_source_segment`, which takes the module apart into lines each time."""
        lines = [line.encode() for line in self.lines[node.lineno - 1 : node.end_lineno]]
        lines[-1] = lines[-1][: node.end_col_offset]
        lines[0] = lines[0][node.col_offset :]
        return b"\n".join(lines).decode()

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        return self._inside(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return self._inside(node)

    def _inside(self, node: Any) -> ast.AST:
        self.function.append(node.name)
        self.generic_visit(node)
        self.function.pop()
        return node

    def visit_If(self, node: ast.If) -> ast.AST:
        if any(isinstance(s, ast.Raise) for s in node.body):
            parts = list(_alternatives(node.test))
            if len(parts) > 1:
                node.test = self._switched(node.test)
                self.by_conditions |= {id(s) for s in node.body}
        self.generic_visit(node)
        return node

    def _switched(self, test: ast.expr) -> ast.expr:
        if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.Or):
            return ast.BoolOp(ast.Or(), [self._switched(v) for v in test.values])
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            inner = test.operand
            if isinstance(inner, ast.BoolOp) and isinstance(inner.op, ast.And):
                return ast.BoolOp(ast.Or(), [self._switched(ast.UnaryOp(ast.Not(), v)) for v in inner.values])
        return _call("holds", self._name(ast.unparse(test)), test)

    def visit_Raise(self, node: ast.Raise) -> ast.AST:
        if node.exc is None or id(node) in self.by_conditions:
            return node
        name = self._name(self._text(node))
        return ast.If(_call("on", name), [node], [])


def _alternatives(test: ast.expr) -> Iterator[ast.expr]:
    """The conditions any of which is enough."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.Or):
        for value in test.values:
            yield from _alternatives(value)
    elif isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        inner = test.operand
        values = inner.values if isinstance(inner, ast.BoolOp) and isinstance(inner.op, ast.And) else [inner]
        yield from (ast.UnaryOp(ast.Not(), v) for v in values)
    else:
        yield test


def _call(what: str, name: str, *more: ast.expr) -> ast.expr:
    function = ast.Attribute(ast.Name("__switches__", ast.Load()), what, ast.Load())
    return ast.Call(function, [ast.Constant(name), *more], [])


class _Loader(importlib.machinery.SourceFileLoader):
    def get_code(self, fullname: str) -> CodeType:
        path = Path(self.get_filename(fullname))
        source = path.read_text(encoding="utf-8")
        tree = _Mutator(fullname, source).visit(ast.parse(source))
        return compile(ast.fix_missing_locations(tree), str(path), "exec")

    def exec_module(self, module: ModuleType) -> None:
        module.__dict__["__switches__"] = SWITCHES
        super().exec_module(module)


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if not fullname.startswith(f"{ROOM}."):
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path)
        if spec is None or spec.origin is None or spec.submodule_search_locations is not None:
            return spec
        return importlib.util.spec_from_file_location(fullname, spec.origin, loader=_Loader(fullname, spec.origin))


def install() -> None:
    """Import the checker with switches, all of it."""
    if any(name.startswith(f"{ROOM}.") for name in sys.modules):
        raise RuntimeError("the checker is there already, without switches")
    sys.meta_path.insert(0, _Finder())
    room = importlib.import_module(ROOM)
    for module in pkgutil.walk_packages(room.__path__, f"{ROOM}."):
        importlib.import_module(module.name)
