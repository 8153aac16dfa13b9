"""HLO text taken apart: the module's line, the instructions of its computations, shapes and their bytes.

    HloModule jit_f, is_scheduled=true, input_output_alias={ {0}: (0, {}, may-alias) }, ...
    %region_0.2 (a: f32[], b: f32[]) -> f32[] {
      ...
    }
    ENTRY %main.7 (x.1: f32[512,64]) -> f32[512,6] {
      %x.1 = f32[512,64]{1,0} parameter(0), metadata={op_name="x"}
      ROOT %tuple.3 = (f32[64,64]{1,0}, s32[]) tuple(%a, /*index=1*/%b), control-predecessors={%c}
    }

Nothing of XLA is needed, and nothing is evaluated. What the words mean is `reader.py`'s.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from lowtide.errors import InputError

MOST_DEPTH = 100  # of tuples in tuples
MOST_BYTES = 2**62

_COMMENT = re.compile(r"/\*.*?\*/")
_ARRAY = re.compile(r"([a-z][a-z0-9]*)\[([^\]]*)\]")
_STRING = re.compile(r'"(?:\\.|[^"\\])*"')
_HEADER = re.compile(r"(ENTRY )?%?([\w.\-]+) (?:\(.*\) -> .*)?\{")
_NAME = re.compile(r"%?([\w.\-]+)\s*=\s*")
_CALLED = re.compile(
    r"\b(?:calls|to_apply|condition|body|true_computation|false_computation|branch_computations)="
    r"(?:\{([^}]*)\}|%?([\w.\-]+))"
)
_ALIAS = re.compile(r"\{([\d, ]*)\}: \((\d{1,9}), \{([\d, ]*)\}")
_BITS = {"pred": 8, "token": 0, "opaque": 0, "c64": 64, "c128": 128}


@dataclass(frozen=True)
class Array:
    """An array's element type and dimensions; a bounded dimension has its bound."""

    dtype: str
    shape: tuple[int, ...]
    size_bytes: int


Shape = Array | tuple["Shape", ...]


@dataclass(frozen=True)
class Instruction:
    """A line of a computation. `name`, `opcode`: of the instruction."""

    name: str
    shape: Shape  # what it makes; `written` is the same as the text has it, layout included
    written: str
    opcode: str
    operands: tuple[str, ...]  # names
    after: tuple[str, ...]  # names of those that run before for no value's sake
    root: bool  # whether it is what the computation gives
    place: str  # file and line, for messages
    number: int | None = None  # a parameter's number, or the index of a tuple's element
    calls: tuple[str, ...] = ()  # names of the computations that it runs
    kind: str = ""  # a fusion's


@dataclass(frozen=True)
class Module:
    """A text."""

    name: str  # the module's
    entry: str  # name of the computation that a call runs
    # Of each the first line of its body and the line that ends it, counted from 0.
    computations: dict[str, tuple[int, int]]
    # Indices of an element of what the entry gives, and the parameter and indices of the element whose memory it is
    # written to.
    donated: tuple[tuple[tuple[int, ...], int, tuple[int, ...]], ...]
    lines: tuple[str, ...]
    source: str

    def instructions(self, name: str) -> list[Instruction]:
        """Of a computation, in the order in which they run. Raises `InputError`: no such computation, or a line that is
        no instruction."""
        if name not in self.computations:
            raise InputError(f"there is no computation {name[:80]}, which the text runs; is it complete?", self.source)
        begin, end = self.computations[name]
        body = ((n + 1, self.lines[n]) for n in range(begin, end) if self.lines[n].strip())
        return [_instruction(line, f"{self.source}: line {n}") for n, line in body]


def module(text: str, source: str) -> Module:
    """A text's computations, found but not yet read. Raises `InputError`: no HLO text, none that is scheduled, no entry
    computation, or a computation that does not end."""
    lines = tuple(text.splitlines())
    head = next((line for line in lines if line.strip()), "")
    if not head.startswith("HloModule "):
        raise InputError("not HLO text: it does not begin with HloModule; take compile().as_text() of JAX", source)
    if "is_scheduled=true" not in head:
        raise InputError(
            "the module is not scheduled, so that its order says nothing; take the text after compiling, as "
            "jax.jit(f).lower(x).compile().as_text()",
            source,
        )
    computations: dict[str, tuple[int, int]] = {}
    entry = ""
    for n, line in enumerate(lines):
        begins = _HEADER.match(line) if line.rstrip().endswith("{") else None
        if begins is None:
            continue
        what = "ENTRY computation" if begins[1] else f"computation {begins[2][:80]}"
        end = next((k for k in range(n + 1, len(lines)) if lines[k].startswith("}")), None)
        if end is None:
            raise InputError(f"the {what} does not end; is the text cut off?", f"{source}: line {n + 1}")
        computations[begins[2]] = (n + 1, end)
        entry = begins[2] if begins[1] else entry
    if not entry:
        raise InputError("there is no ENTRY computation; is the text cut off?", source)
    name = re.split(r"[\s,]", head[len("HloModule ") :], maxsplit=1)[0]
    said = head.partition("input_output_alias={")[2].partition("entry_computation_layout")[0]
    donated = tuple((_indices(a[1]), int(a[2]), _indices(a[3])) for a in _ALIAS.finditer(said))
    return Module(name, entry, computations, donated, lines, source)


