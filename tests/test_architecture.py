"""The house keeps its order: arrows point one way, files stay small, the checker stands alone."""

from __future__ import annotations

import ast
import re
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import lowtide

ROOT = Path(lowtide.__file__).parent
CORE = ROOT.parent.parent / "core"
BASE = {
    "graph", "ops", "rules", "target", "certificates", "plan", "profiles", "rewrites", "fission_plan", "spill_plan",
    "run_reports", "arguments", "errors", "extensions", "files", "names", "toml_fields", "outputs", "schemas", "sizes",
    "comparison", "stop", "topological", "interrupt", "version", "_core",
}  # fmt: skip
FLOW = [
    "read", "analyse", "transform", "solvers", "schedule", "allocate", "spill", "runtimes", "cost", "optimize",
    "search", "verify", "run", "write", "emit", "report",
]  # fmt: skip
FRONT = {"api", "cli", "__init__", "__main__", "executorch", "research", "torch"}
RESEARCH = ROOT.parent.parent / "packages/research/src/lowtide_research"


@cache
def import_statements(path: Path) -> list[ast.AST]:
    """Those of a file, anywhere in it."""
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    return [node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)]


def imports(path: Path) -> set[str]:
    """Rooms of lowtide that a file imports, anywhere in it."""
    rooms = set()
    for node in import_statements(path):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names = [
                f"{node.module}.{alias.name}" if node.module == "lowtide" else str(node.module) for alias in node.names
            ]
        else:
            continue
        rooms |= {name.split(".")[1] for name in names if name.startswith("lowtide.")}
    return rooms


def room_of(path: Path) -> str:
    """First part of a file's path inside the package, without its ending."""
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def core_files() -> list[Path]:
    """Sources and headers of the core; none where lowtide is installed without them."""
    return sorted([*CORE.rglob("*.cc"), *CORE.rglob("*.h")])


@pytest.mark.slow
def test_no_room_imports_a_later_one():
    """Data flows one way, and only the front door looks downstream."""
    for path in ROOT.rglob("*.py"):
        room = room_of(path)
        if room not in FLOW:
            continue
        allowed = BASE | set(FLOW[: FLOW.index(room) + 1])
        assert imports(path) <= allowed, f"{path.relative_to(ROOT)} imports {imports(path) - allowed}"


def test_the_product_imports_no_research():
    """What lowtide-research adds comes by entry points: no file of lowtide has its name as a module."""
    for path in ROOT.rglob("*.py"):
        assert "lowtide_research" not in path.read_text(encoding="utf-8"), path.relative_to(ROOT)


def test_the_base_imports_no_room():
    """Graph, target, plan and their like know of no room."""
    for name in BASE - {"_core"}:
        files = [ROOT / f"{name}.py"] if (ROOT / f"{name}.py").exists() else sorted((ROOT / name).rglob("*.py"))
        found = set[str]().union(*(imports(path) for path in files)) - BASE
        assert not found, f"{name}.py imports {found}"


@pytest.mark.slow
def test_verify_imports_nothing_that_plans():
    """The checker shares no algorithm with what it checks."""
    for path in (ROOT / "verify").rglob("*.py"):
        found = imports(path) - {"names", "schemas", "sizes", "stop", "errors"}
        assert found <= {
            "graph",
            "certificates",
            "plan",
            "profiles",
            "target",
            "rewrites",
            "fission_plan",
            "spill_plan",
            "rules",
            "ops",
            "run_reports",
            "verify",
        }, path


def test_every_room_is_known():
    """A new room gets its place in the flow."""
    known = BASE | set(FLOW) | FRONT
    for path in ROOT.rglob("*.py"):
        assert room_of(path) in known, f"{path.relative_to(ROOT)} is in no room of docs/architecture.md"


def test_files_stay_small():
    """No file of code grows over 500 lines, and no binding over 300."""
    for path in [*ROOT.rglob("*.py"), *RESEARCH.rglob("*.py"), *core_files()]:
        lines = len(path.read_text(encoding="utf-8").splitlines())
        assert lines <= (300 if path.parent.name == "bind" else 500), f"{path.name} has {lines} lines"


@pytest.mark.skipif(not CORE.is_dir(), reason="lowtide is installed without the sources of its core")
def test_folders_of_the_core_share_the_base_alone():
    """Orders, places, traffic and papers know nothing of each other, and the bindings alone know Python."""
    for path in core_files():
        folder = path.relative_to(CORE).parts[0]
        if folder == "bind":
            continue
        text = path.read_text(encoding="utf-8")
        folders = {include.split("/")[0] for include in re.findall(r'#include "([^"]+)"', text)}
        assert folders <= {"base", folder}, f"{path.relative_to(CORE)} includes {folders}"
        assert not re.search(r"nanobind|Python\.h", text), path


def test_no_solver_takes_ctrl_c() -> None:
    """CP-SAT's own handler leaves SIGINT at its default when it is done: the next Ctrl-C would end the process."""
    for path in [*ROOT.rglob("*.py"), *RESEARCH.rglob("*.py")]:
        text = path.read_text(encoding="utf-8")
        assert text.count("CpSolver()") == text.count("catch_sigint_signal = False"), path


def imported_files(path: Path) -> set[Path]:
    """Files of both packages that a file imports, anywhere in it; a package stands for its ``__init__.py``."""
    files = set()
    for node in import_statements(path):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            # A name is a module of the package, or something that the package defines.
            names = [
                name if file_of(name) is not None or name == "lowtide._core" else node.module
                for name in (f"{node.module}.{alias.name}" for alias in node.names)
            ]
        else:
            continue
        files |= {file for file in map(file_of, names) if file is not None}
    return files - {path}


def file_of(module: str) -> Path | None:
    """The file of a module of either package, if there is one."""
    root = {"lowtide": ROOT, "lowtide_research": RESEARCH}.get(module.split(".")[0])
    if root is None:
        return None
    place = root.joinpath(*module.split(".")[1:])
    return next((file for file in (place.with_suffix(".py"), place / "__init__.py") if file.exists()), None)


@pytest.mark.slow
def test_no_circles():
    """No file imports itself by way of others, whichever room it is in and wherever in the file the import stands."""
    sorter = TopologicalSorter(
        {path: imported_files(path) for root in (ROOT, RESEARCH) for path in sorted(root.rglob("*.py"))}
    )
    try:
        sorter.prepare()
    except CycleError as error:
        circle = " -> ".join(path.name for path in error.args[1])
        raise AssertionError(f"a circle: {circle}") from None
