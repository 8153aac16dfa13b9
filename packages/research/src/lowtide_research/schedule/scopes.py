"""Scopes of a network's cells, handed over in a file."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

from lowtide.errors import InputError
from lowtide.graph import Graph


def read_scopes(path: str | Path, graph: Graph) -> list[int]:
    """The number of each op's cell, by position, or -1 for an op that is in none.

    The file is JSON: ``{"cell 1": ["op name", 17, ...], ...}``, ops by name or by id. Raises `InputError`: it cannot be
    read, has another form, names an op that is not there, or one twice; or cells need each other, so that they cannot
    run one after the other.

    Examples
    --------
    >>> import json, tempfile
    >>> from lowtide_research import zoo
    >>> graph = zoo.build("swiftnet_cell_b").graph()
    >>> with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
    ...     _ = file.write(json.dumps({"reads": [0, 1, 2, graph.ops[3].name]}))
    ...     file.flush()
    ...     read_scopes(file.name, graph)[:6]
    [0, 0, 0, 0, -1, -1]
    """
    place = str(path)
    try:
        cells = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"cannot read this file: {error.strerror}", place) from None
    except ValueError:
        raise InputError("it is no JSON", place) from None
    if not isinstance(cells, dict) or not all(isinstance(ops, list) for ops in cells.values()):
        raise InputError('the scopes of cells are written as {"cell": [op names or ids], ...}', place)
    scope = _positions(cells, graph, place)
    _check_order(scope, list(cells), graph, place)
    return scope


def _positions(cells: Mapping[str, list[Any]], graph: Graph, place: str) -> list[int]:
    times = Counter(op.name for op in graph.ops if op.name)
    position: dict[Any, int] = {op.name: v for v, op in enumerate(graph.ops) if times[op.name] == 1}
    position |= {op.id: v for v, op in enumerate(graph.ops)}
    scope = [-1] * len(graph.ops)
    for number, (cell, ops) in enumerate(cells.items()):
        for op in ops:
            if isinstance(op, bool) or not isinstance(op, str | int) or op not in position:
                why = "several ops have that name; give its id" if times.get(str(op), 0) > 1 else "there is no such op"
                raise InputError(f"cell {cell!r} has op {op!r}: {why}", place)
            v = position[op]
            if scope[v] >= 0:
                raise InputError(f"op {op!r} is in two places, the second in cell {cell!r}; give it once", place)
            scope[v] = number
    return scope


def _check_order(scope: list[int], names: list[str], graph: Graph, place: str) -> None:
    """Raise `InputError` if cells and the other ops cannot run one after the other."""
    needs: dict[tuple[int, int], set[tuple[int, int]]] = {}
    unit = [(cell, -1) if cell >= 0 else (-1, v) for v, cell in enumerate(scope)]
    for v, before in enumerate(graph.predecessors):
        needs.setdefault(unit[v], set()).update(unit[u] for u in before if unit[u] != unit[v])
    try:
        TopologicalSorter(needs).prepare()
    except CycleError as error:
        cell = next(names[cell] for cell, _ in error.args[1] if cell >= 0)
        raise InputError(
            f"cell {cell!r} needs results of ops outside that need its own; put them in it, or make it two cells", place
        ) from None
