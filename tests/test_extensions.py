"""lowtide without the package lowtide-research, and with it."""

from __future__ import annotations

import pickle
from importlib import metadata
from pathlib import Path

import pytest

from lowtide import extensions
from lowtide.cli import main
from lowtide.cli.parser import parser_of_all
from lowtide.extensions import MissingResearchError
from support.small_models import branches, graph_file


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """No installed package has an entry point of lowtide's."""
    monkeypatch.setattr(metadata, "entry_points", lambda *, group: ())


@pytest.mark.usefixtures("alone")
def test_the_product_works_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It plans, compares its own methods, and leaves no slow one out."""
    path = str(graph_file(tmp_path, branches()))
    assert main(["research", "plan", path, "--target", "strict"]) == 0
    assert main(["research", "compare", path, "--target", "strict"]) == 0
    shown = capsys.readouterr().out
    assert "exact" in shown
    assert "left out" not in shown
    assert parser_of_all().prog == "lowtide"


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ("research plan zoo:unet", "zoo:unet"),
        ("research zoo", "lowtide research zoo"),
        ("research zoo unet -o OUT.onnx", "zoo:unet"),
        ("research plan MODEL --method serenity", "method serenity"),
        ("research compare MODEL --methods own,hmcos", "method hmcos"),
        ("research compare MODEL --memory fast=1KiB --methods belady", "method belady"),
        ("research plan MODEL --memory fast=1KiB --method cosma", "method cosma"),
        ("research plan MODEL --allow recompute --budget 1KiB --method checkmate", "method checkmate"),
        ("research bench spill --networks unet", "lowtide research bench"),
    ],
)
def test_what_is_missing_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: str, wanted: str
) -> None:
    """Exit status 2, and which package brings it."""
    model = str(graph_file(tmp_path, branches()))
    replaced = {"MODEL": model, "OUT.onnx": str(tmp_path / "out.onnx")}
    assert main([replaced.get(word, word) for word in words.split()]) == 2
    said = capsys.readouterr().err.strip()
    needs = f"lowtide: {wanted} needs the package lowtide-research"
    assert said == f"{needs}: in a clone of lowtide, pip install ./packages/research"


def test_the_table_is_what_the_package_brings() -> None:
    """Each entry point of lowtide-research is in the table of messages, and loads."""
    points = [p for p in metadata.distribution("lowtide-research").entry_points if p.group.startswith("lowtide.")]
    brought = {group: sorted(p.name for p in points if p.group == group) for group in extensions.RESEARCH}
    assert brought == {group: sorted(names) for group, names in extensions.RESEARCH.items()}
    assert {p.group for p in points} == set(extensions.RESEARCH)
    assert all(getattr(p.load(), "name", p.name) == p.name for p in points)


def test_the_error_can_be_pickled() -> None:
    """Between processes."""
    error = pickle.loads(pickle.dumps(MissingResearchError("zoo:unet")))
    assert str(error) == str(MissingResearchError("zoo:unet"))
