"""Names on a screen: complete where they fit, else cut so that no two are alike."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import takewhile

from lowtide.names import shorten

WIDTH = 24  # letters of a name in a table on a terminal


def labels(names: Iterable[str], width: int | None) -> Mapping[str, str]:
    """A label for each name: the name itself without a `width`, else of about that many letters, and no two alike.

    Of names that would look alike once they are cut, what they differ in is shown.

    >>> labels(["net/block_1/conv/Relu6", "net/block_2/conv/Relu6"], 12)
    {'net/block_1/conv/Relu6': '...1/conv/Relu6', 'net/block_2/conv/Relu6': '...2/conv/Relu6'}
    """
    unique = list(dict.fromkeys(names))
    if width is None:
        return {name: name for name in unique}
    label = {name: shorten(name, width) for name in unique}
    alike: dict[str, list[str]] = {}
    for name, text in label.items():
        alike.setdefault(text, []).append(name)
    for group in alike.values():
        if len(group) > 1:
            label |= _apart(group, width)
    if len(set(label.values())) < len(label):
        return {name: name for name in unique}
    return label


def _apart(names: list[str], width: int) -> dict[str, str]:
    """Labels that begin where the names first differ; longer than `width` where that is not enough."""
    start = sum(1 for _ in takewhile(lambda letters: len(set(letters)) == 1, zip(*names, strict=False)))
    for length in (width, 2 * width, 4 * width):
        label = {name: f"...{_end_cut(name[start:], length)}" for name in names}
        if len(set(label.values())) == len(names):
            return label
    return {name: name for name in names}


def _end_cut(text: str, width: int) -> str:
    """Beginning and end, the beginning at least half."""
    return text if len(text) <= width else shorten(text, width)
