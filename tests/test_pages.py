"""The code blocks of README and of every page do what they say."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import lowtide
from support.pages import READ_ONLY, blocks, commands, run_page
from support.stand_ins import lay

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = ["README.md", *(str(p.relative_to(ROOT)) for p in sorted(DOCS.glob("*.md")) if p.name != "api.md")]
"""All pages; api.md is tests/test_api_page.py's."""
HOW_TO = [
    "tutorial",
    "ci",
    "compilers",
    "emit",
    "memories",
    "transformations",
    "methods",
    "onnxruntime",
    "pytorch",
    "targets",
    "tflite",
]
NEEDS = {
    "README.md": {"lowtide": "onnxruntime"},
    "docs/tutorial.md": {"Check the plan": "onnxruntime"},
    "docs/emit.md": {"On a host": "tflite_micro"},
    "docs/memories.md": {"A fast memory in front of a slow one": "ortools"},
    "docs/transformations.md": {
        "Tiling": "onnxruntime", "Time": "onnxruntime", "Row streaming": "ai_edge_litert",
    },
    "docs/onnxruntime.md": dict.fromkeys(
        ("ONNX and onnxruntime", "The largest batch", "Every option"), "onnxruntime"
    ),
    "docs/pytorch.md": dict.fromkeys(
        ("The memory of a step", "Choose a budget", "Train", "Under torch.compile", "Limits of training steps",
         "Exported programs"), "torch",
    ),
    "docs/targets.md": {"onnxruntime": "onnxruntime", "torch": "torch"},
    "docs/tflite.md": {
        "Verify in TFLM": "tflite_micro ai_edge_litert", "Build the firmware": "tflite_micro ai_edge_litert",
        "A plan that is already in a file": "tflite_micro ai_edge_litert", "LiteRT": "ai_edge_litert",
    },
}  # fmt: skip
"""Packages that sections of a page need."""


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize("name", PAGES)
def test_the_blocks_of_a_page_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """From top to bottom, and what is printed is what the page prints; how long a run takes is not judged."""
    monkeypatch.setattr("lowtide.api.default.onnx._Candidate.too_slow", False)
    for name_of_seconds in ("SECONDS", "SETTLED_SECONDS"):
        monkeypatch.setattr(f"lowtide.api.default.onnx.{name_of_seconds}", 0.0)
    needs = {heading: packages.split() for heading, packages in NEEDS.get(name, {}).items()}
    missing = {package for packages in needs.values() for package in packages if find_spec(package) is None}
    without = {heading for heading, packages in needs.items() if missing & set(packages)}
    if name == "README.md":
        (tmp_path / "demo").mkdir()
        # Smaller than the page's, which `make demo` plans: the same is printed but for measured figures.
        words = ["research", "zoo", "unet:side=64,filters=16", "-o", str(tmp_path / "demo/unet.onnx"), "-q"]
        subprocess.run([sys.executable, "-m", "lowtide", *words], check=True)
    lay((ROOT / name).read_text(encoding="utf-8"), tmp_path, missing)
    wrong = run_page(ROOT / name, tmp_path, without)
    assert not wrong, "\n\n".join(wrong)
    if without:
        pytest.skip(f"without {sorted(missing)}: not run are {sorted(without)}")


def test_sections_that_need_packages_are_on_their_pages():
    """A heading that was renamed would be run without its package."""
    for name, needs in NEEDS.items():
        sections = {block.section for block in blocks((ROOT / name).read_text(encoding="utf-8"))}
        assert set(needs) <= sections, name


def test_pages_have_blocks():
    """Every tutorial and guide has several."""
    for name in HOW_TO:
        page = (DOCS / f"{name}.md").read_text(encoding="utf-8")
        assert sum(1 for block in blocks(page) if block.language not in READ_ONLY) >= 2, name


def test_the_pictures_of_transformations_are_drawn_by_its_commands(tmp_path: Path):
    """Small and without a script; their peaks are the page's. The one whose plan is proved is drawn again."""
    page = (DOCS / "transformations.md").read_text(encoding="utf-8")
    for name in ("order", "cut", "again"):
        assert f"pictures/{name}-live.svg" in page
        assert f"--svg {name}\n" in page
        picture = (DOCS / f"pictures/{name}-live.svg").read_text(encoding="utf-8")
        peak = re.search(r"([\d,]+) at most</title>", picture)
        assert peak is not None
        assert f"{peak[1]} instead of " in page
        assert "<script" not in picture
        assert len(picture) < 30_000
    lowtide.research.plan("zoo:swiftnet_cell_a", target="strict").save(tmp_path / "order.json")
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
@pytest.mark.skipif(find_spec("sphinx") is None, reason="pip install '.[docs]'")
def test_the_site_builds_without_a_warning(tmp_path: Path):
    """As `make docs` does."""
    words = ["-W", "--keep-going", "-q", "-d", str(tmp_path / "trees"), str(DOCS), str(tmp_path / "site")]
    subprocess.run([sys.executable, "-m", "sphinx", *words], check=True)
    assert "Docstrings" in (tmp_path / "site/api.html").read_text()
    results = {path.stem for path in (ROOT / "packages/research/results").glob("*.md")}
    assert results <= {path.stem for path in (tmp_path / "site/benchmarks").glob("*.html")}


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
    assert [name for name in pictures if not (tmp_path / name).exists()] == []
