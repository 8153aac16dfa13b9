"""Ops that say themselves which rows they need: the attribute ``labels``, as in einsum.

``"n c . ., o c . . -> n o . ."``: operands with commas between, an arrow, results; a word for each dimension. The same
word is the same row, a word that no result has is summed over, ``.`` is untiled: every part reads or makes it in full.
A dimension of one row under a word of more rows is read in full (broadcasting). It is what MAGIS (ASPLOS 2024, section
4.1) calls the links of an op, without windows; graph JSON carries it, so that ops of any name can run in parts.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from lowtide.graph import Op
from lowtide.ops.access import Access, Shapes, labelled
from lowtide.ops.forms import Custom, Form
from lowtide.ops.node import Node, NoForm

UNTILED = "."


def form(node: Node) -> Form:
    """Canonical parameters of an op with labels. Raises `NoForm`: it has none, or they do not fit its operands and
    results."""
    text = node.text("labels")
    if not text:
        raise NoForm("it has no labels")
    return Custom(node.type or "labelled", _access(text, node.reads, node.writes), node.op.flops or 0)


@lru_cache(maxsize=4096)
def _access(text: str, read_shapes: Shapes, write_shapes: Shapes) -> Access:
    """What labels say of operands and results of these shapes; ops of repeated blocks say the same. Raises `NoForm`."""
    reads, writes = parsed(text)
    if len(reads) != len(read_shapes) or len(writes) != len(write_shapes):
        raise NoForm(f"its labels are of {len(reads)} operands and {len(writes)} results")
    for words, shape in zip((*reads, *writes), (*read_shapes, *write_shapes), strict=True):
        if shape is None or len(words) != len(shape):
            raise NoForm(f"labels {' '.join(words)!r} are not for shape {shape}")
    rows: dict[str, int] = {}
    for words, shape in zip((*reads, *writes), (*read_shapes, *write_shapes), strict=True):
        for word, size in zip(words, shape or (), strict=True):
            if word != UNTILED and size != 1 and rows.setdefault(word, size) != size:
                raise NoForm(f"its label {word!r} has {rows[word]} rows, and {size} elsewhere")
    numbers: dict[str, int] = {}
    for words in (*writes, *reads):
        for word in words:
            if word != UNTILED:
                numbers.setdefault(word, len(numbers))

    def numbered(words: tuple[str, ...]) -> tuple[int | None, ...]:
        return tuple([None if word == UNTILED else numbers[word] for word in words])

    labels, results = (tuple([numbered(words) for words in side]) for side in (reads, writes))
    return replace(labelled(labels, results, read_shapes, write_shapes), exact="kernel")


def parsed(text: str) -> tuple[tuple[tuple[str, ...], ...], tuple[tuple[str, ...], ...]]:
    """Words of each operand, and of each result. Raises `NoForm`: there is no arrow, or more than one.

    >>> parsed("m k, k n -> m n")
    ((('m', 'k'), ('k', 'n')), (('m', 'n'),))
    """
    reads, arrow, writes = text.partition("->")
    if not arrow or "->" in writes:
        raise NoForm(f"labels {text[:80]!r} have no one arrow between operands and results")

    def side(part: str) -> tuple[tuple[str, ...], ...]:
        return tuple([tuple(words.split()) for words in part.split(",")]) if part.strip() else ()

    return side(reads), side(writes)


def word_of(op: Op, access: Access, axis: int) -> str:
    """The word for an axis of an op's access. Raises `KeyError` if there is none."""
    reads, writes = parsed(str(op.attributes["labels"]))
    for words, along in zip(writes, access.outputs, strict=True):
        for word, at in zip(words, along, strict=True):
            if at == axis:
                return word
    for words, indices in zip(reads, access.inputs, strict=True):
        for word, index in zip(words, indices or (), strict=True):
            if index is not None and index.axis == axis:
                return word
    raise KeyError(axis)


def is_random(node: Node) -> bool:
    """Whether the op says so."""
    return bool(node.attribute("random"))


def mutates(node: Node) -> tuple[int, ...]:
    """None: in graph JSON a tensor that is written over is an alias."""
    return ()
