"""What the zoo says of a network: where it comes from, how it is configured, how it is made."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from importlib.resources import files
from typing import Any, NamedTuple

import msgspec

from lowtide.errors import InputError
from lowtide.names import did_you_mean
from lowtide_research.zoo.builder import Net


class Parameter(NamedTuple):
    """An integer that the name may set: ``name:key=value``. Both ends belong to the range."""

    default: int
    least: int
    most: int
    meaning: str
    factor: int = 1  # of which it has to be a multiple


@dataclass(frozen=True)
class Network:
    """An entry of the zoo, a table of networks.toml."""

    name: str  # what stands after ``zoo:``
    paper: str  # source of the architecture
    configuration: str  # what was chosen where the paper leaves a choice
    function: str  # builds the network; MODULE:NAME of this package
    given: Mapping[str, Any] = field(default_factory=dict[str, Any])  # what the function is always given
    parameters: Mapping[str, Parameter] = field(default_factory=dict[str, Parameter])  # what the name may set

    def make(self, graph_name: str, **settings: int) -> Net:
        """Build the network from a value for each parameter."""
        module, _, function = self.function.partition(":")
        build = getattr(import_module(f"lowtide_research.zoo.{module}"), function)
        return build(graph_name, **self.given, **settings)

    def settings(self, text: str) -> dict[str, int]:
        """Every parameter's value, from the text after the colon (``n=400,filters=16``, may be empty). Raises
        `InputError`: unknown parameter, one given twice, or a value that is no integer in its range, or no multiple of
        what it has to be."""
        place = f"zoo:{self.name}"
        choices = ", ".join(f"{k} ({p.least} to {p.most})" for k, p in self.parameters.items()) or "none"
        given: dict[str, int] = {}
        for part in text.split(",") if text else []:
            key, _, value = part.partition("=")
            key = key.strip()
            if key not in self.parameters:
                hint = did_you_mean(key[:50], self.parameters)
                raise InputError(f"there is no parameter {key[:50]!r}; use {choices}{hint}", place)
            if key in given:
                raise InputError(f"parameter {key} is given twice; give it once", place)
            parameter = self.parameters[key]
            digits = value.strip()
            number = int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 12 else None
            if number is None or not parameter.least <= number <= parameter.most:
                limits = f"{parameter.least} to {parameter.most}"
                raise InputError(f"{key} is {value[:50]!r}; use an integer from {limits}", place)
            if number % parameter.factor:
                raise InputError(f"{key} is {number}; use a multiple of {parameter.factor}", place)
            given[key] = number
        return {key: given.get(key, p.default) for key, p in self.parameters.items()}


def table(name: str) -> dict[str, Any]:
    """A TOML file of this package."""
    return tomllib.loads(files("lowtide_research.zoo").joinpath(f"{name}.toml").read_text(encoding="utf-8"))


@cache
def networks() -> Mapping[str, Network]:
    """Every network by its name."""
    return {name: msgspec.convert({"name": name, **row}, Network) for name, row in table("networks").items()}
