import sys
from dataclasses import dataclass
from itertools import combinations
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lowtide.errors import InputError, MissingExtraError
from lowtide.executorch import MemoryPlanner, algorithm_suite, plan_memory


@dataclass
class SpecAllocResult:
    """ExecuTorch's record of that name."""

    mem_id: int
    mem_obj_id: int
    mem_offset: int


@dataclass
class MemoryAlgoResult:
    """ExecuTorch's record of that name."""

    spec_dict: dict[Any, SpecAllocResult]
    bufsizes: list[int]


class Spec:
    """What the algorithm sees of ExecuTorch's TensorSpec."""

    def __init__(self, size: int, first: int | None, last: int | None, mem_id: int | None = None, base: Any = None,
                 above: int = 0) -> None:  # fmt: skip
        self.size, self.lifetime, self.mem_id = size, [first, last], mem_id
        self.storage_base, self.storage_base_offset, self.alignment = base, above, 1

    @property
    def allocated_memory(self) -> int:
        """Bytes, rounded up to the alignment."""
        return -(-self.size // self.alignment) * self.alignment

    def realign(self, alignment: int) -> int:
        """Another alignment."""
        self.alignment = alignment
        return self.allocated_memory


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """A module of ExecuTorch's name with its two records, where ExecuTorch is not installed."""
    exir, planning = ModuleType("executorch.exir"), ModuleType("executorch.exir.memory_planning")
    planning.__dict__.update(SpecAllocResult=SpecAllocResult, MemoryAlgoResult=MemoryAlgoResult)
    monkeypatch.setitem(sys.modules, "executorch", ModuleType("executorch"))
    monkeypatch.setitem(sys.modules, "executorch.exir", exir)
    monkeypatch.setitem(sys.modules, "executorch.exir.memory_planning", planning)


@pytest.mark.usefixtures("stand_in")
def test_each_memory_is_placed_by_itself():
    """Memory 1 where none is named; sizes by memory, index 0 for constants; padding on each that is used."""
    a, b, c, d = Spec(10, 0, 1), Spec(20, 1, 2), Spec(10, 2, 3), Spec(7, 0, 3, mem_id=3)
    made = plan_memory(16, [a, b, c, d], SimpleNamespace(), None, 64)
    assert made.bufsizes == [0, 48 + 64, 0, 16 + 64]
    assert list(made.spec_dict) == [a, b, c, d]
    assert made.spec_dict[a].mem_offset == made.spec_dict[c].mem_offset
    assert [made.spec_dict[s].mem_id for s in (a, b, c, d)] == [1, 1, 1, 3]
    assert plan_memory.__name__ == "lowtide"


@pytest.mark.usefixtures("stand_in")
def test_nothing_to_place_and_bytes_that_are_taken():
    """Sizes as ExecuTorch's own algorithm gives them; what submodules took lies first."""
    assert plan_memory(16, [], SimpleNamespace(), None).bufsizes == [0, 0]
    made = plan_memory(16, [a := Spec(16, 0, 0)], SimpleNamespace(input_mem_buffer_sizes=[0, 40]), None)
    assert (made.bufsizes, made.spec_dict[a].mem_offset) == ([0, 64], 48)


@pytest.mark.usefixtures("stand_in")
def test_what_shares_a_storage_stays_there():
    """A chain of two lies at the sum of its offsets, and the storage lives as long as any of it."""
    base = Spec(64, 0, 0)
    part = Spec(32, 1, 1, base=base, above=16)
    piece = Spec(16, 5, 5, base=part, above=16)
    other = Spec(64, 3, 3)
    made = plan_memory(16, [piece, base, other, part], SimpleNamespace(), None)
    at = {s: r.mem_offset for s, r in made.spec_dict.items()}
    assert (at[part] - at[base], at[piece] - at[base]) == (16, 32)
    assert abs(at[other] - at[base]) == 64
    assert made.bufsizes == [0, 128]


@pytest.mark.usefixtures("stand_in")
def test_wrong_specs_are_refused():
    """A storage that is not planned, one that is allocated in itself, no lifetime."""
    lost = Spec(16, 0, 0, base=Spec(16, 0, 0))
    ring = Spec(16, 0, 0)
    ring.storage_base = ring
    for wrong, said in ((lost, "not planned"), (ring, "not planned"), (Spec(16, None, None), "no lifetime")):
        with pytest.raises(InputError, match=said):
            plan_memory(16, [wrong], SimpleNamespace(), None)


@pytest.mark.slow
@pytest.mark.usefixtures("stand_in")
@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 99), st.integers(0, 9), st.integers(0, 5), st.sampled_from([None, 1, 2]))),
    st.sampled_from([1, 16]),
)
def test_no_two_live_specs_share_a_byte(rows: list[tuple[int, int, int, int | None]], alignment: int):
    """As ExecuTorch's verifier checks: lifetimes inclusive, sizes rounded up, offsets aligned and inside."""
    specs = [Spec(size, first, first + more, mem_id) for size, first, more, mem_id in rows]
    made = plan_memory(alignment, specs, SimpleNamespace(), None)
    for spec, result in made.spec_dict.items():
        assert result.mem_offset % alignment == 0
        assert result.mem_offset + spec.allocated_memory <= made.bufsizes[result.mem_id]
    for one, other in combinations(specs, 2):
        a, b = made.spec_dict[one], made.spec_dict[other]
        together = one.lifetime[0] <= other.lifetime[1] and other.lifetime[0] <= one.lifetime[1]
        if a.mem_id == b.mem_id and together:
            assert (
                a.mem_offset + one.allocated_memory <= b.mem_offset
                or b.mem_offset + other.allocated_memory <= a.mem_offset
            )


