"""The notebook runs from top to bottom, and carries no outputs: those would be of somebody's machine."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
from pathlib import Path
from typing import Any

import pytest

NOTEBOOK = Path(__file__).parents[1] / "examples" / "notebook" / "plan.ipynb"
pytestmark = pytest.mark.skipif(not NOTEBOOK.exists(), reason="needs a clone: the examples are not in the package")
SAYS = ("2,359,296 -> 1,786,624 B, at least 1,786,624 B", "exit status 4", "B move; no plan moves less", "60 %: ")
"""Words that its cells print."""


def cells(kind: str) -> list[dict[str, Any]]:
    """Of a kind, in order."""
    return [c for c in json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"] if c["cell_type"] == kind]


def test_it_is_committed_as_it_was_written() -> None:
    """No outputs, no counts, an id for each cell, words before each piece of code but the first."""
    codes = cells("code")
    assert len(codes) >= 6
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in codes)
    document = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    assert (document["nbformat"], document["nbformat_minor"]) == (4, 5)
    assert len({cell["id"] for cell in document["cells"]}) == len(document["cells"])
    assert [cell["cell_type"] for cell in document["cells"]] == ["markdown", "code"] * len(codes)


@pytest.mark.slow
def test_its_cells_run() -> None:
    """In one namespace, as a kernel does; the last line of a cell has a picture where it is a plan. The steps of
    training have less time here."""
    space: dict[str, Any] = {}
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        for cell in cells("code"):
            source = "".join(cell["source"]).replace("time=2)", "time=0.5)")
            exec(compile(source, cell["id"], "exec"), space)
    for words in SAYS:
        assert words in printed.getvalue()
    assert "<svg" in space["plan"]._repr_html_()
    assert sorted(p.name for p in space["folder"].iterdir()) == ["overlay.json", "report.html", "trace.json"]


@pytest.mark.slow
@pytest.mark.skipif(
    importlib.util.find_spec("nbclient") is None or importlib.util.find_spec("ipykernel") is None,
    reason="pip install '.[docs]'",
)
def test_a_kernel_runs_it(tmp_path: Path) -> None:
    """As a notebook, with the plan's figure among the outputs."""
    import nbformat  # pyright: ignore[reportMissingImports]
    from nbclient import NotebookClient  # pyright: ignore[reportMissingImports]

    book = nbformat.read(NOTEBOOK, as_version=4)
    NotebookClient(book, timeout=120, resources={"metadata": {"path": str(tmp_path)}}).execute()
    outputs = [output for cell in book.cells if cell.cell_type == "code" for output in cell.outputs]
    assert any("<svg" in output.get("data", {}).get("text/html", "") for output in outputs)
