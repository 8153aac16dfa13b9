"""The one file that knows torch's private APIs: a module and a loss as one traced program, without any memory.

Forward, loss and backward come from `aot_export_joint_with_descriptors` (private; torch 2.13), which traces on fake
tensors: the parameters are not copied, nothing is computed, no random number is drawn, no buffer moves. A forward
alone comes the same way, its parameters frozen.
"""

from __future__ import annotations

import contextlib
import keyword
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import Any

from lowtide.errors import InputError, MissingExtraError, first_line, raised_at
from lowtide.read.aten.trace import Form, Ref
from lowtide.read.aten.views import VIEWS
from lowtide.torch.as_eager import compiling, prepare
from lowtide.torch.closed import Slot, closed_over
from lowtide.torch.eager_run import EagerRun, eager_run
from lowtide.torch.flat_step import VARIABLE, flat_step
from lowtide.torch.meta import as_on_cpu
from lowtide.torch.program import Action, Call, Given, Result, Role, Traced, Word

NEWEST_KNOWN = (2, 13)  # version of torch that the private APIs are known of

OFFLOAD_OPS = "torch._functorch._activation_offloading.offload_ops"
"""Whose import registers the operators ``ao``, which move tensors between a device and the host."""


def library() -> Any:
    """The package torch. Raises `MissingExtraError`: it is not installed."""
    try:
        return import_module("torch")
    except ImportError:
        raise MissingExtraError("torch", "torch", "planning a PyTorch step") from None


def check_offloading() -> None:
    """That torch has its operators ``ao``. Raises `InputError` if not."""
    try:
        import_module(OFFLOAD_OPS)
    except ImportError:
        message = (
            f"offload on CUDA takes torch.ops.ao.offload, and torch {library().__version__} has none; leave it out"
        )
        raise InputError(message) from None


@dataclass(frozen=True)
class Output:
    """What a module returns: torch's own description of how it is nested, what of it is no tensor, at which places the
    tensors stand; and how many other scalars than the loss, where no name marks it, need a gradient as well."""

    structure: Any
    plain: tuple[Any, ...]
    holes: tuple[int, ...]
    losses_apart: int = 0

    def filled(self, tensors: Sequence[Any]) -> Any:
        """The same nesting with these tensors."""
        leaves = list(self.plain)
        for k, tensor in zip(self.holes, tensors, strict=True):
            leaves[k] = tensor
        return library().utils._pytree.tree_unflatten(leaves, self.structure)


@dataclass(frozen=True)
class Capture:
    """A traced program, the tensors that stand behind its given ones (batch and state apart), and its output's form.

    `empty`: whether they have no memory, so that nothing can be measured. `changed`: what Python changes on the module
    while it runs, by path, which the step does not; `draws`: whether Python code draws random numbers; `eager`: what
    the same step takes in eager mode, where that is known; `slots`: variables that hold tensors which the loss reads;
    `decided`: where eager decides by a value in Python, and the step takes the way of ``torch.compile``.
    """

    traced: Traced
    tensors: Mapping[str, Any]
    output: Output
    empty: bool = False
    changed: tuple[str, ...] = ()
    draws: bool = False
    eager: EagerRun | None = None
    slots: Mapping[str, Slot] = field(default_factory=dict)
    decided: str = ""


def capture(
    model: Any,
    loss_fn: Callable[..., Any] | None,
    example: Sequence[Any],
    *,
    backward: bool = True,
    optimizer: Any = None,
) -> Capture:
    """Trace a training step, or a forward pass. `model`: A `torch.nn.Module`, in the mode (training or not) in which
    it will run. `loss_fn`: ``loss_fn(model(batch[0]), *batch[1:])`` (`step_output`): the loss, or the loss and then
    metrics. None: the module's own loss, or its output. `example`: A batch: tensors, or tuples, lists and dicts of
    them. Only shapes, types and devices matter. `backward`: whether the gradients of all parameters that need one
    are wanted. `optimizer`: what updates the parameters in the eager step that plans are compared with. Raises
    `InputError`: torch cannot trace it; or it does what no step may: changes its batch, returns no scalar;
    `MissingExtraError`: torch is not installed."""
    torch = library()
    if isinstance(example, torch.Tensor):
        raise InputError("a batch is a tuple of tensors; write (x, y), or (x,)", type(model).__name__)
    try:
        try:
            return _captured(torch, model, loss_fn, example, backward, optimizer)
        except Exception as error:  # a user's module raises whatever it likes
            if type(error).__name__ != _VALUE:
                raise
            with compiling(torch):
                captured = _captured(torch, model, loss_fn, example, backward, optimizer)
            return replace(captured, decided=_place(torch, error) or "an unknown place")
    except InputError:
        raise
    except (ImportError, AttributeError) as error:
        have = ".".join(torch.__version__.split(".")[:2])
        known = ".".join(map(str, NEWEST_KNOWN))
        message = f"torch {have} cannot be traced ({first_line(error)}); this is made for torch {known}"
        raise InputError(message, type(model).__name__) from error
    except Exception as error:
        message = f"torch cannot trace it: {first_line(error)}{_decided(torch, error)}{_unseen(error)}"
        if backward and loss_fn is None and isinstance(error, TypeError):
            message += "; without a loss_fn the module takes all of the batch and returns the loss"
        elif loss_fn is not None and isinstance(error, TypeError):
            message += "; of a batch (x, y) the loss is loss_fn(model(x), y): the model is called by the step"
        raise InputError(message, type(model).__name__) from error


