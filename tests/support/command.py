"""Calling the command line inside the process."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lowtide.cli import main

Captured = pytest.CaptureFixture[str]


def run(capsys: Captured, *arguments: object) -> tuple[int, str, str]:
    """Exit status, stdout and stderr of a command."""
    status = main([str(a) for a in arguments])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def run_json(capsys: Captured, *arguments: object) -> Any:
    """What a command prints with --json; it must succeed and print nothing else."""
    status, out, _ = run(capsys, *arguments, "--json")
    assert status == 0, out
    return json.loads(out)
