"""From a trace to a program of compute ops: whose memory a tensor is in, and what need not run at all.

::

    t = aten.t(w)                                        views are no ops: they stand where they are read,
    m = aten.mm(x, t)          =>  m = aten.mm(x, aten.t(w))     belong to their storage and die with it
    c = aten.clone(m)                                    a clone of equal layout is its source: nothing writes into it
    o, k = aten.native_dropout(c, p)   =>  k = the mask alone (random, kept, one byte an element)
                                           o = its value, the product that eager makes: no longer random

A parameter that is tied has a gradient for each of its names; they are summed in the order in which they come, as
eager's engine does.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from lowtide.graph import Graph, Kind, Op, Tensor
from lowtide.ops.kinds import kind_of
from lowtide.read.aten.trace import Form, Ref
from lowtide.torch.program import Action, Call, Program, Result, Traced, Word, refs, replaced


@dataclass
class _Settling:
    """A program in the making; `bound` has the value of each name of the trace."""

    traced: Traced
    forms: dict[str, Form]
    actions: list[Action] = field(default_factory=list)
    bound: dict[str, Any] = field(default_factory=dict)
    chance: dict[str, float] = field(default_factory=dict)


def settle(traced: Traced) -> Program:
    """The program of a trace: compute ops in eager's order, views where they are read."""
    work = _Settling(traced, dict(traced.forms))
    changed = {r.target for r in traced.results if r.kind == "buffer"}
    for call in traced.calls:
        if call.name in traced.views:
            _bind_view(work, call)
        elif _is_idle_clone(work, call, changed):
            work.bound[call.name] = replaced(call.call.args[0], work.bound)
        elif call.call.target == "aten.convolution_backward.default" and call.outputs[0] is not None:
            work.actions += [replace(part, call=replaced(part.call, work.bound)) for part in _gradients_apart(call)]
        elif not (_split_dropout(work, call) or _split_dropout_gradient(work, call)):
            work.actions.append(_in_own_layout(work, replace(call, call=replaced(call.call, work.bound))))
    results = [replace(r, value=replaced(r.value, work.bound)) for r in traced.results]
    results = _sum_tied(work, [r for r in results if r.kind == "gradient"]) + [
        _freed(work, r) if r.kind == "loss" else r for r in results if r.kind != "gradient"
    ]
    order = {"loss": 0, "output": 0, "gradient": 1, "buffer": 2}
    results.sort(key=lambda r: order[r.kind])
    return _without_unread(Program(traced.name, traced.givens, tuple(work.actions), work.forms, tuple(results)))


def root_of(value: Any) -> str:
    """Name of the tensor in whose memory a view is: the one that the innermost call reads first.

    >>> root_of(Call("aten.t.default", (Call("aten.view.default", (Ref("x"), (2, 3))),)))
    'x'
    """
    return next(refs(value)).name


_NOTHING = ("aten.detach.default", "aten.alias.default")  # views that change nothing where no gradient is followed


def _bind_view(work: _Settling, call: Action) -> None:
    full = replaced(call.call, work.bound)
    if call.several:
        for k, output in enumerate(call.outputs):
            if output is not None:
                work.bound[output] = replace(full, pick=k)
    else:
        work.bound[call.name] = full.args[0] if call.call.target in _NOTHING else _short(work, full)


def _short(work: _Settling, view: Call) -> Any:
    """A view of a view as one, where that is the same without a doubt: transposed twice, another shape of a shape of
    contiguous tensors."""
    inner = view.args[0]
    if not isinstance(inner, Call):
        return view
    if view.target == inner.target == "aten.t.default":
        return inner.args[0]
    both = view.target in _SHAPES and inner.target in _SHAPES and isinstance(inner.args[0], Ref)
    if both and work.forms[inner.args[0].name].contiguous:
        same = tuple(view.args[1]) == work.forms[inner.args[0].name].shape
        return inner.args[0] if same else replace(view, args=(inner.args[0], *view.args[1:]))
    return view


_SHAPES = ("aten.view.default", "aten._unsafe_view.default")


