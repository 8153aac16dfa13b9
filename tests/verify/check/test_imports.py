"""The checker shares no code with what it checks."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

from lowtide.verify.check.plan import verify_plan


def test_the_room_imports_nothing_that_plans() -> None:
    """The checker knows the graph, the plan, the target, the table of ops, errors, sizes, and itself."""
    allowed = (
        "graph",
        "certificates",
        "fission_plan",
        "spill_plan",
        "plan",
        "profiles",
        "rewrites",
        "target",
        "rules",
        "ops",
        "errors",
        "sizes",
        "stop",
        "verify",
    )
    for path in Path(inspect.getfile(verify_plan)).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [a.name for a in node.names] if isinstance(node, ast.Import) else []
            for name in names:
                if name.split(".")[0] == "lowtide":
                    assert name.split(".")[1] in allowed, (path.name, name)
