"""README's Python lines print what the page says (its commands run in tests/test_pages.py)."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

BENCH = Path(__file__).parents[2] / "packages/research/bench"


def _script(name: str) -> ModuleType:
    """A script of the folder `bench`, which is no package."""
    spec = importlib.util.spec_from_file_location(f"bench_{name}", BENCH / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


CLAIMS = _script("claims")


def test_claims_about_files_that_are_not_there_are_left_out(tmp_path: Path) -> None:
    """Nothing is said of them."""
    needing = {name: claim for name, claim in CLAIMS.CLAIMS.items() if claim[0]}
    assert {verdict for _, verdict, _ in CLAIMS.check(tmp_path, needing)} == {"left out"}