def _in_own_layout(work: _Settling, action: Action) -> Action:
    """An elementwise op on tensors that are contiguous and are seen under another shape, as one on the shape in
    which they lie; what reads its result sees it under the shape that it had.

    So ops on ``(batch, tokens, words)`` between products on ``(batch * tokens, words)`` have the rows of these.
    """
    kind = kind_of(action.call.target)
    elementwise = kind is not None and kind.elementwise
    copied = action.call.target == "aten._to_copy.default" and "memory_format" not in dict(action.call.kwargs)
    if not (elementwise or copied) or action.several or action.writes or action.random or len(action.outputs) != 1:
        return action
    form, shapes = work.forms[action.name], set[tuple[int, ...]]()
    args: list[Any] = []
    for arg in action.call.args:
        if isinstance(arg, Call) and arg.target in _SHAPES and isinstance(arg.args[0], Ref):
            source = work.forms[arg.args[0].name]
            if tuple(arg.args[1]) != form.shape or not source.contiguous:
                return action
            shapes.add(source.shape)
            args.append(arg.args[0])
        elif any(work.forms[ref.name].shape != () for ref in refs(arg)):
            return action
        else:
            args.append(arg)
    if len(shapes) != 1 or not form.contiguous or any(True for _, value in action.call.kwargs for _ in refs(value)):
        return action
    shape = shapes.pop()
    work.forms[action.name] = replace(
        form, shape=shape, strides=tuple([math.prod(shape[k + 1 :]) for k in range(len(shape))])
    )
    work.bound[action.name] = Call(_SHAPES[0], (Ref(action.name), form.shape))
    return replace(action, call=replace(action.call, args=tuple(args)))


def _is_idle_clone(work: _Settling, call: Action, changed: set[str]) -> bool:
    """Whether a clone copies all of a storage that no op changes, with its layout."""
    source = call.call.args[0] if call.call.target == "aten.clone.default" else None
    if not isinstance(source, Ref):
        return False
    root = root_of(work.bound.get(source.name, source))
    before, after, full = work.traced.forms[source.name], work.traced.forms[call.name], work.forms[root]
    alike = (before.shape, before.strides) == (after.shape, after.strides)
    return alike and before.extent_bytes == full.extent_bytes and root not in changed


def _noise(mask: str, keep: float, form: Form) -> Call:
    """What eager multiplies by, made anew of the mask."""
    cast = Call("aten._to_copy.default", (Ref(mask),), (("dtype", Word(f"torch.{form.dtype}")),))
    return Call("aten.div_.Tensor", (cast, keep))


def _times_noise(value: Any, mask: str, keep: float, forms: tuple[Form, Form]) -> Call:
    """A value times the noise: over the noise where both lie alike."""
    noise = _noise(mask, keep, forms[0])
    if forms[0].strides == forms[1].strides:
        return Call("aten.mul_.Tensor", (noise, value))
    return Call("aten.mul.Tensor", (value, noise))


def _gradients_apart(call: Action) -> list[Action]:
    """The gradients of a convolution's input and of its parameters as two ops: kernels compute them one by one, and the
    parameters' alone has rows in which the optimizer may update them at once."""
    first, *others = call.outputs
    if not any(others):
        return [call]
    args, mask = call.call.args[:-1], tuple(call.call.args[-1])
    alone = Action(
        f"{call.name}_input", replace(call.call, args=(*args, (True, False, False))), (first, None, None), True
    )
    of_parameters = replace(call.call, args=(*args, (False, *mask[1:])))
    return [alone, replace(call, call=of_parameters, outputs=(None, *others))]


def _split_dropout(work: _Settling, call: Action) -> bool:
    """Dropout on the CPU as two ops, the random mask and the value; eager computes it so too."""
    if call.call.target != "aten.native_dropout.default" or call.outputs[0] is None or call.outputs[1] is None:
        return False
    source, chance, train = call.call.args
    value, mask = call.outputs[0], call.outputs[1]
    form = work.forms[mask]
    if not train or not 0 < chance < 1 or form.device[0] != "cpu":
        return False
    options = (("dtype", Word("torch.bool")), ("device", Word('torch.device("cpu")')))
    empty = Call("aten.empty_strided.default", (form.shape, form.strides), options)
    keep = 1 - chance
    work.chance[mask] = keep
    work.actions.append(Action(mask, Call("aten.bernoulli_.float", (empty, keep)), (mask,), random=True))
    forms = (work.traced.forms[source.name], form)
    product = _times_noise(replaced(source, work.bound), mask, keep, forms)
    work.actions.append(Action(value, product, (value,)))
    return True


def _split_dropout_gradient(work: _Settling, call: Action) -> bool:
    if call.call.target != "aten.native_dropout_backward.default":
        return False
    gradient, mask, _ = call.call.args
    keep = work.chance.get(mask.name)
    if keep is None:
        return False
    forms = (work.traced.forms[gradient.name], work.forms[mask.name])
    product = _times_noise(replaced(gradient, work.bound), mask.name, keep, forms)
    work.actions.append(replace(call, call=product))
    return True


