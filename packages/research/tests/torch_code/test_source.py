"""Plans of training steps as PyTorch modules, beside the same step in numpy and as eager runs it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lowtide
from lowtide.errors import InputError
from lowtide.graph import Graph
from lowtide.plan import Plan
from lowtide.write.graph_json import graph_json_bytes
from lowtide_research import zoo
from lowtide_research.torch_code.__main__ import main
from lowtide_research.torch_code.source import executable, module_source
from support.step_runs import random_feeds, run_step
from support.steps import SMALL, labelled_graph, random_attention_step, random_sibling_step, random_step

torch = pytest.importorskip("torch", reason="needs torch")

WORDS = [("recompute,tile,offload", {"budget": "50%"}), ("recompute,tile,merge", {"max_overhead": "300%"})]


def _run(graph: Graph, source: str) -> dict[int, Any]:
    """Results by the step's own tensors; what holds several is taken apart."""
    module, feeds = executable(source), random_feeds(graph)
    ids = {t.name: t.id for t in graph.tensors}
    given: list[Any] = []
    for name, _, _ in module["INPUTS"]:
        of = [torch.tensor(feeds[ids[inner]]) for inner in module["STACKED"].get(name, [name])]
        given.append(torch.stack(of) if name in module["STACKED"] else of[0])
    results = module["step"](given)
    assert not given
    for name, of in module["STACKED"].items():
        if name in results:
            results |= dict(zip(of, results.pop(name), strict=True))
    return {ids[name]: value.numpy() for name, value in results.items()}


def _check(graph: Graph, plan: Plan | None) -> str:
    """That a module gives the results of numpy; its source."""
    source, wanted = module_source(graph, plan), run_step(graph, random_feeds(graph))
    found = _run(graph, source)
    assert found.keys() == wanted.keys()
    for t, value in wanted.items():
        np.testing.assert_allclose(found[t], value, rtol=1e-9, atol=1e-12)
    return source


@pytest.mark.parametrize("name", SMALL)
def test_the_seven_as_eager_runs_them_are_those_of_numpy(name: str) -> None:
    """Every kind of op of the zoo's steps."""
    source = _check(zoo.build(f"{name}:{SMALL[name]}").graph(), None)
    assert "# again" not in source


@pytest.mark.slow
@pytest.mark.parametrize(("words", "how"), WORDS)
@pytest.mark.parametrize("name", SMALL)
def test_plans_of_the_seven_compute_what_eager_does(name: str, words: str, how: dict[str, Any]) -> None:
    """In parts, again, to the host and back, products merged."""
    graph = zoo.build(f"{name}:{SMALL[name]}").graph()
    _check(graph, lowtide.research.plan(graph, allow=words, time=1, **how))


def test_parts_are_functions_of_slices() -> None:
    """Of parts of unequal rows, results are joined and sums added up."""
    graph = random_step(3, batch=7)
    plan = lowtide.research.plan(
        graph, allow="recompute,tile", method="microbatch", options={"parts": "3"}, max_overhead=900, time=2
    )
    source = _check(graph, plan)
    assert "in 3 parts of 7 rows" in source
    assert "((0, 3), (3, 5), (5, 7))" in source
    assert "= joined(" in source
    assert "= summed(" in source


def test_what_runs_again_and_leaves_memory_says_so() -> None:
    """As often as the plan does."""
    graph = random_attention_step(2)
    plan = lowtide.research.plan(graph, allow="recompute,offload", budget="60%", time=2)
    kinds = [type(r).__name__ for r in plan.rewrites or ()]
    source = _check(graph, plan)
    assert source.count("# again") == kinds.count("Recompute")
    assert source.count("host.stored(") == kinds.count("Swap") > 0


def test_transfers_inside_of_parts_of_unequal_rows() -> None:
    """Each part stores and loads its own rows."""
    graph = zoo.build(f"magis_bert_base:{SMALL['magis_bert_base']}").graph()
    plan = lowtide.research.plan(
        graph, allow="recompute,tile,offload", method="magis", budget="60%", time=3, options={"width": "3"}
    )
    _check(graph, plan)


def test_merged_products_say_what_they_hold() -> None:
    """Stacked weights, by name."""
    graph = random_sibling_step(1)
    plan = lowtide.research.plan(graph, allow="recompute,tile,merge", max_overhead=3.0, time=3)
    assert plan.fission is not None
    source = _check(graph, plan)
    assert len(executable(source)["STACKED"]) == 2 * len(plan.fission.merged) > 0


def _mlp_step() -> Graph:
    """A small labelled step of ops that say themselves what they are."""
    graph = labelled_graph(
        [
            ("dense", ["x", "w"], "y", "n d, d f -> n f"), ("rectify", ["y"], "z", "n f -> n f"),
            ("gradient", ["x", "z"], "dw", "n d, n f -> d f"), ("update", ["w", "dw"], "v", "d f, d f -> d f"),
        ],
        {"x": (12, 8), "w": (8, 64), "y": (12, 64), "z": (12, 64), "dw": (8, 64), "v": (8, 64)},
    )  # fmt: skip
    texts = ("{0} @ {1}", "{0}.clamp(min=0)", "{0}.T @ {1}", "{0} + {1}")
    ops = [replace(op, attributes={**op.attributes, "torch": text}) for op, text in zip(graph.ops, texts, strict=True)]
    return replace(graph, ops=tuple(ops))


def test_an_op_of_an_unknown_kind_is_named() -> None:
    """Where it does not say itself what it is."""
    graph = labelled_graph([("double", ["x"], "y", "a b -> a b")], {"x": (2, 3), "y": (2, 3)})
    with pytest.raises(InputError, match="double"):
        module_source(graph)


def test_a_module_is_written_from_files(tmp_path: Path) -> None:
    """A user's graph, whose ops say what they are, and its checked plan, in parts; another step's plan is refused."""
    model, plan_file, out = (tmp_path / name for name in ("step.graph.json", "plan.json", "step.py"))
    model.write_bytes(graph_json_bytes(_mlp_step()))
    plan = lowtide.research.plan(model, allow="recompute,tile", method="microbatch", max_overhead=900, time=1)
    assert plan.fission is not None
    assert plan.fission.parts
    plan.save(plan_file)
    assert main([str(model), str(plan_file), "-o", str(out)]) == 0
    x, w = torch.randn(12, 8, dtype=torch.float64), torch.randn(8, 64, dtype=torch.float64)
    result = executable(out.read_text())["step"]([x, w])["v"]
    torch.testing.assert_close(result, w + x.T @ (x @ w).clamp(min=0))
    model.write_bytes(graph_json_bytes(random_step(4, batch=6)))
    assert main([str(model), str(plan_file), "-o", str(out)]) == 2
