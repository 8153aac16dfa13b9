"""`lowtide research bench tflite`: how far an output may overlap its input in TFLM, operator by operator."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar

from lowtide.errors import InputError, MissingExtraError
from lowtide_research.bench.options import flag, random_seed
from lowtide_research.bench.suite import Results, Suite, Watch
from lowtide_research.bench.tflite_overlap import OverlapRow, overlap_table


@dataclass(frozen=True)
class TfliteSuite(Suite[OverlapRow]):
    """Single operators of random shape under TFLM, at the distances of the rule and nearer."""

    name: ClassVar[str] = "tflite"
    words: ClassVar[str] = "how far an output may overlap its input in TFLM, operator by operator"
    description: ClassVar[str] = (
        "Single operators of random shape in TFLM at the rule's distance, and a row and an element nearer."
    )
    examples: ClassVar[tuple[str, ...]] = ("--overlap 100",)
    labelled: ClassVar[bool] = False

    # Random shapes to try for each kind of operator.
    overlap: int = field(default=0, metadata=flag("try each kind of operator on N random shapes", "N"))
    seed: int = random_seed()

    def rows(self, watch: Watch) -> Iterator[OverlapRow]:
        """Check that there is something to measure, and the runtime."""
        if self.overlap < 1:
            raise InputError("give --overlap N with N of 1 or more")
        try:
            import tflite_micro  # noqa: F401

            from lowtide_research.bench.tflite_overlap import overlap_rows
        except ImportError:
            raise MissingExtraError("tflite-micro", "tflite", "lowtide research bench tflite --overlap") from None
        return overlap_rows(self.overlap, self.seed)

    def line(self, row: OverlapRow) -> str:
        """The operator's name."""
        return f"{row.kind} {row.dtype}"

    def text(self, results: Results[OverlapRow]) -> str:
        """The table as Markdown."""
        return overlap_table(results.rows).markdown()

    def files(self, results: Results[OverlapRow], stem: str) -> dict[str, str]:
        """The page."""
        return {"tflite-overlap.md": self.text(results) + "\n"}
