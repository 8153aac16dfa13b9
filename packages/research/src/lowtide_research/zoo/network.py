"""What the zoo says of a network: where it comes from, how it is configured, how it is made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from lowtide.errors import InputError
from lowtide.names import did_you_mean
from lowtide_research.zoo.builder import Net


@dataclass(frozen=True)
class Parameter:
    """An integer that the name may set: ``name:key=value``. Both ends belong to the range."""

    default: int
    least: int
    most: int
    meaning: str


@dataclass(frozen=True)
class Network:
    """An entry of the zoo."""

    name: str  # what stands after ``zoo:``
    paper: str  # source of the architecture
    configuration: str  # what was chosen where the paper leaves a choice
    make: Callable[..., Net]  # builds the network; called with its graph name and one keyword per parameter
    parameters: Mapping[str, Parameter]  # what the name may set

    def settings(self, text: str) -> dict[str, int]:
        """Every parameter's value, from the text after the colon (``n=400,filters=16``, may be empty). Raises
        `InputError`: unknown parameter, one given twice, or a value that is no integer in its range."""
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
                raise InputError(
                    f"{key} is {value[:50]!r}; use an integer from {parameter.least} to {parameter.most}",
                    place,
                )
            given[key] = number
        return {key: given.get(key, p.default) for key, p in self.parameters.items()}
