"""What proves a bound on the peak: flows, which are checked without a search, or the word of a search."""

from __future__ import annotations

import msgspec

FlowArc = tuple[int | None, int | None, int | None, int]
"""``(tensor, from op, to op, bytes)``. A tensor's arc carries flow through that tensor's storage, from an op that
touches it to another (None: graph input at the front, graph output at the end). Without a tensor the arc is a
precedence: it leads from an op to one that must run before it."""


class FlowCase(msgspec.Struct, frozen=True, kw_only=True):
    """One flow of a cut certificate: the case in which `in_place`, if any, is the input that the op overwrites."""

    in_place: int | None
    flow: list[FlowArc]


class CutCertificate(msgspec.Struct, frozen=True, kw_only=True, tag="cut", tag_field="kind", omit_defaults=True):
    """No order has a footprint below `value_bytes` at `op`.

    `downset` is what runs before `op` in the cheapest case. `flow` proves the value by max-flow min-cut duality:
    bytes pushed from what must have run before `op` to what must run later. An op that may overwrite one of several
    inputs has a flow for each further case in `cases`; an op that may overwrite exactly one has it in `in_place`.
    """

    op: int
    value_bytes: int
    downset: list[int]
    flow: list[FlowArc]
    in_place: int | None = None
    cases: list[FlowCase] = []


class SearchCertificate(msgspec.Struct, frozen=True, kw_only=True, tag="search", tag_field="kind"):
    """Search found no order of peak at most `refuted_bytes`; `lowtide verify --prove` makes a second search."""

    refuted_bytes: int
    direction: str
    states: int
    switches: dict[str, bool]


class NoCertificate(msgspec.Struct, frozen=True, tag="none", tag_field="kind"):
    """Nothing is proved beyond the footprint of the largest single op."""


Certificate = CutCertificate | SearchCertificate | NoCertificate
