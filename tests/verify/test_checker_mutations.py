"""The checker with a rule switched off lets a forged plan pass: the forgeries see that rule."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parent.parent

PLACES = {
    "check/plan:_verify",
    "check/order:check_ids",
    "check/bound:check_bound",
    "check/bound:check_budget",
    "check/unread:check_read",
    "check/cut:check_cut",
    "check/layout:storage_offsets",
    "check/layout:check_layout",
    "check/profile:check_profile",
}
"""Where rules stand that no plan of one order and one arena can pass without."""


@pytest.mark.slow
def test_a_broken_rule_is_caught() -> None:
    """Of a few of the rules, by the forgeries of two plans; of all of them by `make mutations`."""
    command = [sys.executable, TESTS / "checker_mutations.py", "--seeds", "2", "--each", "1", "--most", "8"]
    command += ["--kinds", "own order, plain"]
    page = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    rows = [line.split(" | ") for line in page.splitlines() if line.startswith("| `")]
    caught = {row[1].rpartition(" ")[0] for row in rows if "nothing" not in row[2]}
    assert caught >= PLACES


@pytest.mark.slow
def test_every_rule_of_a_module_is_caught() -> None:
    """The status is 1 where a rule refuses nothing that a plan file may say, as of one kind of plan alone."""
    command = [sys.executable, TESTS / "checker_mutations.py", "--seeds", "1", "--each", "1", "--most", "12"]
    command += ["--strict", "--only", "check/unread", "--kinds", "own order, plain"]
    assert subprocess.run([*command, "spill"], check=False, capture_output=True).returncode == 0
    assert subprocess.run([*command, "--most", "4"], check=False, capture_output=True).returncode == 1
