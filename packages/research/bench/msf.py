"""msf-CNN's three networks in its own accounting: its published points, beside the least that its blocks can reach.

    python bench/msf.py -o results/msf-cnn

Bytes are elements (int8); the network's input and output are free; weights, padding and residual additions are not
counted. Its points are quoted from its repository, and each is computed again from the layers that it fused.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import onnx

import lowtide
from lowtide_research import zoo
from lowtide_research.bench.machine import machine
from lowtide_research.msf_cnn import Layer, Setting, Way, block, chain, front, least
from lowtide_research.zoo.published import Figure, figures

NETWORKS = ("mobilenet_v2_035", "mcunet_v2_vww", "mcunet_320kb")


def layers_of(name: str) -> tuple[Layer, ...]:
    """Layers of a network of the zoo, read from its ONNX form."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{name}.onnx"
        onnx.save(zoo.build(name).onnx(), path)
        return chain(lowtide.load(path))


def points(name: str) -> list[tuple[Figure, int, int]]:
    """Published points of a network: the row of the peak, bytes, multiplications."""
    rows = [row for row in figures("fusion") if row.network == name]
    counted = {row.setting: int(row.amount) for row in rows if row.figure == "multiplications"}
    return [(row, int(row.amount), counted[row.setting]) for row in rows if row.figure == "peak"]


def again(layers: Sequence[Layer], note: str) -> tuple[int, int]:
    """Bytes and multiplications of a published setting, from the layers that it fused (``layers 0-1 2-6 ...``)."""
    ranges = [tuple(map(int, pair.split("-"))) for pair in note.split()[1:]]
    blocks = [block(layers, first, last + 1, "again") for first, last in ranges]
    assert all(b is not None for b in blocks), note
    return max(b.bytes for b in blocks if b), sum(b.multiplications for b in blocks if b)


def network(name: str) -> dict[str, Any]:
    """A network's rows."""
    layers = layers_of(name)
    once = sum(layer.multiplications for layer in layers)
    best = {way: timed(layers, (way,)) for way in ("rows", "pixels")}
    began = time.perf_counter()
    every = front(layers)
    seconds = time.perf_counter() - began
    rows = []
    for row, peak, multiplied in points(name):
        within = min((s for s in every if s.multiplications <= multiplied), key=lambda s: s.peak_bytes)
        rows.append(
            {
                "setting": row.setting,
                "bytes": peak,
                "multiplications": multiplied,
                "again": again(layers, row.note) == (peak, multiplied),
                "rows_bytes": best["rows"][0].peak_bytes,
                "pixels_bytes": best["pixels"][0].peak_bytes,
                "front_bytes": within.peak_bytes,
                "front_multiplications": within.multiplications,
            }
        )
    whole = max(layer_bytes(layers, i) for i in range(len(layers)))
    return {
        "network": name,
        "layers": len(layers),
        "multiplications": once,
        "whole_bytes": whole,
        "once": {way: as_row(setting, once, spent) for way, (setting, spent) in best.items()},
        "front": [as_row(setting, once, seconds) for setting in every],
        "points": rows,
    }


def timed(layers: Sequence[Layer], ways: Sequence[Way]) -> tuple[Setting, float]:
    """The least setting of some ways, and the seconds that it took."""
    began = time.perf_counter()
    setting = least(layers, ways)
    return setting, time.perf_counter() - began


def layer_bytes(layers: Sequence[Layer], at: int) -> int:
    """What a layer by itself holds; the output is counted here, as where msf-CNN prints a network without fusion."""
    rows, columns, channels = layers[at].makes
    last = rows * columns * channels if at == len(layers) - 1 else 0
    alone = block(layers, at, at + 1, "whole")
    assert alone is not None
    return alone.bytes + last


def as_row(setting: Setting, once: int, seconds: float) -> dict[str, Any]:
    """A setting's figures."""
    return {
        "bytes": setting.peak_bytes,
        "multiplications": setting.multiplications,
        "factor": setting.multiplications / once,
        "blocks": [f"{b.begin}-{b.end - 1} {b.way}" for b in setting.blocks],
        "seconds": seconds,
    }


def text(results: Sequence[dict[str, Any]], note: str) -> str:
    """The page."""
    lines = [
        "# msf-CNN's networks in its accounting",
        "",
        note,
        "",
        "Bytes are elements (int8); a block of fused layers holds its input and output whole and a buffer for each",
        "tensor between; the network's own input and output are free; weights, padding and residual additions are",
        "not counted. Computed, not run on a board. `rows` and `pixels` make everything once: the least over all",
        "paths of blocks, every block tried (`lowtide_research.msf_cnn`).",
        "",
        "| network | layers | multiplications | without fusion | msf-CNN at 1.00x | rows | pixels | seconds |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for net in results:
        published = min(p["bytes"] for p in net["points"] if p["multiplications"] == net["multiplications"])
        rows, pixels = net["once"]["rows"], net["once"]["pixels"]
        lines.append(
            f"| {net['network']} | {net['layers']} | {net['multiplications']:,} | {net['whole_bytes']:,} "
            f"| {published:,} | {rows['bytes']:,} | {pixels['bytes']:,} "
            f"| {rows['seconds']:.2f}, {pixels['seconds']:.2f} |"
        )
    lines += [
        "",
        "Published points (msf-CNN, NeurIPS 2025; its repository at fd74a7c, `msf_CNN_eval_models/*/result.json`)",
        "beside ours. *again*: its bytes and multiplications come out of the layers that it fused, to the digit.",
        "*ours*: the least at no more multiplications, where blocks may also make rows again as its do.",
        "",
        "| network | its setting | its bytes | its factor | again | rows, 1.00x | pixels, 1.00x | ours | our factor |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for net in results:
        once = net["multiplications"]
        lines += [
            f"| {net['network']} | {p['setting']} | {p['bytes']:,} | {p['multiplications'] / once:.3f} "
            f"| {'yes' if p['again'] else 'no'} | {p['rows_bytes']:,} | {p['pixels_bytes']:,} | {p['front_bytes']:,} "
            f"| {p['front_multiplications'] / once:.3f} |"
            for p in net["points"]
        ]
    every = [p for net in results for p in net["points"]]
    rows = sum(p["rows_bytes"] <= p["bytes"] for p in every)
    pixels = sum(p["pixels_bytes"] <= p["bytes"] for p in every)
    above = sum(p["front_bytes"] > p["bytes"] for p in every)
    lines += [
        "",
        f"Of {len(every)} points, {rows} are no lower than `rows` and {pixels} no lower than `pixels`, both at 1.00x; "
        f"ours is above {above or 'none'} of them.",
        "",
        "The whole front: bytes at a factor of multiplications.",
        "",
        *(
            f"- {net['network']}: " + ", ".join(f"{s['bytes']:,} at {s['factor']:.3f}" for s in net["front"])
            for net in results
        ),
        "",
    ]
    return "\n".join(lines)


def main() -> int:
    """Compute, write, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", type=Path, metavar="NAME", help="write NAME.md and NAME.json")
    options = parser.parse_args()
    results = [network(name) for name in NETWORKS]
    note = f"{machine().cpu}, lowtide {machine().commit}; `bench/msf.py`."
    page = text(results, note)
    if options.o:
        options.o.with_suffix(".md").write_text(page, encoding="utf-8")
        options.o.with_suffix(".json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    print(page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
