"""`lowtide research plan` with several sizes of a free dimension."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from lowtide.cli.terminal import show_result
from lowtide.cli.values import dims_of
from lowtide.errors import InputError


def wanted(options: argparse.Namespace) -> bool:
    """Whether a dimension has several sizes."""
    return any(isinstance(size, list) for _, size in options.dims)


def run(options: argparse.Namespace, settings: Mapping[str, Any]) -> int:
    """Print the table. `settings` are the other arguments of `lowtide.research.plan`; `InputError` if files are to be
    written, which are for one size."""
    from lowtide.api.size_table import plan_sizes
    from lowtide.report.size_table import size_table_text

    sizes: dict[str, list[int]] = {}
    for name, size in options.dims:
        if isinstance(size, list) and sizes.setdefault(name, size) != size:
            raise InputError(f"--dim gives {name} two lists of sizes; give one")
    dims = dims_of([(name, size) for name, size in options.dims if not isinstance(size, list)])
    table = plan_sizes(options.model, sizes, dims=dims, report=options.line, **settings)
    options.line.end()
    show_result(table, lambda: size_table_text(table), as_json=options.json)
    return table.exit_status