def _sum_tied(work: _Settling, gradients: Sequence[Result]) -> list[Result]:
    """One gradient for each parameter, those of tied names summed in the order in which they are made."""
    position = {name: k for k, action in enumerate(work.actions) for name in action.outputs if name is not None}
    by_target: dict[str, list[Result]] = {}
    for gradient in gradients:
        by_target.setdefault(gradient.target, []).append(gradient)
    results: list[Result] = []
    for target, parts in by_target.items():
        parts.sort(key=lambda r: position.get(root_of(r.value), -1))
        value = parts[0].value
        for k, part in enumerate(parts[1:]):
            name = f"sum_{target}" + (f"_{k}" if k else "")
            at = max(position.get(root_of(v), -1) for v in (value, part.value)) + 1
            work.actions.insert(at, Action(name, Call("aten.add.Tensor", (value, part.value)), (name,)))
            work.forms[name] = next(g.form for g in work.traced.givens if g.name == target)
            position = {n: k for k, a in enumerate(work.actions) for n in a.outputs if n is not None}
            value = Ref(name)
        results.append(Result("gradient", target, value))
    return results


def _freed(work: _Settling, loss: Result) -> Result:
    """The loss as a copy of its own: the kernel's may lie on memory of the size of the batch."""
    name = "loss" if "loss" not in work.forms else "loss_value"
    at = 1 + next((k for k, a in enumerate(work.actions) if root_of(loss.value) in a.outputs), -1)
    of_root = work.forms[root_of(loss.value)]
    work.forms[name] = replace(of_root, shape=(), strides=(), offset=0)
    work.actions.insert(at, Action(name, Call("aten.clone.default", (loss.value,)), (name,)))
    return Result("loss", loss.target, Ref(name))


def _without_unread(program: Program) -> Program:
    """The program without ops of which nothing is read, random ones excepted: eager draws for these as well."""
    read = {ref.name for r in program.results for ref in refs(r.value)}
    kept: list[Action] = []
    for action in reversed(program.actions):
        if action.random or action.writes or any(name in read for name in action.outputs):
            kept.append(action)
            read |= {ref.name for ref in refs(action.call)}
    return replace(program, actions=tuple(reversed(kept)))


def as_graph(program: Program, sizes: Mapping[str, int], workspace: Mapping[str, int]) -> Graph:
    """The program as a graph: a tensor for each storage, an op for each action, ids by position.

    What is given is constant, or an input where the step changes it; what it writes into keeps its place between its
    readers, and random ops theirs among themselves. `sizes`: bytes of storages by name, where they are known to
    differ from what the shapes say. `workspace`: bytes that an action takes while it runs, by name; 0 for others.
    """
    changed = {name for action in program.actions for name in action.writes}
    ends = {root_of(r.value) for r in program.results}
    tensors: list[Tensor] = []
    ids: dict[str, int] = {}

    def add(name: str, label: str, kind: Kind, alias: int | None = None) -> int:
        form = program.forms[name]
        size = sizes.get(name, form.extent_bytes)
        tensors.append(Tensor(len(tensors), size, kind, label, form.shape, form.dtype, alias))
        return len(tensors) - 1

    for given in program.givens:
        kind = Kind.INPUT if given.name in changed or given.role == "batch" else Kind.CONSTANT
        ids[given.name] = add(given.name, given.name, kind)
    ops: list[Op] = []
    readers: dict[str, list[int]] = {}
    writer: dict[str, int] = {}
    turn: int | None = None
    for index, action in enumerate(program.actions):
        reads = list(dict.fromkeys(ref.name for ref in refs(action.call)))
        after: dict[int, None] = {writer[name]: None for name in reads if name in writer}
        for name in reads:
            if name in action.writes:
                after.update(dict.fromkeys(readers.pop(name, ())))
                writer[name] = index
            elif name in changed:
                readers.setdefault(name, []).append(index)
        if action.random:
            after.update({} if turn is None else {turn: None})
            turn = index
        own = [name for name in action.outputs if name is not None]
        ids.update({name: add(name, name, Kind.OUTPUT if name in ends else Kind.ACTIVATION) for name in own})
        outputs = [ids[name] for name in own]
        outputs += [add(name, f"{name} after {action.name}", Kind.OUTPUT, ids[name]) for name in action.writes]
        ops.append(
            Op(
                index, tuple([ids[name] for name in reads]), tuple(outputs), action.name, action.call.target,
                workspace.get(action.name, 0), after=tuple(after), attributes={"random": 1} if action.random else {},
            )
        )  # fmt: skip
    return Graph(program.name, tuple(tensors), tuple(ops))
