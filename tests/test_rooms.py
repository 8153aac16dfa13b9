"""Tests mirror the rooms: each module of lowtide has its file at the same place below `tests`, or a line here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

import lowtide
import lowtide_research

TESTS = Path(__file__).parent

ELSEWHERE = {
    # the parts of one thing, which is tested as a whole
    "allocate/banks/test_memories.py": "allocate/banks/assignment allocate/banks/bank",
    "allocate/test_greedy.py": "allocate/squeaky",
    "read/onnx/test_reader.py": "read/onnx/dims read/onnx/proto read/onnx/shapes read/onnx/structure "
    "read/onnx/types read/onnx/values",
    "read/hlo/test_reader.py": "read/hlo/text",
    "read/onnx/test_propagate.py": "read/onnx/forward",
    "api/test_size_table.py": "cli/size_table report/size_table",
    "test_imports.py": "research api/public",
    "api/sweeps/test_sweeping.py": "api/sweeps/rows api/sweeps/workers cli/sweep",
    "api/test_budgets.py": "api/changes cli/summary",
    "cli/test_inputs.py": "cli/stdin",
    "read/pt2/test_reader.py": "read/pt2/arguments read/pt2/schema read/aten/trace read/aten/views",
    "read/tflite/test_reader.py": "read/tflite/dependencies read/tflite/model read/tflite/schema read/tflite/wire",
    "rules/onnxruntime/test_scratch.py": "rules/onnxruntime/einsum",
    "analyse/test_storage.py": "analyse/model",
    "schedule/test_order.py": "schedule/greedy",
    "schedule/test_registry.py": "schedule/method",
    "api/moves/test_cut_spilling.py": "report/cuts verify/check/streams",
    "spill/test_search.py": "spill_plan spill/one_order spill/answer spill/joint spill/repair spill/problem",
    "verify/check/test_plan.py": "verify/report verify/check/bound verify/check/layout verify/check/memory "
    "verify/check/order verify/check/replay",
    "transform/test_alias.py": "transform/alias_candidates",
    "transform/test_lower.py": "transform/decision",
    "api/moves/test_solving.py": "api/moves/all_transformations api/moves/nest_and_alias",
    "test_target.py": "toml_fields rules/plain",
    "optimize/test_region_bound.py": "optimize/last_results verify/check/last_results",
    "api/moves/test_fissioning.py": "optimize/step_search fission_plan cost/labelled optimize/step_regions "
    "api/moves/merging api/moves/step_plans",
    "optimize/test_joint_bound.py": "api/moves/bounding verify/check/joint_bound",
    "optimize/test_recut.py": "api/moves/cut_orders",
    "api/default/test_default.py": "api/default/fit api/default/onnx api/default/request "
    "api/optimized run/optimise_process comparison",
    # what an op means: each row through its proof, each family through its op in numpy
    "ops/test_families.py": "ops/rearrange ops/windows",
    "ops/test_meaning.py": "ops/forms ops/node",
    "write/test_onnx_blocked.py": "ops/onnx/blocked write/lean",
    "ops/onnx/test_rows.py": "ops/onnx/norms ops/onnx/movement ops/onnx/products ops/onnx/resize ops/onnx/windows",
    "ops/aten/test_rows.py": "ops/aten/attention ops/aten/backward ops/aten/norms ops/aten/movement ops/aten/products "
    "ops/aten/windows run/probe_aten",
    "ops/tflite/test_rows.py": "ops/tflite/movement ops/tflite/products ops/tflite/windows run/probe_tflite",
    "run/test_probe.py": "run/probe_feeds run/probe_nodes run/probe_onnx",
    "api/test_probing.py": "run/probing",
    # a rule and the runtime that it is about
    "rules/litert/test_rule.py": "runtimes/litert",
    "rules/litert/test_temporaries.py": "run/tflite_process",
    "runtimes/test_onnxruntime.py": "run/ort_session verify/check/runtime_arena",
    "runtimes/tflm/test_target.py": "rules/tflm/rule",
    "rules/tflm/test_libraries.py": "rules/tflm/flexbuffer",
    "runtimes/tflm/test_persistent.py": "runtimes/tflm/builds runtimes/tflm/planner",
    "run/test_timing.py": "run/fresh_process run/random_weights",
    "run/test_loop_arena.py": "run/tensor_values",
    # what one makes and the other checks or prints
    "spill/test_remat.py": "verify/check/rewrites",
    "verify/check/test_cut.py": "certificates",
    "report/test_torch.py": "run_reports",
    "api/test_sharing.py": "verify/check/shared",
    "verify/check/test_moves.py": "write/command_stream",
    "verify/check/test_conflict.py": "report/conflict",
    "analyse/test_inspect.py": "report/inspection",
    "report/test_allocation_table.py": "write/arena_map",
    "api/test_surveys.py": "api/comparing report/comparison",
    "cli/test_memory.py": "spill/registry spill/words",
    "api/test_job.py": "api/problem api/goals/fast_memory api/goals/one_arena api/goals/several_memories",
    "api/test_two_arenas.py": "api/goals/two_arenas",
    "runtimes/test_executorch.py": "executorch",
    "runtimes/test_registry.py": "runtimes/base runtimes/tflm/offline",
    "pytorch/test_step.py": "torch/step_options torch/meter torch/optimizer torch/planning torch/step torch/step_plan",
    "pytorch/test_capture.py": "torch/as_eager torch/capture torch/cost",
    "pytorch/test_rows.py": "torch/rows torch/readings torch/slices torch/cutting torch/costed",
    "pytorch/test_along.py": "torch/along",
    "pytorch/test_eager.py": "torch/eager torch/eager_run torch/screen",
    "pytorch/test_habits.py": "torch/any_optimizer torch/batch torch/closed torch/flat_step torch/loss",
    "pytorch/test_frozen.py": "torch/frozen",
    "pytorch/test_spent.py": "torch/spent",
    "pytorch/test_measured_step.py": "torch/measured_step",
    "pytorch/test_curve.py": "torch/curve",
    "pytorch/test_work.py": "torch/work",
    "pytorch/test_mode.py": "torch/mode",
    "pytorch/test_meta.py": "torch/meta",
    "pytorch/test_storages.py": "torch/generate torch/program torch/storages",
    "pytorch/test_sequence.py": "torch/search torch/sequence",
    "pytorch/test_swap.py": "torch/swap",
    "pytorch/test_cuda.py": "torch/cuda_meter",
    "pytorch/test_record.py": "torch/record",
    "pytorch/test_partition.py": "torch/partition",
    # the front door, through its commands
    "api/test_profiles.py": "profiles",
    "api/test_reporting.py": "cli/report",
    "cli/test_commands.py": (
        "plan cli/keywords cli/values cli/parser cli/tree cli/lines api/models report/columns version"
    ),
    "transform/test_clone.py": "transform/change",
    "transform/test_siblings.py": "transform/sibling_ops",
    "transform/test_statistics.py": "transform/passed",
    "optimize/test_passes.py": "optimize/checkpoints optimize/segments",
    "optimize/test_handed.py": "transform/hand_on",
    "api/moves/test_multi_pass.py": "verify/check/sums",
    "verify/check/test_sections.py": "verify/check/replaced_ops",
    "optimize/recompute/test_swap_bound.py": "verify/check/price_bound",
    "transform/test_parts.py": "transform/stripes transform/part_builder transform/cut ops/part ops/piece",
    "transform/test_seams.py": "transform/seam_parts",
    "optimize/test_regions.py": "optimize/workspace",
    "optimize/test_loops.py": (
        "optimize/loop_flow optimize/loop_rings transform/loop_graph transform/loop_growth transform/loops"
    ),
    "cost/test_model.py": "cost/signature",
    "api/test_measuring.py": "report/measuring run/node_seconds run/session_process run/session_seconds",
    "api/test_curve.py": "cli/curve report/curve optimize/curve",
    "verify/check/test_loops.py": "api/moves/looping verify/check/loop_behind verify/check/loop_play",
    "verify/check/test_rounds.py": "api/moves/peak_rounds",
    "verify/check/test_parts.py": "rewrites api/moves/cutting api/moves/cut_search "
    "api/moves/decisions verify/check/part_rows",
    "write/test_onnx_parts.py": "write/onnx_rows",
    "transform/test_tflite_parts.py": "ops/tflite/part transform/tflite_file",
    "write/test_tflite_parts.py": "write/flatbuffer_head",
    "api/moves/test_swapping.py": "verify/check/swaps",
    "cli/test_process.py": "__main__",
    "cli/test_exports.py": "api/exports",
    "verify/check/test_banks.py": "api/banks allocate/banks/orders allocate/banks/places",
    "api/test_planning.py": "api/answer api/checking api/fitting api/running",
    "api/test_placing.py": "allocate/placed",
    "emit/test_cmsis_nn.py": "emit/cmsis_nn/",
    "emit/test_layouts.py": "emit/layouts/",
    "emit/test_memories.py": "emit/ends",
    "emit/test_operators.py": (
        "emit/bodies emit/elementwise emit/fixed_point emit/formats emit/parts emit/reals emit/shapes emit/transposed "
        "emit/variables emit/views emit/windows"
    ),
    "emit/test_project.py": (
        "emit/kernel emit/kernels emit/places emit/schedule emit/templates emit/weights api/emitting cli/emit"
    ),
    "emit/test_qemu.py": "emit/qemu/ api/emulating report/board_runs",
    "emit/test_sound.py": "emit/recurrent emit/signals",
    "optimize/recompute/test_rotor.py": "optimize/recompute/blocks optimize/recompute/method "
    "optimize/recompute/registry",
}
"""Test file to the modules, without their ending, or folders that it reaches; most through what they are a part of."""

OF_RESEARCH = {
    "schedule/test_serenity.py": "schedule/serenity_parts",
    "schedule/test_waists.py": "schedule/incremental",
    "schedule/zhong/test_method.py": "schedule/zhong/cut schedule/zhong/problem",
    "schedule/zhong/test_ilp.py": "schedule/zhong/cumulative schedule/zhong/program",
    "spill/cosma/test_method.py": (
        "spill/cosma/addresses spill/cosma/divide spill/cosma/program spill/cosma/sizes spill/cosma/solution "
        "spill/cosma/solve spill/cosma/tensors"
    ),
    "zoo/test_zoo.py": (
        "zoo/amoebanet_d zoo/builder zoo/cells zoo/darts_mobile zoo/hrnet "
        "zoo/network zoo/randwire zoo/randwire_cifar zoo/swiftnet zoo/training zoo/transformer "
        "zoo/segformer zoo/mcunet zoo/unet zoo/vae zoo/vovnet zoo/attention zoo/convnets zoo/nasnet_mobile zoo/video"
    ),
    "zoo/test_magis.py": "zoo/step_net",
    "zoo/test_onnx.py": "zoo/mixing zoo/values",
    "rules/tflm/test_overlap.py": "bench/tflite_kinds bench/tflite_overlap",
    "runtimes/tflm/test_target.py": "bench/tflite_net",
    "pytorch/test_step.py": "bench/train_nets",
    "bench/test_train_known.py": "bench/activation_budget",
    "recompute/test_baselines.py": (
        "recompute/checkmate recompute/chen recompute/dropping recompute/fastsa recompute/torchtitan"
    ),
    "recompute/test_magis.py": "recompute/magis/",
    "bench/test_magis.py": "bench/magis_steps",
    "torch_code/test_source.py": "torch_code/kernels torch_code/__main__",
    "bench/test_allocation.py": "bench/placing",
    "bench/test_parts.py": "bench/machine bench/measure zoo/published/cases",
    "contest/test_contest.py": "contest/bound contest/cover contest/evaluate contest/plan contest/prices "
    "contest/reader",
    "bench/test_spilling.py": "bench/off_chip bench/spill_cells bench/spill_tables",
    "bench/test_suite.py": "bench/options bench/tables",
    "reproduce/test_suite.py": "reproduce/",
    "sat/test_refute.py": "sat/formula sat/orders sat/placements",
}
"""The same of the package lowtide-research; some of its modules are tested among the product's tests."""


