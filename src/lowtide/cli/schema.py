"""The command `schema`."""

from __future__ import annotations

import argparse

from lowtide import api
from lowtide.cli.terminal import show_json


def run(options: argparse.Namespace) -> int:
    """Print the JSON Schema of a file that lowtide reads or writes."""
    show_json(api.schema(options.kind))
    return 0
