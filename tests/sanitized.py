"""Runs the tests that exercise the core on another build of it.

    LD_PRELOAD=libasan.so ASAN_OPTIONS=detect_leaks=0 python tests/sanitized.py build/asan

`make asan` makes that build, with checks of addresses and undefined behaviour, of which the first ends the run.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent
FILES = (
    *("core/test_cut.py", "core/test_model.py", "core/test_sample.py", "core/test_stub.py"),
    *("schedule/test_exact.py", "schedule/test_restore_own_order.py"),
    *("allocate/test_exact.py", "allocate/test_greedy.py", "allocate/test_place.py", "allocate/test_arena.py"),
    *("spill/test_search.py", "spill/test_lead.py", "spill/test_phases.py", "spill/test_rows.py"),
)
"""Files of tests whose work is done in the core."""
OF_RESEARCH = ("schedule/test_serenity.py", "schedule/test_hmcos.py")
"""The same of the package with published methods."""
LEFT_OUT = "not test_memory_limit_is_kept"
"""It fills its memory in the seconds that it gives itself, but not on a build that is ten times slower."""


def load(folder: Path) -> None:
    """Take the core from `folder` before anything imports ours.

    Raises
    ------
    SystemExit
        There is none.
    """
    built = sorted(folder.glob("_core*.so"))
    if not built:
        sys.exit(f"no core in {folder}: `make asan` builds one")
    spec = importlib.util.spec_from_file_location("lowtide._core", built[0])
    assert spec is not None
    assert spec.loader is not None
    core = importlib.util.module_from_spec(spec)
    sys.modules["lowtide._core"] = core
    spec.loader.exec_module(core)


def main() -> int:
    """Run the tests; pytest's exit status."""
    if len(sys.argv) < 2:
        sys.exit("usage: sanitized.py FOLDER [ARGUMENTS OF PYTEST]")
    load(Path(sys.argv[1]))
    research = TESTS.parent / "packages/research/tests"
    files = [*(str(TESTS / name) for name in FILES), *(str(research / name) for name in OF_RESEARCH)]
    return pytest.main(["-x", "-k", LEFT_OUT, "-p", "no:cacheprovider", *files, *sys.argv[2:]])


if __name__ == "__main__":
    sys.exit(main())
