"""A plan says under which rules and for which sizes it was made: they are enough to judge it, and no licence."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

import lowtide
from lowtide.cli import main
from lowtide.errors import InputError, VerificationError
from lowtide.plan import Plan, from_json
from lowtide.target import BUILT_IN
from support.onnx_builder import model, node, saved, value
from support.small_models import branches, graph_file


def _edited(plan: Plan, **rules: object) -> Plan:
    assert plan.rules is not None
    return msgspec.structs.replace(plan, rules=replace(plan.rules, **rules))


@pytest.mark.parametrize("name", [*BUILT_IN, "generic,alignment=16", "tflm,kernels=reference"])
def test_a_plan_holds_by_itself(name: str, tmp_path: Path) -> None:
    """Its rules are those of the target, and come back from the file as they were."""
    path = graph_file(tmp_path, branches())
    plan = lowtide.research.plan(path, target=name)
    again = from_json(plan.to_json())
    assert again.rules == plan.rules == lowtide.research.target(name)
    assert lowtide.verify(path, again).checks


def test_a_target_of_a_file_needs_no_second_file(tmp_path: Path) -> None:
    """Nor do further options of it; and verify says what it went by."""
    path, file, out = graph_file(tmp_path, branches()), tmp_path / "mine.toml", tmp_path / "p.json"
    file.write_text('base = "generic"\nalignment = 8\nelementwise_types = ["Conv"]\n')
    assert (
        main(["research", "plan", str(path), "--target", str(file), "--persistent", "t1", "--plan", str(out), "-q"])
        == 0
    )
    file.unlink()
    report = lowtide.verify(path, out)
    assert report.notes[-1] == "target mine is not built in: it was judged by the rules that the plan carries"
    assert main(["verify", str(path), str(out), "-q"]) == 0


def test_parameters_of_a_fast_memory_are_counted_under_a_target_of_a_file(tmp_path: Path) -> None:
    """The rules say what the moves made of the target."""
    path, file = graph_file(tmp_path, branches()), tmp_path / "mine.toml"
    file.write_text('base = "strict"\n')
    plan = lowtide.research.plan(path, target=str(file), memories=["fast=1KiB"], moves={"parameters": "true"})
    file.unlink()
    assert lowtide.verify(path, plan).checks


def test_rules_of_a_built_in_name_are_no_others(tmp_path: Path) -> None:
    """A plan under laxer rules does not hold for calling them by a known name."""
    path = graph_file(tmp_path, branches())
    plan = lowtide.research.plan(path, target="generic")
    for rules in ({"alignment": 1}, {"overwrite_inputs": True}, {"elementwise_types": ("Conv",)}):
        with pytest.raises(VerificationError, match=f"target: the plan has other rules .*: {next(iter(rules))}"):
            lowtide.verify(path, _edited(plan, **rules))


def test_rules_that_are_none_are_refused() -> None:
    """Values that no target has, named with their place."""
    document = lowtide.research.plan("zoo:swiftnet_cell_a").to_json()
    for old, new in ((b'"alignment": 64,\n  "constants"', b'"alignment": 63,\n  "constants"'),
                     (b'"in_place": "any"', b'"in_place": "always"')):  # fmt: skip
        assert old in document
        with pytest.raises(InputError, match="not a lowtide plan"):
            from_json(document.replace(old, new))


def test_sizes_go_with_the_plan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`verify`, exports and runs take them; a call that says others is refused by what it finds."""
    nodes = [node("Relu", "x", "a"), node("Concat", "a x", "y", axis=0)]
    path = saved(model(nodes, [value("x", ("n", 4, None))], [value("y", ("m", 4, None))]), tmp_path)
    out, table = tmp_path / "p.json", tmp_path / "t.txt"
    assert main(["research", "plan", str(path), "--dim", "n=3", "--dim", "x:2=5", "--plan", str(out), "-q"]) == 0
    capsys.readouterr()
    plan = from_json(out.read_bytes())
    assert plan.dims == {"n": 3, "x:2": 5}
    assert lowtide.verify(path, out, prove=True).proof
    lowtide.export(plan, path, table=table)
    assert table.exists()
    with pytest.raises(VerificationError, match="ids"):
        lowtide.verify(path, out, dims={"n": 4, "x:2": 5})
    at_once = lowtide.research.plan(lowtide.load(path, {"x": (3, 4, 5)}))
    assert at_once.dims == {"x": [3, 4, 5]}
    assert lowtide.verify(path, from_json(at_once.to_json())).numbers == lowtide.verify(path, out).numbers
