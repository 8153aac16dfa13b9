"""How Sphinx makes the site of these pages: `make docs`, where warnings are errors."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
sys.path.insert(0, str(FOLDER))
import benchmark_pages  # noqa: E402

import lowtide  # noqa: E402

project = "lowtide"
author = "the lowtide authors"
release = version = lowtide.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = f"lowtide {release}"
html_static_path = ["_static"]
html_css_files = ["lowtide.css"]
html_show_sphinx = False
myst_heading_anchors = 4
suppress_warnings = ["myst.header"]  # tables of benchmarks go from their title to the third level
autodoc_typehints = "none"  # docstrings say what matters of types; signatures keep their own
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
napoleon_google_docstring = False
napoleon_use_rtype = False

_OUTSIDE = {
    r"\]\(\.\./\.\./packages/research/results/([\w-]+)\.md\)": r"](../benchmarks/\1.md)",
    r"\]\(\.\./packages/research/results/([\w-]+)\.md\)": r"](benchmarks/\1.md)",
    r"\]\((?:\.\./)+packages/research(?:/results|/bench/(?:tflm32/)?README\.md)?\)": r"](/benchmarks/index.md)",
    r"\[([^\]]+)\]\((?:\.\./)+(?:examples/[\w/.]+|CONTRIBUTING\.md)\)": r"\1",
}
"""Links to files outside this folder, and what the site has instead of them."""


def _links(_app: Any, _name: str, text: list[str]) -> None:
    for pattern, page in _OUTSIDE.items():
        text[0] = re.sub(pattern, page, text[0])


def setup(app: Any) -> None:
    """Make the pages of benchmarks, and turn links."""
    benchmark_pages.write(FOLDER.parent / "packages/research", FOLDER / "benchmarks")
    app.connect("source-read", _links)
