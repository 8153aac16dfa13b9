"""Graphs of the networks that suites run on: of the zoo, or of a directory of files."""

from __future__ import annotations

from pathlib import Path

from lowtide.errors import InputError
from lowtide.graph import Graph
from lowtide_research import zoo
from lowtide_research.zoo.published.cases import FILE, FORMS, Case

SUFFIX = ".graph.json"


def build(network: str, directory: Path | None, label: str) -> Graph:
    """Build a network of the zoo, or read ``file:NAME``. Raises `InputError`: no such network, or no such file; `label`
    is what people call the network."""
    if not network.startswith(FILE):
        return zoo.build(network).graph()
    from lowtide.api import load

    file = network.removeprefix(FILE) + SUFFIX
    if directory is None:
        raise InputError(f"{label} is in no zoo; give --graphs the directory that holds {file}")
    return load(directory / file)


def graph_of(case: Case, directory: Path | None = None) -> Graph:
    """A case's graph, with the ops made one that its paper takes for one. Raises as `build`."""
    return FORMS[case.form](build(case.network, directory, case.name))


def files_in(directory: str | Path, *endings: str) -> list[Path]:
    """Files with one of these endings, the smallest first. Raises `InputError`: there is none, or no such directory."""
    folder = Path(directory)
    try:
        sizes = sorted((p.stat().st_size, p.name) for p in folder.iterdir() if p.name.endswith(endings))
    except OSError as error:
        raise InputError(f"cannot read this directory: {error.strerror}; name another one", str(directory)) from None
    if not sizes:
        raise InputError(f"there is no *{' or *'.join(endings)} here; name another directory", str(directory))
    return [folder / name for _, name in sizes]
