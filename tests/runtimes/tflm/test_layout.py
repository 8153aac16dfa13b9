"""Sizes of structs by their fields, against ctypes and against sizeof in builds of TFLM."""

from __future__ import annotations

import ctypes
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowtide.runtimes.tflm.builds import BITS_32, I386, PIP, SHORT_ENUMS, X86_64, Build, build_for
from lowtide.runtimes.tflm.kernel_data import DATA, OPTIONS
from lowtide.runtimes.tflm.layout import Abi, size_of
from lowtide.target import resolve

LETTERS = {
    "p": ctypes.c_void_p, "i": ctypes.c_int32, "h": ctypes.c_int16, "b": ctypes.c_int8, "w": ctypes.c_int64,
    "e": ctypes.c_int32,
}  # fmt: skip
RESULTS = Path(__file__).parents[3] / "packages/research/results/tflm-32bit.json"


@given(st.lists(st.one_of(st.sampled_from("pihbwe"), st.text("pihbwe", min_size=1, max_size=4)), min_size=1))
def test_this_machine_agrees(fields: list[str]):
    """Structs, and structs inside them, as the C compiler of this machine lays them out."""
    members = []
    for i, field in enumerate(fields):
        inner = [(f"m{k}", LETTERS[letter]) for k, letter in enumerate(field)]
        members.append((f"f{i}", type("Inner", (ctypes.Structure,), {"_fields_": inner})))
    struct = type("Whole", (ctypes.Structure,), {"_fields_": members})
    here = Abi(ctypes.sizeof(ctypes.c_void_p), ctypes.alignment(ctypes.c_int64))
    layout = "".join(f"({field})" for field in fields)
    assert size_of(layout, here) == (ctypes.sizeof(struct), ctypes.alignment(struct))


def test_counts_and_compilers():
    """A number repeats what follows; compilers differ in pointers, in what int64_t is aligned to, and in enums."""
    assert size_of("3(bi)h", X86_64) == size_of("(bi)(bi)(bi)h", X86_64) == (28, 4)
    assert [size_of("iw", abi) for abi in (X86_64, BITS_32, I386)] == [(16, 8), (16, 8), (12, 4)]
    assert [size_of("pe", abi)[0] for abi in (X86_64, BITS_32, SHORT_ENUMS)] == [16, 8, 8]
    assert [size_of("2eb", abi)[0] for abi in (BITS_32, SHORT_ENUMS)] == [12, 3]


def test_every_layout_is_one():
    """All of the tables, under every compiler's rules; none is larger where enums are smaller."""
    for layout in (*OPTIONS.values(), *DATA.values()):
        sizes = [size_of(layout, abi)[0] for abi in (X86_64, BITS_32, I386, SHORT_ENUMS)]
        assert min(sizes) > 0
        assert sizes[0] >= sizes[1] >= max(sizes[2:])


@pytest.mark.skipif(not RESULTS.exists(), reason="needs packages/research/results, which an installed package has not")
@pytest.mark.parametrize(("name", "abi"), [("32-reference", I386), ("64-reference", X86_64)])
def test_sizeof_in_builds(name: str, abi: Abi):
    """What lies in every arena, as compilers say."""
    lines = json.loads(RESULTS.read_text())["sizeof"][name]
    seen = {line.split()[0]: tuple(map(int, line.split()[1:])) for line in lines}
    plain, recording = Build(abi, False, False), Build(abi, True, False)
    arena, planner, allocator, _ = plain.allocators
    assert arena == seen["tflite::SingleArenaBufferAllocator"]
    assert planner == seen["tflite::GreedyMemoryPlanner"]
    assert allocator == seen["tflite::MicroAllocator"]
    assert recording.allocators[0] == seen["tflite::RecordingSingleArenaBufferAllocator"]
    assert recording.allocators[2] == seen["tflite::RecordingMicroAllocator"]
    assert plain.subgraph == seen["tflite::SubgraphAllocations"]
    assert plain.node == seen["tflite::NodeAndRegistration"]
    assert plain.handle == seen["tflite::ScratchBufferHandle"]
    assert plain.request == seen["tflite::internal::ScratchBufferRequest"]
    assert plain.record == seen["tflite::AllocationInfo"]
    assert plain.eval_tensor == seen["TfLiteEvalTensor"]
    assert plain.tensor == seen["TfLiteTensor"]
    assert plain.quantisation == seen["TfLiteAffineQuantization"]


def test_the_build_of_a_target():
    """64 bits are pip's unless more is said; 32 bits are firmware's."""
    assert build_for(resolve("tflm")) == PIP
    assert build_for(resolve("tflm,pointer=32")) == Build(BITS_32, False, False)
    assert build_for(resolve("tflm,pointer=32,enums=short")).abi == SHORT_ENUMS
    assert build_for(resolve("tflm,interpreter=plain")) == Build(X86_64, False, False)
    assert build_for(resolve("tflm,kernels=cmsis_nn,simd=mve,pointer=32")) == Build(
        BITS_32, False, False, "cmsis_nn", "mve"
    )
