"""What the ops of models mean, proved in their runtimes: a table of op kinds, coverage, and the floor beside the peak.

    python bench/meanings.py FOLDER [--dim NAME=SIZE] -o results/meanings

Every .onnx and .tflite model below the folder goes through `lowtide probe` and `lowtide inspect`. Weights are not
needed: random numbers are drawn. What is not run is counted, with the reasons. Where torch is installed, every row of
ATen's ops is probed on the small instances of `tests/support/aten_rows.py` as well.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import lowtide
from lowtide.api.models import load_own
from lowtide_research.bench.machine import machine

ROOT = Path(__file__).resolve().parent.parent
DIALECTS = {"onnx": "ONNX", "tflite": "TFLite", "aten": "ATen"}
FREE = {"batch": 1, "seq": 16, "N": 1}
"""Sizes of the free dimensions that models of ../shared have."""


def row_of(path: Path) -> dict[str, Any]:
    """A model's row: nodes, those with a map, probes, and its floor beside its least peak (`generic`)."""
    graph, own = load_own(path, FREE)
    probing = lowtide.probe(graph)
    seen = lowtide.inspect(graph, target="generic")
    run = [p for p in probing.probes if not p.skipped]
    return {
        "model": path.stem,
        "dialect": graph.dialect,
        "dims": {name: FREE[name] for name in FREE if name in own},
        "nodes": probing.nodes,
        "with_a_map": probing.nodes - len(probing.opaque),
        "distinct": len(probing.probes),
        "run": len(run),
        "parts": probing.parts,
        "sums": probing.sums,
        "wrong": probing.wrong,
        "not_run": dict(Counter(" ".join(p.skipped.split())[:60] for p in probing.probes if p.skipped)),
        "opaque": dict(Counter(f"{o.type}: {o.reason}" for o in probing.opaque)),
        "peak_bytes": seen.peak_bytes,
        "optimal": seen.optimal,
        "floor_bytes": None if seen.fission is None else seen.fission.floor_bytes,
        "opaque_at_peak": [] if seen.fission is None else [op.type for op, _ in seen.fission.opaque],
        "kinds": [asdict(kind) for kind in probing.kinds],
    }


def aten_rows() -> dict[str, Any] | None:
    """Small instances of every ATen row that a CPU runs, each probed in torch; None without torch."""
    if find_spec("torch") is None:
        return None
    sys.path.insert(0, str(ROOT / "tests"))
    from support.aten_rows import INSTANCES, NOT_RUN, graph_of

    probings = [lowtide.probe(graph_of(instance)[0]) for instance in INSTANCES]
    return {
        "dialect": "aten",
        "instances": len(INSTANCES),
        "types": len({instance.type for instance in INSTANCES}),
        "parts": sum(p.parts for p in probings),
        "sums": sum(p.sums for p in probings),
        "wrong": sum(p.wrong for p in probings),
        "without_instance": NOT_RUN,
        "kinds": [asdict(kind) for probing in probings for kind in probing.kinds],
    }


