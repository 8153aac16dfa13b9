"""The house in figures: functions, files, circles, arrows against the flow, and stretches of code that stand twice.

    python tests/house.py [ROOT]

`ROOT` is a checkout; the one that this file stands in is the default: two of them can be held beside each other.
A stretch that stands twice is six or more lines in a row, blank ones, comments and imports apart, that are the same but
for indentation in two places of src/ and core/.
"""

from __future__ import annotations

import ast
import json
import sys
from collections import defaultdict
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

SAME_LINES = 6
FLOW = (
    "errors", "extensions", "stop", "topological", "names", "interrupt", "version", "files", "outputs", "graph",
    "sizes", "schemas", "ops", "opset", "rules", "target", "boards", "certificates", "rewrites", "plan",
    "run_reports", "read", "analyse", "transform", "solvers", "schedule", "allocate", "spill", "runtimes", "cost",
    "optimize", "search", "verify", "run", "write", "emit", "report", "executorch", "api", "research", "torch", "cli",
)  # fmt: skip
"""The rooms in the order in which data flows (docs/architecture.md); a room imports what stands before it."""

LONG_LINES = 50
MANY_PARAMETERS = 7


def functions(tree: ast.AST) -> Iterator[tuple[str, int, int]]:
    """Name, lines of code without the docstring, and parameters of each function (`self` and `cls` not counted)."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            body = node.body
            if ast.get_docstring(node) is not None and len(body) > 1:
                body = body[1:]
            a = node.args
            names = [p.arg for p in (*a.posonlyargs, *a.args, *a.kwonlyargs)]
            lines = (body[-1].end_lineno or 0) - body[0].lineno + 1
            yield node.name, lines, len([n for n in names if n not in ("self", "cls")])


def module_file(package: Path, module: str) -> Path | None:
    """The file of a module, if it is one of the package's."""
    if module.split(".")[0] != "lowtide":
        return None
    place = package.joinpath(*module.split(".")[1:])
    return next((file for file in (place.with_suffix(".py"), place / "__init__.py") if file.exists()), None)


def imports(package: Path, tree: ast.AST) -> set[Path]:
    """Files of the package that a file imports, anywhere in it."""
    files: set[Path | None] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            files |= {module_file(package, alias.name) for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                if whole != "lowtide._core":
                    files.add(module_file(package, whole) or module_file(package, node.module))
    return {file for file in files if file is not None}


def circles(edges: dict[Path, set[Path]]) -> list[list[Path]]:
    """Sets of files that import each other by some way: strongly connected components of more than one file."""
    edges = {file: set(others) for file, others in edges.items()}
    members: list[list[Path]] = []
    while True:
        try:
            TopologicalSorter(edges).prepare()
            return members
        except CycleError as error:
            inside = reachable(edges, error.args[1][0]) & reachable(backwards(edges), error.args[1][0])
            members.append(sorted(inside))
            edges = {file: others - inside for file, others in edges.items() if file not in inside}


def backwards(edges: dict[Path, set[Path]]) -> dict[Path, set[Path]]:
    """The same arrows, turned."""
    turned: dict[Path, set[Path]] = defaultdict(set)
    for file, others in edges.items():
        for other in others:
            turned[other].add(file)
    return turned


def reachable(edges: dict[Path, set[Path]], start: Path) -> set[Path]:
    """Every file that arrows lead to from this one, itself included."""
    seen, waiting = {start}, [start]
    while waiting:
        for other in edges.get(waiting.pop(), set()) - seen:
            seen.add(other)
            waiting.append(other)
    return seen


def code_lines(path: Path) -> list[tuple[int, str]]:
    """Number and text of the lines that count for what stands twice."""
    mark = "#" if path.suffix == ".py" else "//"
    lines = enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
    stripped = ((k, " ".join(line.split())) for k, line in lines)
    return [
        (k, text) for k, text in stripped if text and not text.startswith((mark, "from ", "import ", "#include", '"""'))
    ]


def stretches(files: list[Path]) -> int:
    """How many stretches of `SAME_LINES` lines or more stand in two places; overlapping windows count once."""
    windows: dict[tuple[str, ...], list[tuple[Path, int]]] = defaultdict(list)
    for path in files:
        lines = code_lines(path)
        for k in range(len(lines) - SAME_LINES + 1):
            text = tuple(t for _, t in lines[k : k + SAME_LINES])
            if sum(len(t) for t in text) > 20 * SAME_LINES // 2:
                windows[text].append((path, k))
    pairs = {
        (a, b)
        for places in windows.values()
        for i, a in enumerate(places)
        for b in places[i + 1 :]
        if a[0] != b[0] or abs(a[1] - b[1]) >= SAME_LINES
    }
    return sum(((a[0], a[1] - 1), (b[0], b[1] - 1)) not in pairs for a, b in pairs)


def figures(root: Path) -> dict[str, Any]:
    """Every figure of the product in a checkout."""
    package = root / "src" / "lowtide"
    python = sorted(package.rglob("*.py"))
    core = sorted(p for p in (root / "core").rglob("*") if p.suffix in (".cc", ".h"))
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in python}
    edges = {path: imports(package, tree) - {path} for path, tree in trees.items()}
    found = [(f"{path.relative_to(package)}:{f[0]}", *f[1:]) for path, tree in trees.items() for f in functions(tree)]
    rooms = {path: path.relative_to(package).parts[0].removesuffix(".py") for path in python}
    against = sorted(
        {
            (rooms[a], rooms[b])
            for a, others in edges.items()
            for b in others
            if rooms[a] in FLOW and rooms[b] in FLOW and FLOW.index(rooms[b]) > FLOW.index(rooms[a])
        }
        | {(rooms[a], "the front door") for a, others in edges.items() if rooms[a] in FLOW for b in others
           if rooms[b] == "__init__"}
    )  # fmt: skip
    sizes = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in (*python, *core)}
    longest, widest = max(found, key=lambda f: f[1]), max(found, key=lambda f: f[2])
    biggest = max(sizes, key=lambda path: sizes[path])
    return {
        "Python lines": sum(sizes[p] for p in python),
        "Python files": len(python),
        "C++ lines": sum(sizes[p] for p in core),
        "C++ files": len(core),
        "longest file": f"{sizes[biggest]} ({biggest.relative_to(root)})",
        "functions": len(found),
        "longest function, lines": f"{longest[1]} ({longest[0]})",
        f"functions above {LONG_LINES} lines": sum(f[1] > LONG_LINES for f in found),
        "most parameters": f"{widest[2]} ({widest[0]})",
        f"functions with more than {MANY_PARAMETERS} parameters": sum(f[2] > MANY_PARAMETERS for f in found),
        "circles of files": [len(c) for c in circles(edges)],
        "arrows against the flow, room to room": [f"{a} -> {b}" for a, b in against],
        f"stretches of {SAME_LINES} lines that stand twice": stretches([*python, *core]),
    }


def main() -> int:
    """Print the figures as JSON."""
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent.parent
    print(json.dumps(figures(root.resolve()), indent=1))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