def _indices(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.replace(",", " ").split() if len(part) < 10)


def _instruction(line: str, place: str) -> Instruction:
    rest = _COMMENT.sub("", line).strip()
    root = rest.startswith("ROOT ")
    rest = rest.removeprefix("ROOT ")
    named = _NAME.match(rest)
    if named is None:
        raise InputError(f"this is no instruction: {line.strip()[:60]!r}; is the text as XLA wrote it?", place)
    shape, at = _shape(rest, named.end(), place, 0)
    word = re.compile(r"\s*([\w\-]+)\(").match(rest, at)
    if word is None:
        raise InputError(f"{named[1]} has no operation after its shape; is the line complete?", place)
    close = _closing(rest, word.end(), place)
    inside, behind = rest[word.end() : close], _STRING.sub("", rest[close:])
    plain = word[1] in ("parameter", "constant")
    control = re.search(r"control-predecessors=\{([^}]*)\}", behind)
    index = re.search(r"[ ,]index=(\d{1,9})\b", behind)
    kind = re.search(r"[ ,]kind=(\w+)", behind)
    number = index[1] if index else inside if word[1] == "parameter" and re.fullmatch(r"[0-9]{1,9}", inside) else None
    called = tuple(n for c in _CALLED.finditer(behind) for n in (_names(c[1]) if c[1] is not None else (c[2],)))
    return Instruction(
        named[1], shape, rest[named.end() : at], word[1], () if plain else _names(inside),
        _names(control[1]) if control else (), root, place, None if number is None else int(number), called,
        kind[1] if kind else "",
    )  # fmt: skip


def _names(text: str) -> tuple[str, ...]:
    """Operands: each the last word of its part, since older texts print the type before it."""
    parts: list[str] = []
    depth = start = 0
    for i, c in enumerate(text):
        depth += (c in "([{") - (c in ")]}")
        if c == "," and depth == 0:
            parts.append(text[start:i])
            start = i + 1
    parts.append(text[start:])
    return tuple(part.split()[-1].removeprefix("%") for part in parts if part.strip())


def _closing(text: str, at: int, place: str) -> int:
    """Where the parenthesis that was opened before `at` closes; strings are passed over."""
    depth, quoted = 1, False
    for i in range(at, len(text)):
        c = text[i]
        if c == '"' and text[i - 1] != "\\":
            quoted = not quoted
        elif not quoted:
            depth += (c == "(") - (c == ")")
            if depth == 0:
                return i
    raise InputError("a parenthesis does not close; is the line complete?", place)


def _shape(text: str, at: int, place: str, depth: int) -> tuple[Shape, int]:
    """A shape that begins at `at`, and where it ends, its layout included."""
    if depth > MOST_DEPTH:
        raise InputError(f"tuples are nested more than {MOST_DEPTH} deep; no program of XLA's has that", place)
    if text[at : at + 1] == "(":
        parts: list[Shape] = []
        at = _blank(text, at + 1)
        while text[at : at + 1] != ")":
            part, at = _shape(text, at, place, depth + 1)
            parts.append(part)
            at = _blank(text, at)
            if text[at : at + 1] == ",":
                at = _blank(text, at + 1)
            elif text[at : at + 1] != ")":
                raise InputError("a tuple's shape does not close; is the line complete?", place)
        return tuple(parts), at + 1
    array = _ARRAY.match(text, at)
    if array is None:
        raise InputError(f"this is no shape: {text[at : at + 40]!r}; write it as f32[2,3]", place)
    at = array.end()
    if text[at : at + 1] == "{":
        end = text.find("}", at)
        if end < 0:
            raise InputError("a layout does not close; is the line complete?", place)
        at = end + 1
    return _array(array[1], array[2], place), at


def _blank(text: str, at: int) -> int:
    while text[at : at + 1] == " ":
        at += 1
    return at


def _array(dtype: str, dims: str, place: str) -> Array:
    if dtype in _BITS:
        bits = _BITS[dtype]
    else:
        width = re.fullmatch(r"(?:s|u|f|bf)(\d+)\w*", dtype)  # f8e4m3fn has 8
        if width is None or not 1 <= int(width[1][:4]) <= 64:
            raise InputError(f"{dtype[:40]!r} is no element type of HLO; write it as f32, s8 or pred", place)
        bits = int(width[1])
    shape: list[int] = []
    count = 1
    for dim in filter(None, (d.strip() for d in dims.split(","))):
        digits = dim.removeprefix("<=")
        if not (digits.isascii() and digits.isdigit() and len(digits) < 19):
            raise InputError(f"{dim[:40]!r} is no size of a dimension; write a whole number", place)
        shape.append(int(digits))
        count *= int(digits)
        if count * bits > 8 * MOST_BYTES:
            raise InputError("an array has more than 2^62 bytes; check its shape", place)
    return Array(dtype, tuple(shape), -(-count * bits // 8))