def tables(rows: list[dict[str, Any]], aten: dict[str, Any] | None) -> list[str]:
    """The rows as Markdown."""
    here = machine()
    nodes, known = sum(r["nodes"] for r in rows), sum(r["with_a_map"] for r in rows)
    parts, sums, wrong = (sum(r[key] for r in rows) for key in ("parts", "sums", "wrong"))
    lines = [
        "# What ops mean, and the proof",
        "",
        f"{here.cpu}; lowtide {here.lowtide} ({here.commit}). {len(rows)} models, {known:,} of {nodes:,} nodes "
        f"({known / nodes:.2%}) have a map; {parts:,} parts and {sums:,} sums probed, {wrong} wrong.",
        *([] if aten is None else ["", aten_text(aten)]),
        "",
        "| model | nodes | with a map | distinct | run | parts | sums | wrong | least peak | floor | floor / peak |",
        "|---" * 11 + "|",
    ]
    for r in rows:
        share = "" if r["floor_bytes"] is None else f"{r['floor_bytes'] / r['peak_bytes']:.3f}"
        floor = "" if r["floor_bytes"] is None else f"{r['floor_bytes']:,}"
        proved = "" if r["optimal"] else " (best known)"
        known_share = f"{r['with_a_map'] / max(1, r['nodes']):.1%}"
        probed = [known_share, r["distinct"], r["run"], f"{r['parts']:,}", r["sums"], r["wrong"]]
        lines.append(table_row([r["model"], f"{r['nodes']:,}", *probed, f"{r['peak_bytes']:,}{proved}", floor, share]))
    lines += [
        "",
        "| dialect | op | family | nodes | parts | sums | wrong | tight | exactness |",
        "|---" * 9 + "|",
    ]
    for (dialect, kind, family), total in sorted(by_kind([*rows, *([] if aten is None else [aten])]).items()):
        tight = f"{total['moved'] / total['tested']:.1%}" if total["tested"] else ""
        cells = [
            DIALECTS[dialect],
            kind,
            family,
            f"{total['nodes']:,}",
            f"{total['parts']:,}",
            total["sums"],
            total["wrong"],
        ]
        lines.append(table_row([*cells, tight, ", ".join(sorted(total["exact"]))]))
    opaque: Counter[str] = Counter()
    for r in rows:
        opaque.update(r["opaque"])
    lines += ["", "Without a map: " + ("; ".join(f"{text} ({n})" for text, n in opaque.most_common()) or "none") + "."]
    return lines


def aten_text(aten: dict[str, Any]) -> str:
    """What the instances of ATen's rows gave in all, and which rows have none."""
    without = "; ".join(f"`{name}` {reason}" for name, reason in aten["without_instance"].items())
    return (
        f"ATen: {aten['instances']} small instances of {aten['types']} ops, forward and backward, in torch; "
        f"{aten['parts']:,} parts and {aten['sums']:,} sums probed, {aten['wrong']} wrong. "
        f"Rows without an instance: {without}."
    )


def table_row(cells: list[Any]) -> str:
    """A line of a Markdown table."""
    return "| " + " | ".join(map(str, cells)) + " |"


def by_kind(rows: list[dict[str, Any]]) -> dict[tuple[str, str, str], dict[str, Any]]:
    """Probes of all models and instances, by dialect, op type and family."""
    totals: dict[tuple[str, str, str], dict[str, Any]] = {}
    for dialect, kind in ((r["dialect"], kind) for r in rows for kind in r["kinds"]):
        total = totals.setdefault(
            (dialect, kind["type"], kind["family"]), {"exact": set(), **dict.fromkeys(NUMBERS, 0)}
        )
        for key in NUMBERS:
            total[key] += kind[key]
        total["exact"] |= {word for word in kind["exact"].split(", ") if word}
    return totals


NUMBERS = ("nodes", "parts", "sums", "wrong", "tested", "moved")


def main() -> int:
    """Probe every model of the folder; 5 if a map is wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True, help="written with the endings .json and .md")
    arguments = parser.parse_args()
    rows = []
    for path in sorted((*arguments.folder.rglob("*.onnx"), *arguments.folder.rglob("*.tflite"))):
        rows.append(row_of(path))
        print(f"{path.name}: {rows[-1]['parts']:,} parts, {rows[-1]['wrong']} wrong", file=sys.stderr, flush=True)
    aten = aten_rows()
    document = {"machine": asdict(machine()), "rows": rows, "aten": aten}
    arguments.output.with_suffix(".json").write_text(json.dumps(document, separators=(",", ":")) + "\n")
    arguments.output.with_suffix(".md").write_text("\n".join(tables(rows, aten)) + "\n")
    return 5 if any(r["wrong"] for r in [*rows, *([] if aten is None else [aten])]) else 0


if __name__ == "__main__":
    raise SystemExit(main())
