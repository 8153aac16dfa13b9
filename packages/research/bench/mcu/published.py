"""Figures that others publish, beside those of the same networks here. They are not measured here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lowtide_research.bench.pages import table


@dataclass(frozen=True)
class Published:
    """A figure as it is printed, and the network of this page that is like it (empty: none)."""

    of: str
    network: str
    printed: str
    source: str
    model: str


TINYENGINE = "mit-han-lab/tinyengine, README.md at 022fc11, *Measured Results*, STM32H743, -Ofast"
MSF = "TinyPART/msf-CNN at 9632d3e, result.json (`peak_mem_usage`; operations by `Overhead Factor`)"
TIGRIS = "raws-labs/tigris-bench, README.md at 042b8ce, *Headline results*"
R144 = "MBV2-w0.35-r144, convolutions alone"
MOBILENET, WAKE, IMAGES = "mobilenet_v2_0.35_144_int8", "mcunet_v2_vww_80_int8", "mcunet_320kb_176_int8"
FIGURES = (
    Published("TFLM", "mbv2-w0.35", "does not fit 512 KB", TINYENGINE, MOBILENET),
    Published("TinyEngine", "mbv2-w0.35", "295 kB, 124 ms", TINYENGINE, MOBILENET),
    Published("TFLM + CMSIS-NN", "mcunet-vww1 (5 frames a second)", "220 kB, 97 ms", TINYENGINE, WAKE),
    Published("TinyEngine", "mcunet-vww1 (5 frames a second)", "92 kB, 51 ms", TINYENGINE, WAKE),
    Published("TFLM + CMSIS-NN", "mcunet-in3 (320 KB)", "493 kB, 770 ms", TINYENGINE, IMAGES),
    Published("TinyEngine", "mcunet-in3 (320 KB)", "260 kB, 336 ms", TINYENGINE, IMAGES),
    Published("msf-CNN, least memory", R144, "8,560 B, 1.68 times the operations", MSF, MOBILENET),
    Published("msf-CNN, at most 16 K", R144, "15,199 B, 1.38 times", MSF, MOBILENET),
    Published("msf-CNN, at most 1.3 times", R144, "21,389 B, 1.30 times", MSF, MOBILENET),
    Published("msf-CNN, least memory", "MCUNetv2-vww-5fps-r80, convolutions alone", "15,368 B, 1.96 times", MSF, WAKE),
    Published("TFLM", "DS-CNN, STM32H753", "22.7 KB, 12.8 ms", TIGRIS, "mlperf_tiny_kws_int8"),
    Published("TiGrIS", "DS-CNN, STM32H753", "17.0 KB, 11.1 ms", TIGRIS, "mlperf_tiny_kws_int8"),
    Published("TFLM", "anomaly detection, STM32H753", "15.8 KB, 1.2 ms", TIGRIS, "mlperf_tiny_ad01_int8"),
    Published("TiGrIS", "anomaly detection, STM32H753", "2.9 KB, 1.2 ms", TIGRIS, "mlperf_tiny_ad01_int8"),
    Published("TiGrIS", "MobileNetV2-0.35 at 224, qemu's Cortex-M55", "127 KB", TIGRIS, ""),
)  # fmt: skip
_NOTES = (
    "Quoted, not measured here: other boards, compilers and versions, and networks that are alike, not the same",
    "files. What counts as memory differs: TinyEngine's peak SRAM has its runtime's buffers; msf-CNN's bytes are",
    "planned, without additions and classifier; TiGrIS counts its working set. Of lowtide the arena of C with",
    "CMSIS-NN on the Cortex-M4, with the input and the library's scratch in it, at most a tenth more",
    "instructions. Of MCUNetV2's patches TinyEngine's README says \"8x\" for MobileNetV2, with a picture and no",
    "table. Of heliaAOT no table of bytes or times was found in public text, so that it has no row. Of DTLN",
    "TFLM's repository has the one int8 model that is measured; both of the original ones are in the package",
    "index in float32 as ONNX files alone.",
)


def compared(rows: Sequence[dict[str, Any]]) -> list[str]:
    """A section of the page."""
    ours = {row["model"]: row["arena"] for row in rows if row["board"] == "m4" and row["way"] == "lowtide + CMSIS-NN"}
    cells = [
        (f.of, f.network, f.printed, f.model or "-", f"{ours[f.model]:,}" if f.model in ours else "-", f.source)
        for f in FIGURES
    ]
    head = ("published of", "network", "printed", "network here", "lowtide's arena", "source")
    return ["## Published figures", "", *_NOTES, "", *table(head, cells), ""]
