"""lowtide's version: what `lowtide --version` and every plan say. `pyproject.toml` has the same number."""

__version__ = "0.1.0"