def _captured(
    torch: Any, model: Any, loss_fn: Callable[..., Any] | None, example: Sequence[Any], backward: bool, optimizer: Any
) -> Capture:
    leaves, spec = torch.utils._pytree.tree_flatten(tuple(example))
    places = [k for k, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
    closed = closed_over(torch, model, loss_fn, example)
    wrapper = flat_step(torch, (model, loss_fn, closed), (leaves, spec, places), backward)
    tensors = [leaves[k].detach() for k in places]
    state = wrapper.state
    try:
        with contextlib.ExitStack() as stack:
            prepare(stack, torch, model, backward)
            export = import_module("torch._functorch.aot_autograd").aot_export_joint_with_descriptors
            tensors, replaced = stack.enter_context(as_on_cpu(torch, wrapper, tensors))
            run = eager_run(torch, wrapper, tensors, backward=backward, optimizer=optimizer, originals=replaced)
            joint = export(stack, wrapper, tuple(tensors))
            reader = _Reader(torch, wrapper, joint.graph_module, backward)
            traced = reader.traced(type(model).__name__)
            output = Output(wrapper.structure, tuple(wrapper.plain), tuple(wrapper.holes), wrapper.losses_apart)
            given = {name: replaced.get(id(tensor), tensor) for name, tensor in reader.tensors.items()}
            changed, draws = _of_user(state.changed()), state.draws()
            read = [(g.name, g.target.removeprefix(VARIABLE)) for g in traced.givens if g.target.startswith(VARIABLE)]
            slots = {name: closed.slots[int(k)] for name, k in read}
            return Capture(traced, given, output, bool(replaced), changed, draws, run, slots)
    finally:
        state.put_back()


def _of_user(paths: Sequence[str]) -> tuple[str, ...]:
    """Paths in the user's module, or its loss, of those in the module around both."""
    return tuple([path.removeprefix("model.") for path in paths if path.startswith(("model.", "loss."))])


def _unseen(error: Exception) -> str:
    """What to do if the step reads a tensor that is not given to it; with a semicolon before it."""
    if "convert all Tensors to FakeTensors" not in str(error):
        return ""
    return "; it reads a tensor that is not its own: put it into the batch, or into the module with register_buffer"


def _decided(torch: Any, error: Exception) -> str:
    """Where a tensor's values decide, if that is what an error of the trace is of; with a comma before it."""
    what = _BY_VALUE.get(type(error).__name__)
    if what is None:
        return ""
    at = _place(torch, error)
    where = f" at {at}" if at else ""
    return f", {what}{where}; write it with tensors, as torch.where does"


def _place(torch: Any, error: Exception) -> str:
    """File and line of the user's code in which an error was raised; empty where none is known."""
    return raised_at(error, str(Path(torch.__file__).parent), str(Path(__file__).parent))


_VALUE = "DataDependentOutputException"

_BY_VALUE = {
    _VALUE: "a value decides in Python",
    "DynamicOutputShapeException": "values decide the size of a result, as a mask does",
}
"""Errors of torch's fake tensors, and what they mean."""


def inexact(torch: Any, model: Any) -> tuple[str, ...]:
    """Kinds of a module's layers that eager computes in place in rows of wider tensors, and a traced step elsewhere:
    vectors of numbers then begin at other places, and a sigmoid's last bit is another."""
    kinds = (torch.nn.GRU, torch.nn.GRUCell, torch.nn.LSTM)
    found = {kind.__name__ for layer in model.modules() for kind in kinds if isinstance(layer, kind)}
    return tuple(sorted(found))


@dataclass
class _Reader:
    """Makes a trace of a joint graph."""

    torch: Any
    step: Any
    module: Any
    backward: bool
    names: dict[Any, str] = field(default_factory=dict)
    taken: set[str] = field(default_factory=set)
    parts: dict[str, dict[int, str]] = field(default_factory=dict)
    views: set[str] = field(default_factory=set)
    forms: dict[str, Form] = field(default_factory=dict)
    givens: list[Given] = field(default_factory=list)
    tensors: dict[str, Any] = field(default_factory=dict)
    calls: list[Action] = field(default_factory=list)

    def traced(self, name: str) -> Traced:
        nodes = list(self.module.graph.nodes)
        self.taken |= {"torch", "aten", "given", "h", "del", "step", "first_row", "end_row"}
        for node in nodes:
            if node.op == "placeholder":
                self._given(node)
            elif node.op == "get_attr":
                self._constant(node)
            elif node.op == "call_function":
                self._call(node)
        results = self._results(next(node for node in nodes if node.op == "output"))
        return Traced(
            name, tuple(self.givens), tuple(self.calls), frozenset(self.views), dict(self.forms), tuple(results)
        )

    def _name(self, wish: str) -> str:
        wish = re.sub(r"\W", "_", wish)
        name, k = wish, 1
        while name in self.taken or keyword.iskeyword(name):
            name, k = f"{wish}_{k}", k + 1
        self.taken.add(name)
        return name

    def _given(self, node: Any) -> None:
        kind, target = type(node.meta["desc"]).__name__, getattr(node.meta["desc"], "target", "")
        path = str(target).removeprefix("model.")
        if kind == "TangentAOTInput":
            self._ones(node)
            return
        role: Role
        if kind in ("ParamAOTInput", "BufferAOTInput"):
            role = "parameter" if kind == "ParamAOTInput" else "buffer"
            tensor = _attribute(self.step, str(target))
            same = next((n for n, t in self.tensors.items() if t is tensor), None)
            if same is not None:  # tied: one tensor under two names
                self.names[node] = same
                return
            name = self._name(f"{role[0]}_{path}")
            self.tensors[name] = tensor
        elif kind == "PlainAOTInput":
            role, path = "batch", str(node.meta["desc"].idx)
            name = self._name(f"x{path}")
        else:
            raise InputError(f"torch traced an input of kind {kind}, which no step can be given")
        self._add(node, name, role, path)

    def _add(self, node: Any, name: str, role: Role, path: str) -> None:
        form = self._form(node.meta["val"] if "val" in node.meta else self.tensors[name])
        self.names[node] = name
        self.forms[name] = form
        self.givens.append(Given(name, role, path, form))

    def _ones(self, node: Any) -> None:
        """The gradient of the loss by itself."""
        value = node.meta["val"]
        if value.dim():
            raise InputError(f"the loss has shape {list(value.shape)}; return a scalar, such as its mean")
        name = self._name("one")
        form = self._form(value)
        options = (("dtype", _plain(self.torch, value.dtype)), ("device", _plain(self.torch, value.device)))
        self.names[node], self.forms[name] = name, form
        self.calls.append(Action(name, Call("aten.ones.default", ((),), options), (name,)))

    def _constant(self, node: Any) -> None:
        value = _attribute(self.module, node.target)
        if not isinstance(value, self.torch.Tensor):
            raise InputError(f"torch traced {node.target!r}, a body of a higher-order operator; write it without one")
        name = self._name(f"c_{node.target}")
        self.tensors[name] = value
        self._add(node, name, "constant", str(node.target))

    def _call(self, node: Any) -> None:
        target = node.target
        if getattr(target, "__name__", "") == "getitem":
            source, index = node.args
            self.names[node] = self.parts[self.names[source]][index]
            return
        if not isinstance(target, self.torch._ops.OpOverload):
            raise InputError(f"torch traced {target}, which is no operator with fixed sizes; write it without one")
        if "_rnn" in target._schema.name:
            raise InputError(f"{target} hands a workspace to its own backward that only autograd gets; "
                             "trace and train under torch.backends.mkldnn.flags(enabled=False)")  # fmt: skip
        name = self._name(node.name)
        values = node.meta["val"]
        several = isinstance(values, tuple | list)
        call = Call(
            f"{target.namespace}.{target._schema.name.rpartition('::')[2]}.{target._overloadname}",
            tuple([self._value(v) for v in node.args]),
            tuple([(key, self._value(v)) for key, v in node.kwargs.items()]),
        )
        outputs: list[str | None] = []
        for k, value in enumerate(values if several else [values]):
            if not isinstance(value, self.torch.Tensor):
                outputs.append(None)
                continue
            output = self._name(f"{name}_{k}") if several else name
            outputs.append(output)
            self.forms[output] = self._form(value)
        self._statistics(call, outputs)
        self.names[node] = name
        self.parts[name] = {k: output for k, output in enumerate(outputs) if output is not None}
        if _is_view(target):
            self.views.add(name)
        random = _draws(self.torch, target, node)
        self.calls.append(Action(name, call, tuple(outputs), several, (), random))

    def _statistics(self, call: Call, outputs: Sequence[str | None]) -> None:
        """The type of a batch norm's statistics: on the CPU that of its weights where these are wider than its input,
        as under autocast; torch's fake tensors have the input's."""
        if "native_batch_norm" not in call.target or "backward" in call.target or not isinstance(call.args[1], Ref):
            return
        data, weight = (self.forms[ref.name] for ref in call.args[:2])
        for output in outputs[1:3]:
            if output is not None and weight.width > data.width and weight.device[0] == "cpu":
                self.forms[output] = replace(self.forms[output], dtype=weight.dtype, width=weight.width)

    def _value(self, value: Any) -> Any:
        if isinstance(value, self.torch.fx.Node):
            return Ref(self.names[value])
        if isinstance(value, tuple | list):
            return tuple([self._value(v) for v in value])
        return _plain(self.torch, value)

    def _form(self, value: Any) -> Form:
        if value.layout is not self.torch.strided:
            raise InputError(self._sparse(value.layout))
        sizes = (*value.shape, *value.stride(), value.storage_offset())
        if any(not isinstance(n, int) for n in sizes):
            raise InputError("a size hangs on the batch's values; a step needs fixed sizes")
        dtype = str(value.dtype).removeprefix("torch.")
        device = (value.device.type, value.device.index)
        return Form(
            tuple(value.shape), tuple(value.stride()), value.storage_offset(), dtype, value.element_size(), device
        )

    def _sparse(self, layout: Any) -> str:
        """Which layers make sparse gradients, where they say so, and what to do."""
        layers = self.step.named_modules()
        names = [name.removeprefix("model").lstrip(".") for name, layer in layers if getattr(layer, "sparse", False)]
        if not names:
            return f"the step has a tensor of layout {layout}, and only dense ones can be planned; write it without one"
        listed = ", ".join([repr(name) if name else "the module itself" for name in names])
        return f"gradients of {listed} are sparse, and only dense ones can be planned; make it with sparse=False"

    def _results(self, node: Any) -> list[Result]:
        values = self.torch.utils._pytree.tree_leaves(node.args[0])
        results: list[Result] = []
        plain = 0
        for value, desc in zip(node.args[0], node.meta["desc"], strict=True):
            if value is None or desc is None:
                continue
            kind = type(desc).__name__
            reference = Ref(self.names[value])
            if kind == "InputMutationAOTOutput":
                if type(desc.mutated_input).__name__ != "BufferAOTInput":
                    raise InputError("the step changes its batch or a parameter; copy it first")
                results.append(Result("buffer", self._parameter(desc.mutated_input.target), reference))
            elif kind == "PlainAOTOutput":
                results.append(Result("loss" if plain == self.step.loss_at else "output", str(plain), reference))
                plain += 1
            elif kind == "GradAOTOutput":
                if type(desc.grad_of).__name__ == "ParamAOTInput":
                    results.append(Result("gradient", self._parameter(desc.grad_of.target), reference))
            else:
                raise InputError(f"torch traced an output of kind {kind}, which no step can return")
        if self.backward and not any(r.kind == "loss" for r in results):
            raise InputError("the loss is no tensor; return a scalar tensor, or the loss and then metrics")
        assert values
        return results

    def _parameter(self, target: str) -> str:
        """Name in the source of a parameter, the first one where it is tied."""
        tensor = _attribute(self.step, target)
        return next(name for name, t in self.tensors.items() if t is tensor)


def _attribute(module: Any, path: str) -> Any:
    for part in path.split("."):
        module = getattr(module, part)
    return module


def _is_view(target: Any) -> bool:
    """Whether all that an operator gives is in the memory of its first tensor, unchanged."""
    name = target._schema.name.rpartition("::")[2]
    if target.namespace == "aten" and name in VIEWS:
        return True
    infos = [r.alias_info for r in target._schema.returns]
    return bool(infos) and all(info is not None and not info.is_write for info in infos)


def _draws(torch: Any, target: Any, node: Any) -> bool:
    """Whether a call draws random numbers: its operator may, and does not say that nothing is dropped."""
    if torch.Tag.nondeterministic_seeded not in target.tags:
        return False
    for k, argument in enumerate(target._schema.arguments):
        if argument.name == "dropout_p":
            given = node.args[k] if k < len(node.args) else node.kwargs.get("dropout_p", argument.default_value)
            return given not in (0, 0.0)
    return True


def _plain(torch: Any, value: Any) -> Any:
    """An argument that is no tensor, as source text."""
    if isinstance(value, bool | int | float | complex | str) or value is None:
        return value
    if isinstance(value, torch.dtype | torch.layout | torch.memory_format):
        return Word(str(value))
    if isinstance(value, torch.device):
        return Word(f'torch.device("{value}")')
    raise InputError(f"torch traced an argument of type {type(value).__name__}, which no step can hold")
