"""Targets: what a runtime counts and allows.

A target answers questions about one op at a time; what follows for storages and orders is worked out by
`lowtide.analyse.storage` for the planners and, apart from it, by `lowtide.verify`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Literal, get_args

from lowtide.arguments import check_fields
from lowtide.errors import InputError
from lowtide.files import MOST_SETTINGS_BYTES, read_all
from lowtide.graph import Graph, Kind, Op, Tensor
from lowtide.names import did_you_mean
from lowtide.ops.folding import run_folded
from lowtide.rules import RULES, Rule, plain
from lowtide.rules.tflm.cmsis_nn import Simd
from lowtide.rules.tflm.libraries import Library
from lowtide.rules.tflm.rule import TflmRule
from lowtide.sizes import round_up
from lowtide.toml_fields import fields_toml

InPlace = Literal["never", "first", "any"]
Constants = Literal["never", "while_used", "always"]
Overlap = Literal["never", "in_place", "diagonal"]
SlicePlacement = Literal["copied", "contiguous", "strided"]
Layout = Literal["file", "channels_last", "either"]
Chains = Literal["apart", "fused", "prologue"]
Interpreter = Literal["auto", "plain", "recording"]
Enums = Literal["int", "short"]
_TFLM_FIELDS: Mapping[str, Sequence[object]] = {
    "kernels": get_args(Library),
    "simd": get_args(Simd),
    "pointer": (64, 32),
    "interpreter": get_args(Interpreter),
    "enums": get_args(Enums),
}
"""Fields that rule tflm alone knows, with their values."""

TORCH = "torch"
"""Name of the built-in target of eager kernels; no other target may have it (`read_toml`)."""

LOOP_TYPE = "RowLoop"
"""Type of the op in the place of a loop; no format has it. Its attribute ``behind`` says of which inputs its first
output may share bytes, and how far below each it has to begin: it writes only bytes that were read before."""
MAX_ALIGNMENT = 2**30


@dataclass(frozen=True)
class Target:
    """Memory rules of a runtime. The fields are the keys of a target's TOML file.

    Attributes
    ----------
    name
        Shown in every result.
    views
        Whether view ops share their first input's storage (else they copy).
    in_place
        ``"never"``; ``"first"``: only over the first non-constant input of equal byte size (HMCOS's rule);
        ``"any"``: over any input of equal byte size that is not broadcast.
    in_place_reshape
        Whether a reshape-like op that is no view may take over its input.
    in_place_batch_normalisation
        Whether an inference batch normalisation may run in place.
    in_place_normalisation
        Whether a softmax, or a normalisation with statistics of its own (layer, group, instance), may run in place.
    pieces
        With `--allow alias`, where an operand of a concat may be allocated inside its result, and the result of a slice
        or a split inside its source: ``"copied"``: nowhere; ``"contiguous"``: where its bytes are one range there;
        ``"strided"``: also row by row, for a code generator whose kernels read and write with a pitch.
    overwrite_inputs
        Whether a graph input may be overwritten in place; its memory is free after its last use in any case.
    keep_inputs
        Whether graph inputs stay to the end, for a caller that reruns the model without setting them.
    alignment
        Offsets are multiples of this many bytes.
    constants
        Whether constants are counted: ``"never"``; ``"while_used"``: while an op that reads them runs; or ``"always"``.
    view_types, elementwise_types
        Further op types to treat as views or as elementwise.
    count_inputs
        Whether graph inputs are counted; else they are the caller's memory, and cost nothing.
    overlap
        How far a kernel's output may lie over an input that dies, as a runtime's rule says, or without one a kernel
        that makes rows of the leading dimension in turn (`lowtide.ops.raster`): ``"never"``; ``"in_place"``: exactly
        over one of equal size; ``"diagonal"``: also in part, over bytes that have been read.
    layout
        The layout of images in memory: ``"file"``: as the graph has them; ``"channels_last"``, for ONNX: the channels
        of a pixel are adjacent; ``"either"``: as ``"channels_last"``, except that a tensor that is allocated inside
        another one, or that holds others, keeps the layout of the graph. It is for kernels that read and write both.
    chains
        ``"fused"``: a chain of elementwise ops is one kernel, and the tensors between its ops take no memory;
        ``"prologue"``: a chain is also fused into the convolution, product or pool that reads it; ``"apart"``: each op
        writes its result.
    persistent
        Names of tensors that keep their memory from before the first step to after the last, with nothing else in it: a
        state that the next inference finds, or an input or output that the application holds on to.
    double_buffered
        Names of tensors that are persistent and have room for two, one aligned size apart: the application fills or
        empties one while the network works on the other.
    fixed
        ``TENSOR=OFFSET`` each, in bytes: the offset of a tensor in the arena, or in the first memory that it may be in.
        It is never written over another one.
    max_tensor
        Bytes that a single tensor may have, as an accelerator limits its buffers; 0: any number. Sizes are not rounded
        up to the alignment. Graph inputs, graph outputs and constants are the caller's, and may be larger.
    folds
        Whether ops that read constants only are computed beforehand; else they run, and their outputs count.
    rule
        Name of a runtime's own rule in `lowtide.rules`, which then decides about views and in-place instead of the
        table of op kinds; none if empty.
    kernels
        For rule ``"tflm"``: whose kernels run: ``"reference"``, which pip ships; ``"cmsis_nn"``; ``"esp_nn"``; or
        ``"any"`` of them: only what holds under all may overlap, and what is needed is enough for each. What has not
        been reviewed of a library may not.
    simd
        The instructions that a library is compiled for, on which its scratch depends. Kernels ``"cmsis_nn"``:
        ``"none"`` (Cortex-M0, M3), ``"dsp"`` (Cortex-M4, M7, M33) or ``"mve"`` (Cortex-M55, M85). Kernels ``"esp_nn"``:
        ``"esp32s3"``, ``"esp32p4"``; any other is its C (ESP32, C3 and the like).
    pointer
        For rule ``"tflm"``: bits of a pointer where it runs, 64 or 32: what it keeps in its arena depends on it.
    interpreter
        For rule ``"tflm"``: ``"plain"``: MicroInterpreter with an arena, as firmware has it; ``"recording"``: with
        RecordingMicroAllocator, as pip's build for 64 bits; ``"auto"``: recording with 64 bits, plain with 32.
    enums
        For rule ``"tflm"``: ``"int"``, or ``"short"`` for compilers that make enums as small as they go
        (arm-none-eabi-gcc without -fno-short-enums): what TFLM keeps is a little less then.
    """

    name: str
    views: bool = False
    in_place: InPlace = "never"
    in_place_reshape: bool = False
    in_place_batch_normalisation: bool = False
    in_place_normalisation: bool = False
    pieces: SlicePlacement = "copied"
    overwrite_inputs: bool = True
    keep_inputs: bool = False
    alignment: int = 1
    constants: Constants = "never"
    view_types: tuple[str, ...] = ()
    elementwise_types: tuple[str, ...] = ()
    count_inputs: bool = True
    overlap: Overlap = "never"
    layout: Layout = "file"
    chains: Chains = "apart"
    persistent: tuple[str, ...] = ()
    double_buffered: tuple[str, ...] = ()
    fixed: tuple[str, ...] = ()
    max_tensor: int = 0
    folds: bool = True
    rule: str = ""
    kernels: Library = "any"
    simd: Simd = "dsp"
    pointer: int = 64
    interpreter: Interpreter = "auto"
    enums: Enums = "int"

    def __post_init__(self) -> None:
        check_fields(self, str(self.name))
        if self.in_place not in get_args(InPlace):
            raise _not_one("in_place", self.in_place, get_args(InPlace), self.name)
        for key, known in (("pieces", SlicePlacement), ("overlap", Overlap), ("layout", Layout), ("chains", Chains)):
            if getattr(self, key) not in get_args(known):
                raise _not_one(key, getattr(self, key), get_args(known), self.name)
        for key, plain_word in (("layout", "file"), ("chains", "apart")):
            if self.rule and getattr(self, key) != plain_word:
                raise InputError(f"{key} is for targets without a runtime's own rule; leave it out", self.name)
        if self.constants not in get_args(Constants):
            raise _not_one("constants", self.constants, get_args(Constants), self.name)
        if self.rule and self.rule not in RULES:
            names = ", ".join(RULES)
            hint = did_you_mean(self.rule, RULES)
            raise InputError(f"rule is {self.rule!r}; use one of {names}, or leave it out{hint}", self.name)
        self._check_tflm()
        for entry in self.fixed:
            name, _, offset = entry.rpartition("=")
            if not (name and offset.isascii() and offset.isdigit() and int(offset[:20]) < 2**62):
                raise InputError(f"fixed has {entry[:80]!r}; write TENSOR=OFFSET, in bytes", self.name)
        if self.fixed and self.rule:
            raise InputError("a runtime with rules of its own places tensors itself; fix none", self.name)
        if self.max_tensor < 0:
            raise InputError(f"max_tensor is {self.max_tensor}; give a number of bytes, or 0 for any", self.name)
        if not 1 <= self.alignment <= MAX_ALIGNMENT or self.alignment & (self.alignment - 1):
            raise InputError(f"alignment is {self.alignment}; use a power of two of at most 2^30", self.name)

    def _check_tflm(self) -> None:
        """The fields that rule tflm alone knows."""
        plain = Target.__dataclass_fields__
        for key, known in _TFLM_FIELDS.items():
            value = getattr(self, key)
            if value not in known:
                words = [str(word) for word in known]
                hint = did_you_mean(str(value), words)
                raise InputError(f"{key} is {value!r}; use one of {', '.join(words)}{hint}", self.name)
            if value != plain[key].default and self.rule != "tflm":
                raise InputError(f"{key} is {value!r}, which rule tflm alone knows; leave it out", self.name)
        owner = "esp_nn" if self.simd.startswith("esp") else "cmsis_nn"
        if self.simd != "dsp" and self.kernels != owner:
            raise InputError(f"simd is {self.simd!r}, which kernels {owner} alone have; leave it out", self.name)

    @property
    def own_rule(self) -> Rule:
        """The rule of `lowtide.rules` that the field `rule` names, as this target's other fields have it."""
        return self.tflm_rule if self.rule == "tflm" else RULES[self.rule]

    @property
    def tflm_rule(self) -> TflmRule:
        """The rule of TFLM under the kernels and the build that this target's fields say."""
        return TflmRule(self.kernels, self.simd, self.pointer // 8)

    @property
    def manages_storage(self) -> bool:
        """Whether the runtime decides what a plan decides elsewhere: it writes outputs over inputs wherever its rule
        allows it, and keeps what no op reads until the run ends."""
        return self.rule == "onnxruntime"

    @property
    def allocates_one_by_one(self) -> bool:
        """Whether the runtime gives each tensor memory of its own, so that the peak is what is needed, and no arena."""
        return self.name == TORCH

    def copies(self, tensor: Tensor) -> int:
        """How many of this tensor have memory of their own at every step: 0 (none, it shares), 1 or 2."""
        if tensor.name and tensor.name in self.double_buffered:
            return 2
        return int(bool(tensor.name) and tensor.name in self.persistent)

    def offset(self, tensor: Tensor) -> int | None:
        """Where this tensor has to lie, None if that is free."""
        for entry in self.fixed:
            name, _, offset = entry.rpartition("=")
            if name == tensor.name:
                return int(offset)
        return None

    def view_source(self, graph: Graph, op: Op) -> int | None:
        """Tensor id whose storage the op's only output shares, or None if the op is no view here."""
        if self.rule:
            return self.own_rule.view_source(graph, op)
        return plain.view_source(self, graph, op)

    def in_place_inputs(self, graph: Graph, op: Op) -> tuple[int, ...]:
        """Tensor ids of the inputs that the op's only output may overwrite if their storage dies there. Says nothing
        about graph inputs and lifetimes: those belong to storages."""
        return () if self.overlap != "never" and not self.rule else self.overwritable_inputs(graph, op)

    def overwritable_inputs(self, graph: Graph, op: Op) -> tuple[int, ...]:
        """The same inputs under any target: also where `overlap_inputs` lists them, at distance 0."""
        if self.rule:
            return self.own_rule.in_place_inputs(graph, op)
        return plain.overwritable_inputs(self, graph, op)

    def overlap_inputs(self, graph: Graph, op: Op) -> tuple[tuple[int, int], ...]:
        """Inputs that the op's only output may lie over, each with a distance in bytes, if their storage dies there.
        The output then begins that distance or more below the input, and both are wholes: they fill their storages.
        Distances are multiples of the alignment, as all differences of offsets are."""
        if op.type == LOOP_TYPE:
            return op.attributes.get("behind", ())
        if self.overlap == "never":
            return ()
        own = self.own_rule.overlap_inputs(graph, op) if self.rule else plain.overlap_inputs(self, graph, op)
        pairs = ((t, round_up(d, self.alignment)) for t, d in own)
        size = graph.tensor_by_id[op.outputs[0]].size if op.outputs else 0
        if self.overlap == "in_place":
            return tuple((t, d) for t, d in pairs if d == 0 and graph.tensor_by_id[t].size == size)
        return tuple((t, d) for t, d in pairs if d < size)

    @property
    def channels_last(self) -> bool:
        """Whether images have their channels last, unless `aliases_keep_file_layout` says otherwise of some."""
        return self.layout != "file"

    @property
    def aliases_keep_file_layout(self) -> bool:
        """Whether images inside other tensors, and those with others inside, keep the file's layout."""
        return self.layout == "either"

    def workspace(self, graph: Graph, op: Op) -> int:
        """Bytes that the op needs while it runs, in addition to its tensors."""
        return op.workspace + (self.own_rule.workspace(graph, op) if self.rule else 0)

    def on_device(self, pointer: int) -> Target:
        """The rules on a device whose pointers have `pointer` bits, unless the rules or their name say it."""
        name = self.name if pointer == 32 else self.name.removesuffix(",pointer=32")  # what auto added
        base, _, said = name.partition(",")
        if self.rule != "tflm" or base not in BUILT_IN or "pointer=" in said or "interpreter=" in said:
            return self
        own = replace(self, name=name, pointer=64)
        return with_fields(own, ["interpreter=plain" if pointer == 64 else "pointer=32"])

    @cached_property
    def inside(self) -> Target:
        """The rules for the body of an op: what it is given belongs to the op, and no tensor of it is the user's."""
        return replace(self, count_inputs=True, persistent=(), double_buffered=(), fixed=())

    def largest_tensor(self, graph: Graph) -> int | None:
        """Bytes of the largest tensor that `max_tensor` limits, between two ops; None: nothing is limited."""
        if not self.max_tensor:
            return None
        return max((t.size for t in graph.tensors if t.kind is Kind.ACTIVATION), default=0)

    def above_limit(self, graph: Graph) -> int:
        """Bytes by which the largest limited tensor of a graph is above `max_tensor`."""
        return max(0, (self.largest_tensor(graph) or 0) - self.max_tensor)

    def as_seen(self, graph: Graph) -> Graph:
        """The graph as the runtime runs it: with what depends on constants only, unless it folds that. Raises
        `InputError`: `persistent`, `double_buffered` or `fixed` names what is no tensor of the graph, or a constant."""
        seen = graph if self.folds else run_folded(graph)
        names = (*self.persistent, *self.double_buffered, *(entry.rpartition("=")[0] for entry in self.fixed))
        kinds = {t.name: t.kind for t in seen.tensors} if names else {}
        for name in names:
            if name not in kinds or not name:
                message = f"{name!r} is no tensor of the model; it has no place in the arena{did_you_mean(name, kinds)}"
                raise InputError(message, graph.source or graph.name)
            if kinds[name] is Kind.CONSTANT:
                raise InputError(f"{name!r} is a constant; it is not in the arena", graph.source or graph.name)
        return seen

    def as_run(self, graph: Graph, order: Sequence[int]) -> list[int]:
        """Op ids in the order in which the runtime runs a file whose ops stand in `order`."""
        return self.own_rule.as_run(graph, order) if self.rule else list(order)


def _not_one(key: str, value: str, allowed: Sequence[str], place: str) -> InputError:
    return InputError(f"{key} is {value!r}; use one of {', '.join(allowed)}{did_you_mean(value, allowed)}", place)


BUILT_IN: dict[str, Target] = {
    t.name: t
    for t in (
        Target("strict"),
        Target("hmcos", in_place="first", in_place_reshape=True),
        Target(
            "generic",
            views=True,
            in_place="any",
            in_place_batch_normalisation=True,
            overwrite_inputs=False,
            alignment=64,
        ),
        Target("loops", views=True, in_place="any", in_place_batch_normalisation=True, alignment=16),
        Target("tflm", alignment=16, overlap="diagonal", rule="tflm"),
        Target("tflite", overwrite_inputs=False, keep_inputs=True, alignment=64, rule="tflite"),
        Target(
            "onnxruntime", overwrite_inputs=False, alignment=256, count_inputs=False, folds=False, rule="onnxruntime"
        ),
        Target(TORCH, overwrite_inputs=False, alignment=64, count_inputs=False),
    )
}
DESCRIPTIONS = {
    "strict": "no aliasing but the graph's own, nothing in place, alignment 1 (SERENITY, Zhong et al., COSMA)",
    "hmcos": "as strict, but an elementwise or reshape-like op takes over its first input if that dies (HMCOS)",
    "generic": "views share storage, elementwise ops may run in place, inputs are not overwritten, alignment 64",
    "loops": "a compiler that streams rows (--allow row-streaming): as generic, inputs overwritten, alignment 16",
    "tflm": "TensorFlow Lite Micro: outputs over, or behind what is read of, inputs that die, whose kernels ever run",
    "tflite": "LiteRT without delegates: its planner's sharing, inputs kept to the end, 64 bytes",
    "onnxruntime": "its CPU kernels' aliases and in-place, the caller's inputs not counted, steps of 256 bytes",
    "torch": "eager kernels of an exported program: its own views, the caller's inputs not counted, alignment 64",
}
"""Of each built-in target, one line."""


AUTO = {".tflite": "tflm", ".pt2": TORCH}
"""Target for a kind of model file; `generic` for all others."""


NONE_FIXED: Mapping[str, int] = {}


def resolve(
    target: str | Target,
    *,
    source: str = "",
    overwrite_inputs: bool = False,
    pin_inputs: bool = False,
    persistent: Sequence[str] = (),
    double_buffered: Sequence[str] = (),
    fixed: Mapping[str, int] = NONE_FIXED,
) -> Target:
    """Find a target by name, or read it from a TOML file; ``"auto"`` goes by the model's file, `source`:
    TFLM of microcontrollers, whose pointers have 32 bits, for a .tflite file.

    Fields may follow: ``"tflm,kernels=cmsis_nn"``, ``"auto,overlap=never"``. They are part of the target's name. Raises
    `InputError`: unknown name, unreadable file, unknown key or value of the wrong type.
    """
    if isinstance(target, str) and "," in target and not target.endswith(".toml"):
        name, *changes = target.split(",")
        rules = with_fields(BUILT_IN[_of_file(source)] if name == "auto" else resolve(name), changes)
    elif isinstance(target, Target):
        rules = target
    elif target in BUILT_IN or target == "auto":
        rules = BUILT_IN[_of_file(source) if target == "auto" else target]
    elif target.endswith(".toml"):
        rules = read_toml(Path(target))
    else:
        names, hint = ", ".join(sorted(BUILT_IN)), did_you_mean(target, BUILT_IN)
        raise InputError(f"there is no target {target!r}; use auto, {names}, or a file ending in .toml{hint}")
    if isinstance(target, str) and target.partition(",")[0] == "auto":
        rules = rules.on_device(32)  # TFLM runs on microcontrollers
    if overwrite_inputs and pin_inputs:
        raise InputError("inputs cannot be both overwritten and pinned; use one of --overwrite-inputs, --pin-inputs")
    if (overwrite_inputs or pin_inputs) and not rules.count_inputs:
        raise InputError(f"under {rules.name} inputs are the caller's; drop --overwrite-inputs or --pin-inputs")
    if overwrite_inputs:
        rules = replace(rules, overwrite_inputs=True, keep_inputs=False)
    if pin_inputs:
        rules = replace(rules, overwrite_inputs=False)
    if fixed:
        kept = [entry for entry in rules.fixed if entry.rpartition("=")[0] not in fixed]
        rules = replace(rules, fixed=(*kept, *(f"{name}={offset}" for name, offset in fixed.items())))
    if persistent or double_buffered:
        rules = replace(
            rules,
            persistent=tuple(dict.fromkeys((*rules.persistent, *persistent))),
            double_buffered=tuple(dict.fromkeys((*rules.double_buffered, *double_buffered))),
        )
    return rules


def _of_file(source: str) -> str:
    """The built-in target for a kind of model file."""
    return next((name for ending, name in AUTO.items() if source.lower().endswith(ending)), "generic")


def with_fields(base: Target, changes: Sequence[str]) -> Target:
    """A target with some fields set from ``KEY=VALUE``: texts, numbers, flags. Raises `InputError` if one is none."""
    table: dict[str, object] = {}
    options = [f.name for f in fields(Target) if not isinstance(getattr(base, f.name), tuple) and f.name != "name"]
    for change in changes:
        key, equals, value = change.partition("=")
        if key not in options or not equals:
            names = ", ".join(options)
            hint = did_you_mean(key, options) if equals else ""
            message = f"target {base.name} has no option {change[:80]!r}; use KEY=VALUE with one of {names}{hint}"
            raise InputError(message)
        old = getattr(base, key)
        if isinstance(old, bool) and value in ("true", "false"):
            table[key] = value == "true"
        elif isinstance(old, str):
            table[key] = value
        elif not isinstance(old, bool) and value.isascii() and value.isdigit() and len(value) < 20:
            table[key] = int(value)
        else:
            kind = "true or false" if isinstance(old, bool) else "a number"
            raise InputError(f"{key} is {value[:80]!r}; it takes {kind}", base.name)
    return replace(base, **{"name": ",".join((base.name, *changes)), **table})


def read_toml(path: Path) -> Target:
    """Read a user's target. Keys are the fields of `Target`; `base` names a built-in one to start from. Raises
    `InputError`: the file cannot be read, is no TOML, names an unknown base or key, or has a value of the wrong
    type."""
    try:
        table = tomllib.loads(read_all(path, "target", MOST_SETTINGS_BYTES).decode("utf-8"))
    except RecursionError:
        raise InputError("not a TOML file: nested too deeply", str(path)) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"not a TOML file: {error}", str(path)) from None
    base_name = table.pop("base", "strict")
    if base_name not in BUILT_IN:
        raise _not_one("base", str(base_name), sorted(BUILT_IN), str(path))
    base = replace(BUILT_IN[base_name], name=path.stem)
    keys = {f.name for f in fields(Target)}
    for key, value in table.items():
        if key not in keys:
            hint = did_you_mean(key, keys)
            raise InputError(f"unknown key {key!r}; use one of base, {', '.join(sorted(keys))}{hint}", str(path))
        old = getattr(base, key)
        if isinstance(old, tuple):
            if not (isinstance(value, list) and all(isinstance(v, str) for v in value)):
                raise InputError(f"{key} must be a list of texts", str(path))
            table[key] = tuple(value)
        elif type(value) is not type(old):
            wanted = {bool: "true or false", int: "a whole number", str: "a text"}[type(old)]
            raise InputError(f"{key} is {str(value)[:80]!r}; it must be {wanted}", str(path))
    try:
        target = replace(base, **table)
    except InputError as error:  # it names the target, which the user knows as a file
        raise InputError(str(error).removeprefix(f"{table.get('name', base.name)}: "), str(path)) from None
    if target.name == "auto" or (target.name in BUILT_IN and target != BUILT_IN[target.name]):
        message = f"name is {target.name!r}, which is a built-in target with other rules; name it otherwise"
        raise InputError(message, str(path))
    return target


def to_toml(target: Target) -> str:
    """Write a target as TOML that `read_toml` reads back to an equal one."""
    return fields_toml(target)
