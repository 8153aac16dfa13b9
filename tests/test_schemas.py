"""The schemas that are published are those of the types that read and write the files, and hold of real ones."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

import lowtide
from lowtide.api.budgets import BudgetsDocument
from lowtide.cli import main
from lowtide.cost.file import CostFile
from lowtide.errors import InputError
from lowtide.plan import Plan
from lowtide.read.graph_json import GraphDocument, parse_graph_json
from lowtide.write.graph_json import graph_json_bytes
from support.graph_documents import GRAPH
from support.small_models import branches, graph_file

FOLDER = Path(__file__).parents[1] / "docs/schemas"
GRAPH_OF = parse_graph_json(json.dumps(branches()).encode())
OF_TYPES = {"null": type(None), "boolean": bool, "integer": int, "number": (int, float), "string": str,
            "array": list, "object": dict}  # fmt: skip


def wrong(value: Any, schema: Any, root: Any) -> str:
    """What a plain validator objects to: as much of JSON Schema as msgspec writes; empty if nothing."""
    if "$ref" in schema:
        return wrong(value, root["$defs"][schema["$ref"].rpartition("/")[2]], root)
    if "anyOf" in schema:
        return min((wrong(value, one, root) for one in schema["anyOf"]), key=len)
    if "enum" in schema:
        return "" if value in schema["enum"] else f"{value!r} is none of {schema['enum']}"
    kind = OF_TYPES[schema["type"]] if "type" in schema else object
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        return f"{value!r} is no {schema['type']}"
    if isinstance(value, int) and value < schema.get("minimum", value):
        return f"{value} is below {schema['minimum']}"
    if isinstance(value, list):
        parts = schema.get("prefixItems") or [schema.get("items", {})] * len(value)
        if len(parts) != len(value):
            return f"{len(value)} items, not {len(parts)}"
        return next(filter(None, (wrong(v, part, root) for v, part in zip(value, parts, strict=True))), "")
    return wrong_object(value, schema, root) if isinstance(value, dict) else ""


def wrong_object(value: dict[str, Any], schema: Any, root: Any) -> str:
    """The same of an object."""
    missing = set(schema.get("required", ())) - value.keys()
    if missing:
        return f"{missing} is missing"
    more = schema.get("additionalProperties", True)
    for key, entry in value.items():
        own = any(re.match(pattern, key) for pattern in schema.get("patternProperties", ()))
        rest = {} if own or more is True else more
        known = schema.get("properties", {}).get(key, rest)
        reason = f"{key!r} is no key" if known is False else wrong(entry, known, root)
        if reason:
            return reason
    return ""


@pytest.mark.parametrize("kind", ["graph", "plan", "cost", "budgets"])
def test_the_schema_in_the_repository_is_what_the_command_prints(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    """And its objects are those that msgspec describes."""
    assert main(["research", "schema", kind]) == 0
    assert (FOLDER / f"{kind}.schema.json").read_text() == capsys.readouterr().out
    document = lowtide.research.schema(kind)
    kinds = {"graph": GraphDocument, "plan": Plan, "cost": CostFile, "budgets": BudgetsDocument}
    own = msgspec.json.schema(kinds[kind])
    assert {name: entry.get("properties") for name, entry in document["$defs"].items()} == {
        name: entry.get("properties") for name, entry in own["$defs"].items()
    }
    with pytest.raises(InputError, match="there is no schema of 'other'"):
        lowtide.research.schema("other")


@pytest.mark.parametrize(
    "settings",
    [{}, {"budget": 64}, {"banks": ["a=60", "b=1KiB"]}, {"memories": ["fast=108"]}, {"target": "generic"}],
)
def test_plans_keep_to_the_schema(settings: dict[str, Any]) -> None:
    """Of each goal."""
    schema = lowtide.research.schema("plan")
    document = json.loads(lowtide.research.plan(GRAPH_OF, **{"target": "strict", **settings}).to_json())
    assert wrong(document, schema, schema) == ""
    assert "is no" in wrong(document | {"order": "no"}, schema, schema)
    assert "missing" in wrong({k: v for k, v in document.items() if k != "order"}, schema, schema)


def test_graphs_keep_to_the_schema() -> None:
    """A document with every key, one that lowtide writes, and one with a key that is none."""
    schema = lowtide.research.schema("graph")
    assert wrong(GRAPH, schema, schema) == ""
    assert wrong(json.loads(graph_json_bytes(GRAPH_OF)), schema, schema) == ""
    assert "'aliasof' is no key" in wrong(
        GRAPH | {"tensors": [{"id": 1, "size": 1, "kind": "input", "aliasof": 2}]}, schema, schema
    )
    assert "below 0" in wrong(GRAPH | {"ops": [{"id": -1, "inputs": [], "outputs": []}]}, schema, schema)


def test_a_graph_of_the_zoo_keeps_to_the_schema(tmp_path: Path) -> None:
    """As it is written."""
    path = graph_file(tmp_path, branches())
    schema = lowtide.research.schema("graph")
    assert wrong(json.loads(path.read_bytes()), schema, schema) == ""
