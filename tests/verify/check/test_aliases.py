"""Tensors in others, watched byte by byte: what the check takes runs right inside one arena, what it must not take is
refused."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import numpy as np
import pytest
from onnx.numpy_helper import from_array

import lowtide
from lowtide.errors import VerificationError
from lowtide.graph import Graph
from lowtide.plan import Plan
from lowtide.read import read_model
from lowtide.rewrites import TensorAlias
from lowtide.target import Target, resolve
from lowtide.transform.alias import Alias, Forest
from lowtide.transform.alias_candidates import Candidates
from lowtide.verify.check import aliases
from lowtide.verify.check.aliases import aliased, check_aliases
from lowtide.verify.check.plan import verify_plan
from support.arena_run import AliasNets, run_in_arena, weights_of
from support.onnx_builder import model, node, saved, value

TARGETS = {word: resolve(f"generic,in_place_normalisation=true,pieces={word}") for word in ("contiguous", "strided")}


def _net(folder: Path, seed: int, ops: int, outer: int) -> Path:
    return saved(AliasNets(Random(seed).choice, outer).build(ops), folder, f"{seed}-{ops}-{outer}.onnx")


def _plan_of(graph: Graph, target: Target, aliases: tuple[Alias, ...], rng: Random) -> Plan:
    """A plan in a random order that puts tensors where these aliases say, whether they can be there or not; what shares
    no memory lies apart."""
    waits = [set(before) for before in graph.predecessors]
    order: list[int] = []
    while len(order) < len(graph.ops):
        ready = [i for i, before in enumerate(waits) if before <= set(order) and i not in order]
        order.append(rng.choice(ready))
    offsets, end = {}, 0
    inside = {alias.tensor for alias in aliases}
    for t in graph.tensors:
        if t.id not in inside and (t.id in graph.producer or t.kind.value == "input"):
            offsets[str(t.id)] = end
            end += t.size
        elif t.id in inside:
            offsets[str(t.id)] = 0  # where it is says the alias
    plan = lowtide.research.plan(graph, target=target)
    return msgspec.structs.replace(
        plan,
        order=[graph.ops[i].id for i in order],
        in_place=[],
        offsets=offsets,
        arena_bytes=end,
        rewrites=[_entry(graph, alias) for alias in aliases],
    )


def _entry(graph: Graph, alias: Alias) -> TensorAlias:
    rows = (alias.run, alias.pitch) if alias.run < graph.tensor_by_id[alias.tensor].size else (None, None)
    return TensorAlias(tensor=alias.tensor, of=alias.of, op=alias.op, offset=alias.first, run=rows[0], pitch=rows[1])


def _checked(graph: Graph, plan: Plan, target: Target) -> str | None:
    """None if the check takes the plan's aliases, else why not."""
    try:
        check_aliases(graph, aliased(graph, plan, target), plan, target)
    except VerificationError as error:
        return str(error) if error.failure == "aliases" else f"not as aliases: {error}"
    return None


@pytest.mark.slow
@pytest.mark.parametrize("outer", [1, 2])
@pytest.mark.parametrize("pieces", TARGETS)
def test_a_plan_with_aliases_runs_right_inside_its_arena(tmp_path: Path, pieces: str, outer: int):
    """Whole plans: their checks hold, the bytes are those of the model without aliases, and some plans need less."""
    less = 0
    for seed in range(20):
        path = _net(tmp_path, seed, 9, outer)
        graph = read_model(path)
        plan = lowtide.research.plan(path, target=TARGETS[pieces], allow="alias", time=10)
        lowtide.verify(path, plan)
        assert run_in_arena(graph, plan, weights_of(path)) is None
        less += plan.rewrites is not None
    assert less > (5 if pieces == "strided" or outer == 1 else -1)


