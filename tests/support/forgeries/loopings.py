"""Loops that cannot be: keys that name nothing or are spelled in another way, rings without a place, and loops by hand
with one flaw each."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

from support.forgeries.bases import HAND, Base
from support.forgeries.families import Family, changed
from support.forgeries.leaves import Document, put
from support.hand_loops import HAND_LOOPS

TABLES = ("along", "axis", "merge", "keep", "sums", "streamed", "behind")
"""Tables of a loop that have ids for keys."""


def loops_misspelled(base: Base, random: Random) -> Iterator[tuple[Document, str]]:
    """An entry of a loop's tables under another key, or one more."""
    for k, loop in enumerate(base.document.get("loops") or []):
        for name in TABLES:
            table: dict[str, Any] = loop.get(name, {})
            for key, value in list(table.items())[:1]:
                rest = {other: v for other, v in table.items() if other != key}
                for other in ("x", str(2**40), f"0{key}", chr(0x660 + int(key) % 10), "9" * 5000):
                    yield put(base.document, ("loops", k, name), {**rest, other: value}), f"{other[:9]} is no {key}"
                    yield put(base.document, ("loops", k, name), {**table, other: value}), f"{other[:9]} is nothing"


def loops_unplaced(base: Base, random: Random) -> Iterator[tuple[Document, str]]:
    """Rings and accumulators without a place; a distance to no tensor; nothing said of the bound."""
    loops = base.document.get("loops") or []
    for k, loop in enumerate(loops):
        for name in ("keep", "sums"):
            for key, inner in loop.get(name, {}).items():
                if inner.get("offset") is not None:
                    nowhere = put(base.document, ("loops", k, name, key), inner | {"offset": None})
                    yield nowhere, f"the {name} of tensor {key} lie nowhere"
        if loop.get("over") is None:
            for t in [t.id for t in base.plan.tensors][:3]:
                yield put(base.document, ("loops", k), loop | {"behind": {str(t): 2**40}}), "behind what, nobody says"
    if loops:
        yield changed(base, proved_over=None), "nobody says over what the bound holds"


def loops_flawed(base: Base, random: Random) -> Iterator[tuple[Document, str]]:
    """A loop by hand around all ops of the graph, with its flaw."""
    if base.kind.startswith(HAND):
        flaw = base.kind.removeprefix(HAND)
        yield {k: v for k, v in HAND_LOOPS[flaw]().document().items() if v is not None}, f"a loop {flaw}"


LOOPED: dict[str, Family] = {
    "loops misspelled": loops_misspelled,
    "loops unplaced": loops_unplaced,
    "flawed loops": loops_flawed,
}
"""What is forged of loops."""
