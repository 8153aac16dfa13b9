"""Records as TOML: what writes targets and boards."""

from __future__ import annotations

from dataclasses import fields
from typing import Any


def fields_toml(record: Any) -> str:
    """A frozen dataclass of flags, numbers, texts and tuples of texts as TOML, a field a line."""
    lines = []
    for f in fields(record):
        value = getattr(record, f.name)
        if isinstance(value, bool):
            text = "true" if value else "false"
        elif isinstance(value, int):
            text = str(value)
        elif isinstance(value, tuple):
            text = "[" + ", ".join(toml_text(v) for v in value) + "]"
        else:
            text = f'"{value}"'
        lines.append(f"{f.name} = {text}")
    return "\n".join(lines) + "\n"


def toml_text(text: str) -> str:
    """A text as TOML writes it, quotes and control characters escaped."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(c if c.isprintable() else f"\\U{ord(c):08x}" for c in escaped) + '"'
