"""A torch.export archive with its nodes in another order, and every other byte as it was.

The nodes are permuted in the text of the graph's JSON, which keeps its length; the member's checksum, which is in
up to three places of the zip, is put right::

    local header | name | ..."nodes": [ n0 , n1 , n2 ]... | data descriptor | ... | central directory
           crc                          n2   n0   n1              crc                        crc
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from contextlib import nullcontext
from json import JSONDecoder
from pathlib import Path

from lowtide.errors import InputError
from lowtide.outputs import Outputs
from lowtide.read.pt2.reader import read_pt2
from lowtide.read.pt2.schema import open_archive
from lowtide.write.slots import fill_slots

_LOCAL, _DESCRIPTOR, _CENTRAL = b"PK\x03\x04", b"PK\x07\x08", b"PK\x01\x02"
_PATH = ("graph_module", "graph", "nodes")


def write_pt2(source: str | Path, order: Sequence[int], target: str | Path, outputs: Outputs | None = None) -> None:
    """Write an archive with its nodes in another order.

    `source`: what `torch.export.save` wrote; never changed. `order`: op ids (positions of nodes in `source`), each
    once. `target`: the file to write; replaced if it exists. `outputs`: write into these, to be committed by the caller
    together with others; else `target` is there on return. Raises `InputError`: `source` cannot be read, or its graph
    is compressed; `order` is no order of it that keeps its meaning; `target` is the input or cannot be written.
    """
    with Outputs() if outputs is None else nullcontext(outputs) as outputs:
        source = Path(source)
        place = str(source)
        outputs.protect(source)
        graph = read_pt2(source, example=True)
        sequence = fill_slots(graph.ops, set(), order, place)
        archive = open_archive(source)
        if archive.member.compress_type:
            raise InputError("its graph is compressed; save it again with torch.export.save", place)
        document = permuted(archive.document, sequence, place)
        data = bytearray(source.read_bytes())
        _replace(data, archive.member.header_offset, archive.member.filename, archive.document, document, place)
        outputs.write(target, bytes(data))


def permuted(document: bytes, sequence: Sequence[int], place: str) -> bytes:
    """The graph's JSON with its nodes in another sequence; the text between them stays. Raises `InputError`: the
    graph is not JSON as Python reads it, or has another number of nodes."""
    text = document.decode()
    try:
        spans = _elements(text, place)
    except InputError:
        raise
    except (ValueError, RecursionError) as error:
        raise InputError(f"its graph is no JSON that Python reads ({error}); save it again", place) from None
    if len(spans) != len(sequence):
        raise InputError(f"its graph has {len(spans)} nodes, not {len(sequence)}; plan it again", place)
    parts, at = [], 0
    for (begin, end), node in zip(spans, sequence, strict=True):
        parts += [text[at:begin], text[slice(*spans[node])]]
        at = end
    return "".join([*parts, text[at:]]).encode()


def _elements(text: str, place: str) -> list[tuple[int, int]]:
    """Where each element of the list at `_PATH` begins and ends."""
    decoder = JSONDecoder()
    at = _skip(text, 0)
    for key in _PATH:
        at = _value_of(text, at, key, decoder, place)
    if text[at] != "[":
        raise InputError("its graph's nodes are no list; save it again", place)
    spans: list[tuple[int, int]] = []
    at = _skip(text, at + 1)
    while text[at] != "]":
        _, end = decoder.raw_decode(text, at)
        spans.append((at, end))
        at = _skip(text, end)
        at = _skip(text, at + 1) if text[at] == "," else at
    return spans


def _value_of(text: str, at: int, key: str, decoder: JSONDecoder, place: str) -> int:
    """Where the value of `key` begins in the object that begins at `at`; the last of several counts, as in JSON."""
    place_of_value = None
    at = _skip(text, at + 1)
    while text[at] != "}":
        name, end = decoder.raw_decode(text, at)
        begin = _skip(text, _skip(text, end) + 1)
        _, end = decoder.raw_decode(text, begin)
        place_of_value = begin if name == key else place_of_value
        at = _skip(text, end)
        at = _skip(text, at + 1) if text[at] == "," else at
    if place_of_value is None:
        raise InputError(f"its graph has no {key!r}; save it again", place)
    return place_of_value


def _skip(text: str, at: int) -> int:
    while text[at : at + 1] in (" ", "\n", "\t", "\r") and at < len(text):
        at += 1
    return at


def _replace(data: bytearray, header: int, name: str, old: bytes, new: bytes, place: str) -> None:
    """Put `new` in the place of a stored member's bytes, `old`, of the same length, with its checksum."""
    was, now = struct.pack("<I", zlib.crc32(old)), struct.pack("<I", zlib.crc32(new))
    name_length, extra_length = struct.unpack_from("<HH", data, header + 26)
    begin = header + 30 + name_length + extra_length
    end = begin + len(old)
    wrong = len(old) != len(new) or data[header : header + 4] != _LOCAL or data[begin:end] != old
    data[begin:end] = new
    if data[header + 14 : header + 18] == was:
        data[header + 14 : header + 18] = now
    if data[end : end + 8] == _DESCRIPTOR + was:
        data[end + 4 : end + 8] = now
    places = 0
    at = data.find(_CENTRAL, end)
    while at >= 0:
        length = struct.unpack_from("<H", data, at + 28)[0]
        ours = struct.unpack_from("<I", data, at + 42)[0] in (header, 0xFFFFFFFF)
        if ours and data[at + 46 : at + 46 + length] == name.encode() and data[at + 16 : at + 20] == was:
            data[at + 16 : at + 20] = now
            places += 1
        at = data.find(_CENTRAL, at + 4)
    if wrong or places != 1:
        raise InputError("the zip has a form that is not known; save it again with torch.export.save", place)
