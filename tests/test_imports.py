"""What `import lowtide` and `lowtide --version` import: what they need, and no more."""

from __future__ import annotations

import subprocess
import sys
from inspect import isfunction
from pkgutil import iter_modules

import pytest

import lowtide

HEAVY = {"argparse", "dataclasses", "inspect", "msgspec", "numpy", "onnx", "onnxruntime", "torch"}


def imported_by(code: str) -> set[str]:
    """The modules that a new interpreter has imported after this code and not before it."""
    script = f"import sys; before = set(sys.modules); {code}; print(*set(sys.modules) - before)"
    return set(
        subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    )


@pytest.mark.slow
def test_the_package_imports_nothing_until_it_is_used() -> None:
    """Two small modules of its own; the functions come with the first one that is named."""
    modules = imported_by("import lowtide")
    assert {name for name in modules if name.startswith("lowtide")} == {
        "lowtide",
        "lowtide.interrupt",
        "lowtide.version",
    }
    assert not modules & HEAVY
    assert {"lowtide.api", "lowtide._core", "msgspec"} <= imported_by("import lowtide; lowtide.plan")
    assert "lowtide.api" not in imported_by("import lowtide; lowtide.research")
    assert "lowtide.api" in imported_by("import lowtide; lowtide.research.compare")


def test_the_version_is_printed_without_the_commands() -> None:
    """Neither the parser, nor what plans, nor the native core."""
    modules = imported_by("from lowtide.cli import main; assert main(['--version']) == 0")
    assert not modules & HEAVY
    assert not {name for name in modules if name.startswith(("lowtide.api", "lowtide._core", "lowtide.plan"))}


@pytest.mark.slow
def test_functions_keep_their_names_from_modules() -> None:
    """Whatever is imported first: `lowtide.plan` is the function, and `lowtide.plan` in an import is the module."""
    modules = {module.name for module in iter_modules(lowtide.__path__)}
    shared = [name for name in lowtide.__all__ if name in modules - {"research"}]
    assert shared == sorted(lowtide._SHARED)
    for name in shared:
        assert isfunction(getattr(lowtide, name))
    code = "; ".join(f"import lowtide.{name}; assert callable(lowtide.{name}), {name!r}" for name in shared)
    assert {f"lowtide.{name}" for name in shared} <= imported_by(code)


def test_unknown_names_are_errors() -> None:
    """As of any module; known ones are listed before they are imported."""
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = lowtide.nothing  # pyright: ignore[reportAttributeAccessIssue]
    assert set(lowtide.__all__) <= set(dir(lowtide))
    with pytest.raises(AttributeError, match=r"'compare'; it is now lowtide\.research\.compare"):
        _ = lowtide.compare  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = lowtide.research.nothing  # pyright: ignore[reportAttributeAccessIssue]
    assert set(lowtide.research.__all__) <= set(dir(lowtide.research))


def test_a_module_that_was_not_imported_says_how() -> None:
    """`lowtide.torch` is no attribute until it is imported."""
    done = subprocess.run(
        [sys.executable, "-c", "import lowtide; lowtide.torch"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "import lowtide.torch; it needs torch: pip install 'torch" in done.stderr
