"""The code blocks of README and of every page do what they say."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import lowtide
from support.pages import READ_ONLY, blocks, commands, run_page
from support.stand_ins import lay, names_about_torch

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
ALONE = ["README.md", *(str(p.relative_to(ROOT)) for part in ("tutorials", "howto", "targets")
                        for p in sorted((DOCS / part).glob("*.md")))]  # fmt: skip
"""Pages that bring all that they read."""
PAGES = [*ALONE, *(str(p.relative_to(ROOT)) for p in sorted(DOCS.glob("*.md")) if p.name != "api.md")]
"""And those that speak of a reader's own files, for which others stand; api.md is tests/test_api_page.py's."""
NEEDS = {
    "README.md": "onnxruntime",
    "docs/tutorials/microcontroller.md": "tflite_micro ai_edge_litert",
    "docs/tutorials/training.md": "torch",
    "docs/aliases.md": "onnxruntime",
    "docs/cuts.md": "onnxruntime tflite_micro ai_edge_litert",
    "docs/emit.md": "tflite_micro ai_edge_litert",
    "docs/index.md": "onnxruntime",
    "docs/loops.md": "tflite_micro ai_edge_litert",
    "docs/onnxruntime.md": "onnxruntime",
    "docs/spilling.md": "ortools ai_edge_litert",
    "docs/tflite.md": "tflite_micro ai_edge_litert",
    "docs/torch.md": "torch",
    "docs/training.md": "torch",
    "docs/howto/onnxruntime.md": "onnxruntime",
    "docs/howto/trust.md": "onnxruntime",
    "docs/targets/onnxruntime.md": "onnxruntime",
    "docs/targets/tflm.md": "tflite_micro ai_edge_litert",
    "docs/targets/tflite.md": "ai_edge_litert",
    "docs/targets/torch.md": "torch",
}
"""Packages that a page's runs take."""


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize("name", PAGES)
def test_the_blocks_of_a_page_run(name: str, tmp_path: Path):
    """From top to bottom, and what is printed is what the page prints."""
    for package in NEEDS.get(name, "").split():
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"the page runs {package}")
    if name == "README.md":
        words = ["zoo", "nasnet_a_cifar", "-o", str(tmp_path / "nasnet.onnx"), "-q"]
        subprocess.run([sys.executable, "-m", "lowtide", *words], check=True)
    given = {}
    if name not in ALONE:
        lay((ROOT / name).read_text(encoding="utf-8"), tmp_path)
        given = names_about_torch() if "torch" in NEEDS.get(name, "") else {}
    wrong = run_page(ROOT / name, tmp_path, given)
    assert not wrong, "\n\n".join(wrong)


def test_pages_have_blocks():
    """Every tutorial has several, and every guide one."""
    for name in ALONE:
        count = sum(1 for block in blocks((ROOT / name).read_text(encoding="utf-8")) if block.language not in READ_ONLY)
        assert count >= (3 if "tutorials" in name else 0 if name.endswith("index.md") else 1), name


def test_the_pictures_of_methods_are_drawn_by_its_commands(tmp_path: Path):
    """Small and without a script; their peaks are the page's. The one whose plan is proved is drawn again."""
    page = (DOCS / "methods.md").read_text(encoding="utf-8")
    for name in ("order", "cut", "again"):
        assert f"pictures/{name}-live.svg" in page
        assert f"--svg {name}\n" in page
        picture = (DOCS / f"pictures/{name}-live.svg").read_text(encoding="utf-8")
        peak = re.search(r"([\d,]+) at most</title>", picture)
        assert peak is not None
        assert f"{peak[1]} instead of " in page
        assert "<script" not in picture
        assert len(picture) < 30_000
    lowtide.plan("zoo:swiftnet_cell_a", target="strict").save(tmp_path / "order.json")
    subprocess.run(
        [sys.executable, "-m", "lowtide", "report", "order.json", "--svg", "order"], cwd=tmp_path, check=True
    )
    drawn = (tmp_path / "order-live.svg").read_text(encoding="utf-8")
    assert drawn == (DOCS / "pictures/order-live.svg").read_text(encoding="utf-8")


def test_a_block_that_is_wrong_is_seen(tmp_path: Path):
    """The runner itself: another output, a failing command, a failing program, a nameless file, an unknown language."""
    page = tmp_path / "page.md"
    good = "```console\n$ echo one \\\n    two\none ...\n$ false; echo $?\n1\n```\n\n```python\nx = 1\n```\n\n"
    page.write_text(good + "```python\n>>> x + 1\n2\n```\n\n```{code-block} toml\n:caption: a.toml\n\nb = 1\n```\n")
    assert run_page(page, tmp_path) == []
    assert (tmp_path / "a.toml").read_text() == "b = 1\n"
    for bad in (
        "```console\n$ echo one\ntwo\n```\n", "```\n$ false\n```\n", "```python\n1 / 0\n```\n",
        "```python\n>>> 1\n2\n```\n", "```{code-block} toml\n\nb = 1\n```\n", "```perl\nprint\n```\n",
    ):  # fmt: skip
        page.write_text(bad)
        assert len(run_page(page, tmp_path)) == 1, bad


def test_seconds_are_not_compared(tmp_path: Path):
    """They are another machine's."""
    page = tmp_path / "page.md"
    page.write_text("```console\n$ echo 'took 0.25 s'\ntook 9 s\n$ echo 'seconds  read 0.1'\nseconds  read 7\n```\n")
    assert run_page(page, tmp_path) == []
    assert list(commands("$ a \\\n  b\nc\n$ d\n")) == [("a \\\n  b", "c"), ("d", "")]


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("sphinx") is None, reason="pip install '.[docs]'")
def test_the_site_builds_without_a_warning(tmp_path: Path):
    """As `make docs` does."""
    words = ["-W", "--keep-going", "-q", "-d", str(tmp_path / "trees"), str(DOCS), str(tmp_path / "site")]
    subprocess.run([sys.executable, "-m", "sphinx", *words], check=True)
    assert "Reference" in (tmp_path / "site/reference.html").read_text()
    assert len(list((tmp_path / "site/benchmarks").glob("*.html"))) > 40


def test_every_table_of_results_is_a_page(tmp_path: Path):
    """And the index says what made each."""
    spec = importlib.util.spec_from_file_location("benchmark_pages", DOCS / "benchmark_pages.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    (tmp_path / "gone.md").write_text("an older table")
    names = module.write(ROOT / "packages/research", tmp_path)
    assert {path.stem for path in tmp_path.glob("*.md")} == {*names, "index"}
    assert {path.stem for path in (ROOT / "packages/research/results").glob("*.md")} == set(names)
    rows = [line for line in (tmp_path / "index.md").read_text().splitlines() if line.startswith("| [")]
    assert len(rows) == len(names)
    assert [
        row for row in rows if not row.rstrip("| ").rpartition("|")[2].strip().startswith(("`", "as", "the same"))
    ] == []
    assert "](../" not in (tmp_path / "index.md").read_text()
    pictures = [
        name for path in tmp_path.glob("*.md") for name in re.findall(r"!\[[^\]]*\]\((.+?)\)", path.read_text())
    ]
    assert pictures
    assert [name for name in pictures if not (tmp_path / name).exists()] == []
