"""The numbers of the TFLite schema: what an operator code and an element type mean (`schema.toml`)."""

from __future__ import annotations

import tomllib
from importlib.resources import files
from typing import Any

IDENTIFIER = b"TFL3"

SCHEMA: dict[str, Any] = tomllib.loads(files("lowtide.read.tflite").joinpath("schema.toml").read_text(encoding="utf-8"))

OPERATORS: tuple[str, ...] = tuple(SCHEMA["operators"].split())  # name of each builtin operator code
CUSTOM = OPERATORS.index("CUSTOM")
PLACEHOLDER = OPERATORS.index("PLACEHOLDER_FOR_GREATER_OP_CODES")
"""Codes from here on stand in the newer field of an operator code only; the old one is a byte."""

TYPES: dict[int, tuple[str, int]] = {number: (name, bits) for number, (name, bits) in enumerate(SCHEMA["types"])}
"""Element type: its name and its bits. The elements of a string tensor have no fixed size: 0 here."""

STATEFUL = frozenset(SCHEMA["stateful"].split())  # operators that may read or change more than their tensors