def test_a_missing_executorch_is_named(monkeypatch: pytest.MonkeyPatch):
    """One message with the command that installs it."""
    monkeypatch.setitem(sys.modules, "executorch.exir.memory_planning", None)
    with pytest.raises(MissingExtraError, match=r"pip install .*executorch"):
        plan_memory(16, [], SimpleNamespace(), None)
    with pytest.raises(MissingExtraError, match=r"pip install .*executorch"):
        algorithm_suite()


def test_executorch_itself_runs_the_plan():
    """A network exported, planned, checked by ExecuTorch's verifier, and no larger than its own plan; it runs alike."""
    pytest.importorskip("executorch.exir", reason="executorch is not installed (it needs its own environment)")
    torch = pytest.importorskip("torch")
    from executorch.exir import ExecutorchBackendConfig, to_edge  # type: ignore[import-not-found]
    from executorch.exir.memory_planning import Verifier  # type: ignore[import-not-found]
    from executorch.exir.passes import MemoryPlanningPass  # type: ignore[import-not-found]

    class Branches(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            wide = torch.cat([x, x, x, x], 1)
            narrow = wide.sum(1, keepdim=True)
            other = torch.cat([x * 2, x, x + 1], 1)
            return (narrow + other.mean(1, keepdim=True)).relu(), other[:, :2].sigmoid()

    inputs = (torch.randn(1, 64),)
    sizes, outputs = {}, {}
    for name, planning in (("own", MemoryPlanningPass()), ("lowtide", MemoryPlanningPass(algorithm_suite()))):
        edge = to_edge(torch.export.export(Branches(), inputs))
        program = edge.to_executorch(ExecutorchBackendConfig(memory_planning_pass=planning))
        graph = program.exported_program().graph_module
        signature = program.exported_program().graph_signature
        checker = Verifier(graph, True, True, True, signature)
        assert checker.verify_storage_reuse() >= 0
        checker.verify_graph_input_output()
        sizes[name] = sum(graph.meta["non_const_buffer_sizes"])
        runtime = pytest.importorskip("executorch.runtime").Runtime.get()
        outputs[name] = runtime.load_program(program.buffer).load_method("forward").execute(list(inputs))
    assert sizes["lowtide"] <= sizes["own"]
    for mine, theirs in zip(outputs["lowtide"], outputs["own"], strict=True):
        assert torch.equal(mine, theirs)
    assert MemoryPlanner(1.0).seconds == 1.0