@dataclass(frozen=True)
class Package:
    """Sources and tests of a package, and which test file covers a module that has none of its own."""

    source: Path
    tests: Path
    elsewhere: Mapping[str, str]

    def modules(self) -> list[str]:
        """Modules by their path, without their ending."""
        paths = (path.relative_to(self.source).with_suffix("") for path in self.source.rglob("*.py"))
        return sorted(str(path) for path in paths if path.name != "__init__")

    def mirrored(self, module: str) -> Path:
        """The test file at a module's place."""
        path = Path(module)
        return self.tests / path.parent / f"test_{path.name}.py"

    def is_listed(self, module: str) -> bool:
        """Whether the table has a module, or its folder."""
        return any(_covers(entry, module) for listed in self.elsewhere.values() for entry in listed.split())


def _covers(listed: str, module: str) -> bool:
    return module.startswith(listed) if listed.endswith("/") else module == listed


PRODUCT = Package(Path(lowtide.__file__).parent, TESTS, ELSEWHERE)
RESEARCH = Package(Path(lowtide_research.__file__).parent, TESTS.parent / "packages/research/tests", OF_RESEARCH)
both = pytest.mark.parametrize("package", [PRODUCT, RESEARCH], ids=["product", "research"])


@both
def test_every_module_has_its_tests(package: Package):
    """At the mirrored place, or in the file that the table names."""
    missing = [m for m in package.modules() if not package.mirrored(m).exists() and not package.is_listed(m)]
    assert not missing, f"give each its tests/PACKAGE/test_MODULE.py, or a line in {Path(__file__).name}: {missing}"


@pytest.mark.slow
@both
def test_the_table_is_not_stale(package: Package):
    """Every file and module in it is there, and no module has its mirrored file as well."""
    listed, there = [entry for modules in package.elsewhere.values() for entry in modules.split()], package.modules()
    gone = [entry for entry in listed if not any(_covers(entry, module) for module in there)]
    assert (gone, [entry for entry in listed if listed.count(entry) > 1]) == ([], [])
    assert [entry for entry in listed if not entry.endswith("/") and package.mirrored(entry).exists()] == []
    assert [f for f in package.elsewhere if not (package.tests / f).exists() and not (TESTS / f).exists()] == []


@both
def test_every_test_file_is_of_a_room(package: Package):
    """Folders of tests are folders of the package, but for the core and what tests share.

    The room `torch` is tested in `pytorch`: a folder of its name on the tests' path would pass for the package.
    """
    rooms = {path.relative_to(package.source) for path in package.source.rglob("*") if path.is_dir()}
    for path in package.tests.rglob("test_*.py"):
        folder = path.relative_to(package.tests).parent
        assert folder in rooms | {Path("pytorch"), Path(), Path("core")}, path