@pytest.mark.slow
@pytest.mark.parametrize("pieces", TARGETS)
def test_the_check_takes_what_runs_right_and_refuses_the_rest(tmp_path: Path, pieces: str):
    """Random sets of aliases, some of them moved or of two ops at once, in random orders: taken means right, spoilt
    bytes are refused, and what the decision itself calls legal is taken."""
    rng, seen = Random(5), {"taken": 0, "refused": 0, "spoilt": 0}
    for seed in range(120):
        path = _net(tmp_path, seed, 8, 1 + seed % 2)
        graph, target = read_model(path), TARGETS[pieces]
        some = Candidates(graph, target).all
        chosen = {a.tensor: a for a in rng.sample(some, rng.randint(0, len(some)))}
        if rng.random() < 0.5 and chosen:
            t = rng.choice(sorted(chosen))
            change: dict[str, Any] = rng.choice(
                [{"first": chosen[t].first + 16}, {"first": 0}, {"of": rng.choice(some).of}]
            )
            chosen[t] = replace(chosen[t], **change)
        aliases = tuple(chosen.values())
        plan = _plan_of(graph, target, aliases, rng)
        why = _checked(graph, plan, target)
        legal = set(aliases) <= set(some) and Forest(graph, target).add(aliases) is None
        if legal:
            assert why is None
        try:
            spoilt = run_in_arena(graph, plan, weights_of(path))
        except (IndexError, RecursionError):
            spoilt = "out of the arena"
        if why is None:
            assert spoilt is None
        seen["taken" if why is None else "refused"] += 1
        seen["spoilt"] += spoilt is not None
    assert min(seen["taken"] - 15, seen["refused"] - 5, seen["spoilt"]) > 5, seen


def _relu_net(folder: Path) -> tuple[Path, Graph]:
    """x -> a, b; p = relu a; q = relu b; y = concat(p, q); and r = a once more beside."""
    shape = (1, 2, 2, 2)
    nodes = [
        node("Conv", "x w", "a"),
        node("Conv", "x w", "b"),
        node("Relu", "a", "p"),
        node("Relu", "b", "q"),
        node("Concat", "p q", "y", axis=1),
        node("Neg", "a", "r"),
        node("Neg", "y", "z"),
    ]
    from onnx import helper

    weights = helper.make_tensor("w", 1, (2, 2, 1, 1), [1.0, 2.0, 3.0, 4.0])
    made = model(nodes, [value("x", shape)], [value("z", (1, 4, 2, 2)), value("r", shape)], [weights])
    path = saved(made, folder)
    return path, read_model(path)


def _lies(graph: Graph, tensor: str, of: str, by: str, offset: int, **more: int) -> TensorAlias:
    ids = {t.name: t.id for t in graph.tensors}
    op = next(op.id for op in graph.ops if by in {graph.tensor_by_id[t].name for t in op.outputs})
    return TensorAlias(tensor=ids[tensor], of=ids[of], op=op, offset=offset, **more)


RIGHT = [("p", "y", "y", 0), ("q", "y", "y", 32)]
BROKEN: dict[str, tuple[list[tuple[Any, ...]], str]] = {
    "a place that is another piece's": ([("p", "y", "y", 0), ("q", "y", "y", 0)], "finds other bytes|makes two"),
    "places changed": ([("p", "y", "y", 32), ("q", "y", "y", 0)], "writes y over|finds other bytes"),
    "beyond the end": ([("q", "y", "y", 48)], "does not end within"),
    "an input of the graph": ([("x", "y", "y", 0)], "is the caller's"),
    "a constant": ([("w", "y", "y", 0)], "no memory of its own"),
    "in itself": ([("p", "q", "y", 0), ("q", "p", "y", 0)], "in itself"),
    "twice": ([("p", "y", "y", 0), ("p", "y", "y", 32)], "is allocated in two others"),
    "over what is read later": ([("p", "y", "y", 0), ("a", "p", "p", 0)], "finds other bytes in a"),
    "over what another tensor is": ([("a", "b", "b", 0)], "finds other bytes in"),
    "what it reads, shifted": ([("a", "y", "y", 16), ("p", "y", "y", 0)], "which it reads|finds other"),
    "over a reader's own": ([("z", "y", "y", 0), ("r", "y", "y", 0)], "spoilt at the end|finds other|caller"),
}


def _broken_plan(graph: Graph, entries: list[tuple[Any, ...]]) -> Plan:
    plan = lowtide.research.plan(graph, target=TARGETS["contiguous"])
    return msgspec.structs.replace(
        plan, rewrites=[_lies(graph, *entry) for entry in entries], order=list(graph.own_order)
    )


