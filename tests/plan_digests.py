"""Plans every model of a folder and digests the plans, so that two versions of lowtide can be held beside each other.

A digest is of the plan's JSON without `seconds`, the version, what was asked for (`rules`, `dims`), and what a runtime
takes beside it (`runtime_figures`), without the names of rules that searches were given since (`NEWER_RULES`), and
without what a picture needs (`profile`, `dtype` and `shape` of tensors), which
`verify` derives again from the rest and the graph. Searches that a limit of time ended may differ from run to run:
their rows say how they ended, and are compared by their peak and bound only.

    python tests/plan_digests.py FOLDER -o before.json
    python tests/plan_digests.py FOLDER -o after.json --against before.json
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import msgspec

import lowtide

TARGETS = {
    ".json": ("strict", "hmcos", "generic"),
    ".onnx": ("strict", "generic", "onnxruntime"),
    ".tflite": ("tflm", "tflite", "generic"),
}
KEYS = ("status", "stopped", "peak_bytes", "lower_bound_bytes", "arena_bytes", "required_bytes")
SECONDS = 20.0
NEWER_RULES = ("demand",)
"""Switches in the certificates of searches that digests made earlier do not know; all plans have them on."""


def digest(path: Path, target: str) -> dict[str, Any]:
    """What a plan of this model says, and the digest of all of it; an error is a row too."""
    try:
        plan = lowtide.plan(path, target=target, time=SECONDS)
    except lowtide.LowtideError as error:
        return {"error": str(error).replace(str(path.parent), "")}
    document = msgspec.to_builtins(plan)
    for key in ("seconds", "lowtide", "rules", "dims", "runtime_figures", "profile"):
        document.pop(key, None)
    for tensor in document["tensors"]:
        tensor.pop("dtype", None)
        tensor.pop("shape", None)
    for rule in NEWER_RULES:
        document["certificate"].get("switches", {}).pop(rule, None)
    text = json.dumps(document, sort_keys=True)
    return {**{key: document.get(key) for key in KEYS}, "sha256": hashlib.sha256(text.encode()).hexdigest()}


def same(row: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two rows say the same, as far as rows that time ended can."""
    if row.get("stopped") == other.get("stopped") == "time":
        return all(row[key] == other[key] for key in ("peak_bytes", "lower_bound_bytes"))
    return row == other


def main() -> int:
    """Digest every model below the folder; with --against, name each that differs and exit with 1."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--against", type=Path, help="digests of another version")
    arguments = parser.parse_args()
    models = [
        path
        for ending in TARGETS
        for path in sorted(arguments.folder.glob(f"*/*{ending}"))
        if not path.name.endswith(".json") or path.name.endswith(".graph.json")
    ]
    rows: dict[str, dict[str, Any]] = {}
    for path in models:
        for target in TARGETS[path.suffix]:
            rows[f"{path.relative_to(arguments.folder)} {target}"] = digest(path, target)
        print(f"{len(rows)} {path.name}", file=sys.stderr)
    arguments.output.write_text(json.dumps(rows, indent=1, sort_keys=True) + "\n")
    if arguments.against is None:
        return 0
    before = json.loads(arguments.against.read_text())
    differing = [name for name in sorted({*rows, *before}) if not same(rows.get(name, {}), before.get(name, {}))]
    for name in differing:
        print(f"differs: {name}\n  before {before.get(name)}\n  now    {rows.get(name)}")
    print(f"{len(rows)} plans, {len(differing)} differ")
    return 1 if differing else 0


if __name__ == "__main__":
    raise SystemExit(main())
