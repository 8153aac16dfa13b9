"""Tests mirror the rooms: each module of lowtide has its file at the same place below `tests`, or a line here."""

from __future__ import annotations

from pathlib import Path

import pytest

import lowtide

SOURCE = Path(lowtide.__file__).parent
TESTS = Path(__file__).parent

ELSEWHERE = {
    # the parts of one thing, which is tested as a whole
    "allocate/banks/test_memories.py": "allocate/banks/assignment allocate/banks/bank",
    "allocate/test_greedy.py": "allocate/squeaky",
    "read/onnx/test_reader.py": "read/onnx/dims read/onnx/proto read/onnx/shapes read/onnx/structure read/onnx/types "
    "read/onnx/values",
    "read/pt2/test_reader.py": "read/pt2/arguments read/pt2/schema read/pt2/sizes read/aten/build read/aten/trace "
    "read/aten/views",
    "read/tflite/test_reader.py": "read/tflite/dependencies read/tflite/model read/tflite/schema read/tflite/wire",
    "rules/onnxruntime/test_scratch.py": "rules/onnxruntime/einsum rules/onnxruntime/recurrent",
    "analyse/test_storage.py": "analyse/model",
    "schedule/test_order.py": "schedule/greedy",
    "schedule/test_registry.py": "schedule/method",
    "schedule/test_serenity.py": "schedule/serenity_parts",
    "schedule/zhong/test_method.py": "schedule/zhong/cut schedule/zhong/partition schedule/zhong/problem",
    "schedule/zhong/test_ilp.py": "schedule/zhong/cumulative schedule/zhong/program",
    "spill/cosma/test_method.py": "spill/cosma/addresses spill/cosma/divide spill/cosma/program spill/cosma/sizes "
    "spill/cosma/solution spill/cosma/solve spill/cosma/tensors",
    "spill/test_baselines.py": "spill/online spill/orders",
    "spill/test_lead.py": "spill/dma",
    "spill/test_phases.py": "spill/bound",
    "spill/test_search.py": "spill/answer spill/core_problem spill/joint spill/mend spill/place spill/problem",
    "verify/check/test_plan.py": "verify/report verify/check/bound verify/check/layout verify/check/memory "
    "verify/check/order verify/check/replay",
    "zoo/test_zoo.py": "zoo/amoebanet zoo/amoebanet_d zoo/builder zoo/cells zoo/darts zoo/darts_mobile zoo/hrnet "
    "zoo/nasnet zoo/network zoo/pnasnet zoo/randwire zoo/randwire_cifar zoo/swiftnet zoo/training zoo/transformer "
    "zoo/unet",
    "zoo/test_onnx.py": "zoo/mixing zoo/values",
    # what an op means: each row through its proof, each family through its op in numpy
    "ops/test_families.py": "ops/rearrange ops/windows",
    "ops/test_meaning.py": "ops/forms ops/node",
    "ops/onnx/test_rows.py": "ops/onnx/norms ops/onnx/pieces ops/onnx/products ops/onnx/resize ops/onnx/windows",
    "ops/aten/test_rows.py": "ops/aten/attention ops/aten/backward ops/aten/norms ops/aten/pieces ops/aten/products "
    "ops/aten/windows run/probe_aten",
    "ops/tflite/test_rows.py": "ops/tflite/pieces ops/tflite/products ops/tflite/windows run/probe_tflite",
    "run/test_probe.py": "run/probe_feeds run/probe_nodes run/probe_onnx",
    "api/test_probing.py": "cli/probe report/probing run/probing",
    # a rule and the runtime that it is about
    "rules/litert/test_rule.py": "runtimes/litert",
    "rules/litert/test_temporaries.py": "run/tflite_process",
    "rules/tflm/test_overlap.py": "bench/tflite_kinds bench/tflite_overlap",
    "runtimes/test_onnxruntime.py": "run/ort_session run/ort_shapes verify/check/runtime_arena "
    "write/onnxruntime_snippet api/optimizing",
    "runtimes/tflm/test_target.py": "rules/tflm/rule bench/tflite_net api/tflm",
    "runtimes/tflm/test_persistent.py": "run/tflite runtimes/tflm/planner",
    "run/test_torch.py": "bench/torch_nets",
    # what one makes and the other checks or prints
    "spill/test_remat.py": "verify/check/rewrites",
    "api/test_sharing.py": "verify/check/shared",
    "verify/check/test_moves.py": "write/command_stream api/spilling",
    "verify/check/test_conflict.py": "report/conflict",
    "report/test_allocation_table.py": "write/arena_map",
    "api/test_surveys.py": "report/comparison",
    "cli/test_memory.py": "report/spilling spill/registry",
    # the front door, through its commands
    "cli/test_bench.py": "cli/values",
    "cli/test_commands.py": "plan cli/parser api/models api/writing",
    "cli/test_process.py": "__main__",
    "cli/test_exports.py": "api/exports",
    "verify/check/test_banks.py": "api/banks api/explaining",
    "api/test_planning.py": "api/checking",
    "api/test_placing.py": "api/offsets",
    # the benchmarks, through their suites
    "bench/test_allocation.py": "bench/arena_tables bench/peers bench/placing",
    "bench/test_ort.py": "bench/models run/optimise run/random_weights",
    "bench/test_sampling.py": "bench/drawing bench/timing",
    "bench/test_schedule.py": "bench/machine bench/measure bench/networks bench/parts bench/schedule_tables "
    "zoo/published/cases",
    "bench/test_spilling.py": "bench/off_chip bench/spill_cells bench/spill_tables",
    "bench/test_suite.py": "bench/options bench/output bench/registry bench/tables",
    "bench/test_tflm.py": "bench/tflite_rows",
}
"""Test file to the modules, without their ending, that it reaches; most of them through what they are a part of."""

PLACE_OF = {module: file for file, modules in ELSEWHERE.items() for module in modules.split()}


def _modules() -> list[str]:
    paths = (path.relative_to(SOURCE).with_suffix("") for path in SOURCE.rglob("*.py"))
    return sorted(str(path) for path in paths if path.name != "__init__")


def _mirrored(module: str) -> Path:
    path = Path(module)
    return TESTS / path.parent / f"test_{path.name}.py"


@pytest.mark.parametrize("module", _modules())
def test_every_module_has_its_tests(module: str):
    """At the mirrored place, or in the file that the table names, and never in both."""
    assert _mirrored(module).exists() != (module in PLACE_OF), f"{_mirrored(module)} or a line in {Path(__file__).name}"


def test_the_table_is_not_stale():
    """Every file and module in it is there, each module once."""
    listed = [module for modules in ELSEWHERE.values() for module in modules.split()]
    assert set(listed) <= set(_modules())
    assert len(listed) == len(set(listed))
    assert [file for file in ELSEWHERE if not (TESTS / file).exists()] == []


def test_every_test_file_is_of_a_room():
    """Folders of tests are folders of lowtide, but for the core and what tests share."""
    rooms = {path.relative_to(SOURCE) for path in SOURCE.rglob("*") if path.is_dir()}
    for path in TESTS.rglob("test_*.py"):
        folder = path.relative_to(TESTS).parent
        assert folder in rooms | {Path(), Path("core")}, path
