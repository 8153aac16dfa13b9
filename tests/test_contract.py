"""docs/contract.md says all that is there and nothing that is not: keys, commands, options, exit statuses."""

from __future__ import annotations

import argparse
import inspect
import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

import lowtide
from lowtide import errors
from lowtide.allocate.csv_buffers import read_problem
from lowtide.analyse.inspect import Inspection
from lowtide.api.fitting import Check
from lowtide.api.sharing import Shared, SharedModel
from lowtide.cli.parser import _parser
from lowtide.cli.tree import all_commands
from lowtide.plan import Plan, Status, Stopped, exit_status
from lowtide.read import graph_json
from lowtide.report.comparison import MethodResult
from lowtide.run.probing import OpaqueNode, Probing
from lowtide.schedule.registry import built_in
from lowtide.spill.registry import spill_methods
from lowtide.target import BUILT_IN
from lowtide.verify.report import Report

PAGE = (Path(__file__).parents[1] / "docs/contract.md").read_text(encoding="utf-8")
CODE = {word for span in re.findall(r"`([^`\n]+)`", PAGE) for word in re.findall(r"[\w-]+", span)}
"""Every word that stands in backticks."""


def _table(heading: str) -> list[list[str]]:
    """Cells of the rows of the first table after a line that begins so."""
    lines = PAGE[PAGE.index(heading) :].splitlines()
    begin = next(i for i, line in enumerate(lines) if line.startswith("|"))
    rows = []
    for line in lines[begin + 2 :]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split(" | ")])
    return rows


def _structs(kind: Any) -> Iterator[type[msgspec.Struct]]:
    """The structs in a type, however deep."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        yield kind
        for field in msgspec.structs.fields(kind):
            yield from _structs(field.type)
    for inner in get_args(kind):
        yield from _structs(inner)


def test_every_key_of_a_plan_is_explained():
    """Those of the plan have a row, and each row is of the plan; those inside are named, and their tags."""
    rows = [name for row in _table("**Plan JSON**") for name in re.findall(r"`(\w+)`", row[0])]
    assert sorted(rows) == sorted(field.encode_name for field in msgspec.structs.fields(Plan))
    for struct in set(_structs(Plan)):
        missing = {field.encode_name for field in msgspec.structs.fields(struct)} - CODE
        assert not missing, f"{struct.__name__}: {missing}"
        assert {struct.__struct_config__.tag} <= CODE | {None}, struct
    assert {*get_args(Status), *get_args(Stopped)} <= CODE


def test_keys_that_may_be_absent_are_marked():
    """A question mark behind a key says that a plan file may lack it."""
    cells = ", ".join(row[0] for row in _table("**Plan JSON**"))
    for field in msgspec.structs.fields(Plan):
        assert (f"`{field.encode_name}`?" in cells) == (not field.required), field.name


def test_every_key_of_a_graph_is_explained():
    """Graph JSON, as it is read."""
    for struct in set(_structs(graph_json.GraphDocument)):
        assert {field.encode_name for field in msgspec.structs.fields(struct)} <= CODE, struct


@pytest.mark.parametrize(
    "result", [Check, Inspection, MethodResult, Report, lowtide.Placement, Shared, SharedModel, Probing, OpaqueNode]
)
def test_every_key_of_a_result_is_named(result: type):
    """What `--json` prints."""
    assert {field.name for field in fields(result)} <= CODE


def _parsers() -> dict[str, argparse.ArgumentParser]:
    return {name: parser for name, _, parser in all_commands(_parser(suites=False))}


def test_every_command_and_option_is_named_and_no_other():
    """`lowtide research bench` and `reproduce` have their own page; what the contract names, the parser knows."""
    parsers = _parsers()
    rows = {re.findall(r"`lowtide ((?:research )?\w+)", row[0])[0] for row in _table("MODEL is `.onnx`")}
    assert rows == set(parsers)
    options = {
        name
        for command, parser in parsers.items()
        if command not in ("research bench", "research reproduce")
        for action in parser._actions
        for name in action.option_strings
        if name.startswith("--")
    }
    named = set(re.findall(r"--[a-z][a-z-]*", PAGE))
    assert options - named == set()
    assert named - options - {"--version"} == set()


def test_every_exit_status_has_its_row():
    """Those of errors, of plans and of the command."""
    rows = {int(row[0]) for row in _table("### Exit status")}
    raised = {
        kind.exit_status for _, kind in inspect.getmembers(errors, inspect.isclass) if hasattr(kind, "exit_status")
    }
    judged = {exit_status(status, interrupted=late) for status in get_args(Status) for late in (False, True)}
    assert rows == raised | judged


def test_every_target_has_its_row():
    """And what `auto` stands for is said."""
    assert [row[0].strip("`") for row in _table("A **target** says")] == list(BUILT_IN)


def test_every_method_is_named():
    """Schedulers and those that spill, in the sentence that lists them."""
    sentence = PAGE[PAGE.index("Methods: ") :].split("\n\n")[0]
    assert set(built_in()) | set(spill_methods()) <= set(re.findall(r"[\w-]+", sentence))


def test_every_function_is_named():
    """Those that `lowtide` and `lowtide.research` export."""
    functions = [name for name in lowtide.__all__ if inspect.isfunction(getattr(lowtide, name))]
    functions += [f"research[. ]{name}" for name in lowtide.research.__all__]
    assert [name for name in functions if not re.search(rf"`?lowtide[. ]{name}\b", PAGE)] == []


@pytest.mark.parametrize("memories", [(), ("fast=200KiB",)])
def test_every_counter_is_named(memories: tuple[str, ...]):
    """As far as the methods that are installed here run; which rows of the table they fill."""
    for row in lowtide.research.compare("zoo:swiftnet_cell_a", target="strict", time=20, memories=memories, every=True):
        assert set(row.counters) - CODE == set(), row.method
        if row.status == "ok" and not memories:
            assert {"orders_placed", "ops_moved"} <= set(row.counters)


def test_buffers_have_the_columns_that_are_named(tmp_path: Path):
    """minimalloc's and our own, read as the contract says."""
    (columns,) = re.findall(r"`(id,lower,upper,size)\[,alignment,offset,gaps\]`", PAGE)
    path = tmp_path / "b.csv"
    path.write_text(
        f"{columns},alignment,offset,gaps,over,apart,memory\na,0,2,8,4,,,,,fast\nb,1,3,8,,,,a@4,,\nc,5,6,8,,,,,a,\n"
    )
    file = read_problem(path)
    assert (len(file.problem.buffers), len(file.problem.pairs), len(file.problem.apart)) == (3, 1, 1)
    assert file.places == {"a": ("fast",)}
