"""Ops that say themselves which rows they need: the attribute ``labels``, as in einsum.

``"n c . ., o c . . -> n o . ."``: operands with commas between, an arrow, results; a word for each dimension. The same
word is the same row, a word that no result has is summed over, ``.`` is read or made whole by every part. A dimension
of one row under a word of more rows is read whole (broadcasting). It is what MAGIS (ASPLOS 2024, section 4.1) calls the
links of an op, without windows; graph JSON carries it, so that ops of any name can run in parts.
"""

from __future__ import annotations

from lowtide.graph import Op
from lowtide.ops.access import Access, labelled
from lowtide.ops.forms import Custom, Form
from lowtide.ops.node import Node, NoForm

WHOLE = "."


def form(node: Node) -> Form:
    """Canonical parameters of an op with labels.

    Raises
    ------
    NoForm
        It has none, or they do not fit its operands and results.
    """
    text = node.text("labels")
    if not text:
        raise NoForm("it has no labels")
    reads, writes = parsed(text)
    if len(reads) != len(node.reads) or len(writes) != len(node.writes):
        raise NoForm(f"its labels are of {len(reads)} operands and {len(writes)} results")
    for words, shape in zip((*reads, *writes), (*node.reads, *node.writes), strict=True):
        if shape is None or len(words) != len(shape):
            raise NoForm(f"labels {' '.join(words)!r} are not for shape {shape}")
    rows: dict[str, int] = {}
    for words, shape in zip((*reads, *writes), (*node.reads, *node.writes), strict=True):
        for word, size in zip(words, shape or (), strict=True):
            if word != WHOLE and size != 1 and rows.setdefault(word, size) != size:
                raise NoForm(f"its label {word!r} has {rows[word]} rows, and {size} elsewhere")
    numbers: dict[str, int] = {}
    for words in (*writes, *reads):
        for word in words:
            if word != WHOLE:
                numbers.setdefault(word, len(numbers))

    def numbered(words: tuple[str, ...]) -> tuple[int | None, ...]:
        return tuple([None if word == WHOLE else numbers[word] for word in words])

    access = labelled(
        tuple([numbered(words) for words in reads]),
        tuple([numbered(words) for words in writes]),
        node.reads,
        node.writes,
        exact="kernel",
    )
    return Custom(node.type or "labelled", access, node.op.flops or 0)


def parsed(text: str) -> tuple[tuple[tuple[str, ...], ...], tuple[tuple[str, ...], ...]]:
    """Words of each operand, and of each result.

    Raises
    ------
    NoForm
        There is no arrow, or more than one.

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
    """The word that stands for an axis of an op's access. Raises `KeyError` if there is none."""
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
