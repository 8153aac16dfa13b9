"""JSON Schemas of what lowtide reads and writes, as msgspec makes them of the types that read and write it."""

from __future__ import annotations

from typing import Any

import msgspec

DRAFT = "https://json-schema.org/draft/2020-12/schema"


def json_schema(kind: type[msgspec.Struct], *, own_keys: str = "") -> dict[str, Any]:
    """The schema of a document. `kind`: what it is read as. `own_keys`: objects may have any keys that begin so in
    addition to their own; empty: what the types say.

    >>> class Point(msgspec.Struct, forbid_unknown_fields=True):
    ...     x: int
    >>> json_schema(Point, own_keys="x_")["$defs"]["Point"]["patternProperties"]
    {'^x_': {}}
    """
    document = {"$schema": DRAFT, **msgspec.json.schema(kind)}
    for struct in document["$defs"].values():
        if "description" in struct:
            struct["description"] = " ".join(struct["description"].split())
        if own_keys and struct.get("additionalProperties") is False:
            struct["patternProperties"] = {f"^{own_keys}": {}}
    return document