def test_pieces_in_their_places_are_taken(tmp_path: Path):
    """Two pieces of a concat, and what one of them is written over."""
    _, graph = _relu_net(tmp_path)
    for entries in (RIGHT, [*RIGHT, ("b", "q", "q", 0)]):
        assert _checked(graph, _broken_plan(graph, entries), TARGETS["contiguous"]) is None


@pytest.mark.parametrize("name", BROKEN)
def test_each_rule_is_caught_when_it_is_broken(tmp_path: Path, name: str):
    """One thing wrong at a time."""
    entries, words = BROKEN[name]
    _, graph = _relu_net(tmp_path)
    why = _checked(graph, _broken_plan(graph, entries), TARGETS["contiguous"])
    assert re.search(words, why or "nothing"), why


def test_too_many_units_are_not_watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Where all that is watched has more units than the limit, the plan is refused."""
    monkeypatch.setattr(aliases, "MOST_UNITS", 1)
    _, graph = _relu_net(tmp_path)
    assert "too many slices" in (_checked(graph, _broken_plan(graph, RIGHT), TARGETS["contiguous"]) or "")


def test_rows_are_for_targets_whose_kernels_write_them(tmp_path: Path):
    """A pitch is refused where pieces are contiguous, pieces where they are copied."""
    nodes = [node("Relu", "x", "a"), node("Neg", "x", "b"), node("Concat", "a b", "y", axis=2), node("Neg", "y", "z")]
    path = saved(model(nodes, [value("x", (1, 2, 2, 2))], [value("z", (1, 2, 4, 2))]), tmp_path)
    graph = read_model(path)
    entry = _lies(graph, "a", "y", "y", 0, run=16, pitch=32)
    plan = msgspec.structs.replace(lowtide.research.plan(graph, target="generic"), rewrites=[entry])
    assert _checked(graph, plan, TARGETS["strided"]) is None
    assert "cannot be allocated in" in (_checked(graph, plan, TARGETS["contiguous"]) or "")
    assert "cannot be allocated in" in (_checked(graph, plan, resolve("generic")) or "")
    odd = msgspec.structs.replace(plan, rewrites=[msgspec.structs.replace(entry, pitch=24)])
    assert "no rows of 24 bytes" in (_checked(graph, odd, TARGETS["strided"]) or "")


def test_a_plan_that_lists_other_aliases_than_it_uses_fails(tmp_path: Path):
    """An entry taken away, added or moved in the file of a real plan."""
    path = _net(tmp_path, 12, 9, 1)
    plan = lowtide.research.plan(path, allow="alias")
    assert plan.rewrites
    graph = read_model(path)
    target = resolve(plan.target)
    entries = [r for r in plan.rewrites if isinstance(r, TensorAlias)]
    moved = msgspec.structs.replace(entries[0], offset=entries[0].offset + 16)
    for rewrites in (entries[1:], [moved, *entries[1:]]):
        with pytest.raises(VerificationError):
            verify_plan(graph, msgspec.structs.replace(plan, rewrites=rewrites or None), target)


def test_a_tile_knows_the_rows_that_its_constant_names(tmp_path: Path) -> None:
    """A Gather of three rows that are one: each tile has one index, so that it is known which bytes it makes."""
    net = model(
        [
            node("SpaceToDepth", "x", "a", blocksize=2),
            node("Gather", "a rows", "b", axis=0),
            node("MatMul", "w b", "c"),
        ],
        [value("x", (1, 2, 12, 16))],
        [value("c", (3, 8, 3, 8))],
        [from_array(np.zeros(3, np.int64), "rows"), from_array(np.zeros((3, 6), np.float32), "w")],
    )
    path = saved(net, tmp_path, "rows.onnx")
    plan = lowtide.research.plan(path, target="generic", allow="tile,alias", time=3)
    gathers = {op.id for op in plan.ops if op.type == "Gather"}
    assert any(isinstance(r, TensorAlias) and r.op in gathers for r in plan.rewrites or ())
    lowtide.verify(path, plan)
