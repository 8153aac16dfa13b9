"""What a build of TFLM puts into its arena: the sizes of its structs, by compiler, interpreter and kernel library.

Field by field from tflite-micro at commit 90b983c; `bench/tflm32` holds them against sizeof in builds of that commit.
The pip package differs: it is made with USE_TFLM_COMPRESSION, and of a later commit, whose options of FULLY_CONNECTED
are larger (seen in what it reports of its arena; tests compare that with what is worked out here).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from lowtide.rules.tflm.cmsis_nn import Simd
from lowtide.rules.tflm.libraries import Library
from lowtide.runtimes.tflm.layout import Abi, size_of
from lowtide.target import Target

X86_64 = Abi(8)
I386 = Abi(4, wide=4)
BITS_32 = Abi(4)
"""Arm, RISC-V, Xtensa (ESP32) and WebAssembly."""
SHORT_ENUMS = Abi(4, enum=1)  # arm-none-eabi-gcc as it comes: -fshort-enums

REQUESTS_PER_OP = 12  # scratch requests that TFLM holds room for while an operator is prepared
PLANNER_BUFFER = 40  # bytes of `GreedyMemoryPlanner` for each buffer that it places


@dataclass(frozen=True)
class Build:
    """A build of TFLM, and how it is used.

    `recording`: with RecordingMicroAllocator, which pip's interpreter has, instead of a plain MicroInterpreter. `pip`:
    the package's own build. `kernels`, `simd`: whose kernels, and for which instructions. `two_arenas`: with an arena
    for the head and one for the tail, as `MicroAllocator::Create` takes them, instead of one for both.
    """

    abi: Abi = X86_64
    recording: bool = True
    pip: bool = True
    kernels: Library = "reference"
    simd: Simd = "dsp"
    two_arenas: bool = False

    def size(self, layout: str) -> tuple[int, int]:
        """Size and alignment of a struct (see `layout.py`)."""
        return size_of(layout, self.abi)

    @property
    def place(self) -> str:
        """The build without its kernels, for screens."""
        how = "RecordingMicroAllocator" if self.recording else "a plain MicroInterpreter"
        how += " and two arenas" if self.two_arenas else ""
        where = "pip's build for x86-64" if self.pip else f"{8 * self.abi.pointer}-bit builds with {how}"
        return f"{where}{' and short enums' if self.abi.enum == 1 else ''}"

    @property
    def words(self) -> str:
        """The build, for screens."""
        library = "the reference kernels"
        if self.kernels == "cmsis_nn":
            library = f"CMSIS-NN ({self.simd})"
        elif self.kernels == "esp_nn":
            library = f"ESP-NN ({self.simd if self.simd.startswith('esp') else 'C'})"
        return f"{self.place}, with {library}"

    @cached_property
    def allocators(self) -> tuple[tuple[int, int], ...]:
        """What the interpreter makes of itself before it looks at a model, each with size and alignment."""
        if self.two_arenas:
            return tuple(self.size(layout) for layout in ("4p", "6pib", "p2i4p2ipb", "p4pb3p", "2p"))
        memory, allocator = "2p5ppi", "p4pb3p"
        if self.recording:
            memory, allocator = memory + "4p", allocator + ("25p" if self.pip else "22p")
        return tuple(self.size(layout) for layout in (memory, "p2i4p2ipb", allocator, "2p"))

    @cached_property
    def subgraph(self) -> tuple[int, int]:
        """`SubgraphAllocations`."""
        return self.size("3p" if self.pip else "2p")

    @cached_property
    def eval_tensor(self) -> tuple[int, int]:
        """`TfLiteEvalTensor`."""
        return self.size("2pe")

    @cached_property
    def node(self) -> tuple[int, int]:
        """`NodeAndRegistration`."""
        return self.size("(6pi)p")

    @cached_property
    def handle(self) -> tuple[int, int]:
        """`ScratchBufferHandle`."""
        return self.size("p")

    @cached_property
    def request(self) -> tuple[int, int]:
        """`ScratchBufferRequest`."""
        return self.size("p2i")

    @cached_property
    def record(self) -> tuple[int, int]:
        """`AllocationInfo`."""
        return self.size("2p3ib")

    @cached_property
    def tensor(self) -> tuple[int, int]:
        """`TfLiteTensor`."""
        return self.size("(ep)(2i)3p2eb")

    @cached_property
    def quantisation(self) -> tuple[int, int]:
        """`TfLiteAffineQuantization`."""
        return self.size("2pi")


PIP = Build()  # the package tflite-micro of 2026-10-23 for x86-64, with the reference kernels


def build_for(target: Target) -> Build:
    """The build that a target's fields speak of. For kernels that are not named: with the reference ones."""
    recording = target.interpreter == "recording" or (target.interpreter == "auto" and target.pointer == 64)
    abi = X86_64 if target.pointer == 64 else SHORT_ENUMS if target.enums == "short" else BITS_32
    kernels: Library = "reference" if target.kernels == "any" else target.kernels
    pip = recording and target.pointer == 64 and kernels == "reference"
    return Build(abi, recording, pip, kernels, target.simd)


def two_arena_build(target: Target) -> Build:
    """The same with an arena for the head and one for the tail; an allocator with two arenas records nothing."""
    return replace(build_for(target), recording=False, pip=False, two_arenas=True)
