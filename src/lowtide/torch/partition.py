"""What a plan keeps between forward and backward, for `torch.compile`: a partitioner of its joint graphs.

Inductor asks a partitioner which values of the forward pass are saved; all else that the backward pass reads is made
there a second time. This one asks lowtide's search for a sequence within the budget, over the graph that it is given,
and saves what that sequence holds when the backward pass begins::

    joint graph    a  b  c  loss | dc  db  da        sequence within the budget    a  b  c  loss | dc  a' b'  db  da
                                                     saved: what first runs made and is read after the bar unmodified

torch then orders and fuses both halves as it likes, so that the sequence's peak is not promised of what runs:
`Report.peak_bytes` is of ops one by one, and what a compiled step takes is to be measured.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from typing import Any

from lowtide.arguments import typed
from lowtide.errors import InputError
from lowtide.names import brief
from lowtide.sizes import Size, format_size, parse_size
from lowtide.torch.capture import library
from lowtide.torch.step_options import part_of, seconds_of

_OPERATIONS_PER_SECOND, _BYTES_PER_SECOND = 1e11, 1e10  # a roofline by which ops are compared; only ratios matter
_STEPS = 4000  # repairs of the search at most, so that the same call gives the same where the time is enough


@dataclass(frozen=True, repr=False)
class Report:
    """What the partitioner did with one graph. `own_peak_bytes`, `peak_bytes`: with each op once in its order, and
    of the sequence, ops one by one; without parameters and batch. `saved_bytes`: what the forward pass hands to the
    backward pass, without parameters and batch. `recomputed`: ops of the forward pass that the backward pass
    recomputes. `overhead`: part of the time that they add, by a roofline. `met`: whether the sequence is within the
    budget."""

    own_peak_bytes: int
    peak_bytes: int
    saved_bytes: int
    recomputed: int
    overhead: float
    met: bool

    def __repr__(self) -> str:
        return brief(self, "own_peak_bytes peak_bytes saved_bytes recomputed overhead met")


@typed
def partitioner(budget: Size, *, time: float = 10.0, strict: bool = False) -> Any:
    """A partitioner for ``torch.compile``: ``torch._inductor.config.patch(custom_partitioner_fn=partitioner("1GiB"))``
    around the compiled call, or ``partition_fn=`` of ``torch._dynamo.backends.common.aot_autograd``.

    Parameters
    ----------
    budget
        Bytes that a step may take at once in addition to parameters and batch, or a part of what it takes with each op
        once, as ``"60%"``.
    time
        Seconds of search for each graph.
    strict
        Whether it is an error that no sequence within the budget is found; else the lowest that was found is taken.

    Returns
    -------
    object
        With ``reports``, a `Report` for each graph that it has split; none for what torch takes from its own cache of
        an earlier run (``torch._functorch.config.enable_autograd_cache``).

    Raises
    ------
    InputError
        At once, if the budget is none; when compiling, if shapes are not fixed, or, with `strict`, no sequence fits.
    """
    library()
    time = seconds_of(time)
    base = import_module("torch._inductor.custom_graph_pass").CustomPartitionerFn
    parse_size(budget, "budget") if not part_of(budget) else None

    class Partitioner(base):
        """See `partitioner`."""

        def __init__(self) -> None:
            self.reports: list[Report] = []

        def __call__(self, gm: Any, joint_inputs: Sequence[Any], **options: Any) -> tuple[Any, Any]:
            halves, report = split(gm, joint_inputs, budget, time, strict, options)
            if report is not None:
                self.reports.append(report)
            return halves

        def __reduce__(self) -> Any:
            return _partitioner, (budget, time, strict)

        def uuid(self) -> Any:
            source = sha256(Path(__file__).read_bytes()).hexdigest()
            return f"lowtide partitioner {source} {budget} {time} {strict}"

    return Partitioner()


def _partitioner(budget: str | int, time: float, strict: bool) -> Any:
    """As it was, from what torch keeps of it as a key of its caches."""
    return partitioner(budget, time=time, strict=strict)


def split(
    gm: Any, joint_inputs: Sequence[Any], budget: str | int, time: float, strict: bool, options: dict[str, Any]
) -> tuple[tuple[Any, Any], Report | None]:
    """Both halves of a joint graph, and what was done; as torch's default splits it where nothing goes back. Raises
    `InputError`: `strict`, and no sequence within the budget was found."""
    partitioners = import_module("torch._functorch.partitioners")
    outputs, static = options["num_fwd_outputs"], options.get("static_lifetime_input_indices") or []
    gm.graph.eliminate_dead_code()
    info = partitioners.classify_nodes(gm, static, outputs)
    if not info.required_bw_nodes:
        plain = {"num_fwd_outputs": outputs, "static_lifetime_input_indices": static}
        return partitioners.default_partition(gm, joint_inputs, **plain), None
    joint = _Joint(gm, {node.name for node in info.required_fw_nodes})
    part = part_of(budget)
    room = int(part * joint.own_peak) if part is not None else parse_size(budget)
    order, peak, met = joint.sequence(room, time)
    if strict and not met:
        raise InputError(
            f"no sequence within {format_size(room)} was found for a graph of torch.compile: the lowest takes "
            f"{format_size(peak)}; give more bytes or more time"
        )
    saved = joint.saved(order)
    halves = partitioners._extract_fwd_bwd_modules(
        gm,
        joint.with_given(saved),
        [],
        num_fwd_outputs=outputs,
        static_lifetime_input_nodes=info.static_lifetime_input_nodes,
    )
    recomputed = joint.recomputed(saved)
    total = sum(joint.costs)
    report = Report(
        joint.own_peak, peak, sum(joint.size[node] for node in saved), len(recomputed),
        sum(joint.costs[k] for k in recomputed) / total if total else 0.0, met,
    )  # fmt: skip
    return (halves[0], partitioners.reordering_to_mimic_autograd_engine(halves[1])), report


@dataclass
class _Joint:
    """A joint graph as ops that make values: views belong to what they view, parts of a result to themselves."""

    gm: Any
    forward: set[str]
    ops: list[Any] = field(default_factory=list)
    root: dict[Any, Any] = field(default_factory=dict)
    size: dict[Any, int] = field(default_factory=dict)
    maker: dict[Any, int] = field(default_factory=dict)
    costs: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        for node in self.gm.graph.nodes:
            if node.op == "placeholder":
                self.root[node] = node
            elif node.op != "output":
                self._add(node)
        self.values = list(self.maker)
        self.made: list[list[Any]] = [[] for _ in self.ops]
        for value, maker in self.maker.items():
            self.made[maker].append(value)
        self.number = {node: k for k, node in enumerate(self.values)}
        self.problem = self._problem()
        self.own_peak = max(self.problem.footprints(list(range(len(self.ops)))), default=0)

    def _add(self, node: Any) -> None:
        if node.target is operator.getitem:
            above = node.args[0]
            self.root[node] = node
            self.maker[node], self.size[node] = self.ops.index(above), _bytes(node)
        elif _is_view(node):
            self.root[node] = self.root.get(node.all_input_nodes[0], node)
        else:
            self.root[node] = node
            self.ops.append(node)
            self.costs.append(_cost(node))
            if not isinstance(node.meta.get("val"), tuple | list):
                self.maker[node], self.size[node] = len(self.ops) - 1, _bytes(node)

    def reads(self, node: Any) -> list[Any]:
        """Values that an op reads, views as what they view."""
        return list(dict.fromkeys(self.root[n] for n in node.all_input_nodes if self.root.get(n) in self.maker))

    def _problem(self) -> Any:
        from lowtide._core import SequenceProblem

        final = {self.root.get(n) for n in self.gm.graph.output_node().all_input_nodes}
        rows = []
        for k, node in enumerate(self.ops):
            reads = [self.number[value] for value in self.reads(node)]
            makes = [self.number[value] for value in self.made[k]]
            # Only the forward pass may be recomputed.
            rows.append((reads, makes, [], self.costs[k], 0, 0, node.name not in self.forward or _once(node), []))
        return SequenceProblem(rows, [(self.size[v], self.maker[v], v in final) for v in self.values], [])

    def sequence(self, budget: int, time: float) -> tuple[list[int], int, bool]:
        """Positions as they run within a budget or as near as was found, the peak, and whether it is within."""
        from lowtide._core import search_sequence

        own = list(range(len(self.ops)))
        if self.own_peak <= budget:
            return own, self.own_peak, True
        found = search_sequence(self.problem, own, budget, 0, time, _STEPS)
        return list(found.order), found.peak, found.found

    def saved(self, order: Sequence[int]) -> list[Any]:
        """Values of the forward pass that are read from the first run of their op by what is not in it, or is
        recomputed: wherever these stand, all first runs of its ops are the forward pass."""
        forward = [k for k, node in enumerate(self.ops) if node.name in self.forward]
        runs, kept, inside = [0] * len(self.ops), set[Any](), set(forward)
        for k in order:
            if k not in inside or runs[k]:
                makers = ((value, self.maker[value]) for value in self.reads(self.ops[k]))
                kept.update(value for value, maker in makers if maker in inside and runs[maker] == 1)
            runs[k] += 1
        # What cannot be recomputed has to be there.
        once = {value for k in forward if _once(self.ops[k]) for value in self.made[k]}
        kept |= once & self._behind(kept)
        return [value for value in self.values if value in kept]

    def _behind(self, saved: set[Any]) -> set[Any]:
        """Values that the backward pass reads, or recomputes for that, from what is saved and given."""
        seen: set[Any] = set()
        todo = [value for node in self.ops if node.name not in self.forward for value in self.reads(node)]
        while todo:
            value = todo.pop()
            maker = self.ops[self.maker[value]]
            if value not in seen and value not in saved and maker.name in self.forward and not _once(maker):
                todo += self.reads(maker)
            seen.add(value)
        return seen

    def recomputed(self, saved: Sequence[Any]) -> list[int]:
        """Ops of the forward pass that the backward pass recomputes."""
        makers = {self.maker[value] for value in self._behind(set(saved)) - set(saved)}
        return sorted(k for k in makers if self.ops[k].name in self.forward)

    def with_given(self, saved: Sequence[Any]) -> list[Any]:
        """These, and the parameters and the batch: torch leaves out what is not read."""
        given = [n for n in self.gm.graph.find_nodes(op="placeholder") if "tangents" not in str(n.target)]
        return [*given, *saved]


def _bytes(node: Any) -> int:
    """Bytes of what a node gives. Raises `InputError`: they hang on a size that is not fixed."""
    value = node.meta.get("val")
    if value is None or not hasattr(value, "untyped_storage"):
        return 0
    size = value.numel() * value.element_size()
    if not isinstance(size, int):
        raise InputError(f"{node.name} has a size that is not fixed; compile with dynamic=False")
    return size


def _is_view(node: Any) -> bool:
    """Whether an operator returns a view of what it reads."""
    schema = getattr(node.target, "_schema", None)
    if schema is None or not node.all_input_nodes:
        return False
    return any(r.alias_info is not None and not r.alias_info.is_write for r in schema.returns)


def _once(node: Any) -> bool:
    """Whether an op is random, changes something, or is said to be kept."""
    schema, tags = getattr(node.target, "_schema", None), getattr(node.target, "tags", ())
    torch = import_module("torch")
    kept = str(node.meta.get("recompute", "")).endswith("MUST_SAVE")
    return kept or torch.Tag.nondeterministic_seeded in tags or (schema is not None and schema.is_mutable)


def _cost(node: Any) -> int:
    """Nanoseconds by a roofline: torch's own count of operations, and bytes read and made."""
    registry = import_module("torch.utils.flop_counter").flop_registry
    moved = sum(_bytes(n) for n in (node, *node.all_input_nodes))
    seconds = moved / _BYTES_PER_SECOND
    count: Callable[..., int] | None = registry.get(getattr(node.target, "overloadpacket", None))
    if count is not None:
        tree = import_module("torch.fx").node.map_arg
        args, kwargs = tree((node.args, node.kwargs), lambda n: n.meta.get("val"))
        seconds = max(seconds, count(*args, **kwargs, out_val=node.meta.get("val")) / _OPERATIONS_PER_SECOND)
    return max(1, round(seconds * 1e9))
