"""An optimizer's update inside the step: right after each gradient, which dies there.

For SGD and Adam the operators are those of torch's own code for one tensor at a time (``foreach=False``), or its fused
kernels (``fused=True``), so that parameters and state are equal bit by bit. Other optimizers run their own code
(`lowtide.torch.any_optimizer`). Learning rates and their like are numbers that the optimizer gives at every call
(`ready`); whether there is momentum or weight decay at all is fixed when the step is made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from lowtide.errors import InputError
from lowtide.read.aten.trace import Form, Ref
from lowtide.torch.any_optimizer import check_single_updates, update, words_of
from lowtide.torch.program import Action, Call, Given, Program, Result, Word, refs
from lowtide.torch.storages import root_of

GRADIENT = "grad"  # name of the state in which gradients add up


@dataclass(frozen=True)
class Rule:
    """What one group of an optimizer's parameters is updated by; everything that changes the ops.

    `kind` is ``"sgd"`` or ``"adam"``; ``"any"`` where the optimizer's own code runs (`lowtide.torch.any_optimizer`);
    ``"sum"`` where the gradient is added to what is there. `decoupled`: decay apart from the gradient (AdamW). `words`:
    the optimizer's name and options.
    """

    group: int
    kind: str
    decay: bool = False
    momentum: bool = False
    nesterov: bool = False
    maximize: bool = False
    decoupled: bool = False
    fused: bool = False
    words: str = ""

    @property
    def states(self) -> tuple[str, ...]:
        """Names of what is kept of each parameter, as torch names them."""
        if self.kind == "sum":
            return (GRADIENT,)
        if self.kind == "any":
            return ()
        if self.kind == "sgd":
            return ("momentum_buffer",) if self.momentum else ()
        return ("exp_avg", "exp_avg_sq", "step") if self.fused else ("exp_avg", "exp_avg_sq")

    def number(self, name: str) -> Word:
        """Source of a number that is read at every call."""
        return Word(f'h["{self.group}.{name}"]')


ACCUMULATE = Rule(0, "sum")  # no optimizer: each gradient is added to the parameter's ``.grad``


def rules_of(torch: Any, optimizer: Any) -> tuple[Rule, ...]:
    """The rule of each group. Raises `InputError`: an optimizer, or an option of it, that cannot stand in a planned
    step."""
    if isinstance(optimizer, type):
        name = optimizer.__name__
        raise InputError(f"optimizer= is the class {name}; make one, as {name}(model.parameters())")
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise InputError(f"optimizer= is of type {type(optimizer).__name__}; give a torch.optim.Optimizer")
    kind = {torch.optim.SGD: "sgd", torch.optim.Adam: "adam", torch.optim.AdamW: "adam"}.get(type(optimizer))
    rules = []
    for k, group in enumerate(optimizer.param_groups):
        if kind is None or any(group.get(option) for option in _OTHER_CODE):
            rules.append(Rule(k, "any", words=words_of(optimizer, group)))
            continue
        decoupled = group.get("decoupled_weight_decay", type(optimizer) is torch.optim.AdamW)
        fused = bool(group.get("fused"))
        rules.append(
            Rule(
                k, kind, group["weight_decay"] != 0, kind == "sgd" and group["momentum"] != 0,
                kind == "sgd" and bool(group["nesterov"]), bool(group["maximize"]), kind == "adam" and decoupled, fused,
            )
        )  # fmt: skip
    if any(rule.kind == "any" for rule in rules):
        check_single_updates(torch, optimizer)
    return tuple(rules)


_OTHER_CODE = ("foreach", "amsgrad", "capturable", "differentiable")
"""Options with which SGD and Adam run other code than the ops below."""


@dataclass(frozen=True)
class Clip:
    """Gradients are scaled so that their norm is `most` at most; `names` of parameters, in the order of its sum."""

    most: float
    names: tuple[str, ...]


def with_updates(program: Program, rules: Mapping[str, Rule], clip: Clip | None = None) -> Program:
    """The program with each gradient's update as early as no reader of the parameter is left.

    Buffers are written at the end: what reads them may then be recomputed at any time. `rules`: by name of the
    parameter; gradients of others stay results. `clip`: updates then wait for the norm of all gradients, which is a
    result too.
    """
    if clip is not None:
        program = _clipped(program, clip)
    readers: dict[str, int] = {}
    makers: dict[str, int] = {}
    for k, action in enumerate(program.actions):
        readers.update({ref.name: k for ref in refs(action.call)})
        makers.update({name: k for name in action.outputs if name is not None})
    by_name = {given.name: given for given in program.givens}
    forms, givens = dict(program.forms), list(program.givens)
    behind: dict[int, list[Action]] = {}
    kept: list[Result] = []
    for result in program.results:
        rule = rules.get(result.target) if result.kind == "gradient" else None
        if result.kind == "buffer":
            call = Call("aten.copy_.default", (Ref(result.target), result.value))
            action = Action(f"write_{result.target}", call, writes=(result.target,))
            behind.setdefault(len(program.actions), []).append(action)
        elif rule is None:
            kept.append(result)
        else:
            update = _Updating(rule, by_name[result.target], forms)
            actions = update.actions(result.value)
            givens += update.states
            at = max(makers.get(root_of(result.value), -1), readers.get(result.target, -1))
            behind.setdefault(at, []).extend(actions)
    actions = behind.get(-1, [])
    for k, action in enumerate(program.actions):
        actions += [action, *behind.get(k, ())]
    actions += behind.get(len(program.actions), [])
    return replace(program, givens=tuple(givens), actions=tuple(actions), forms=forms, results=tuple(kept))


def _clipped(program: Program, clip: Clip) -> Program:
    """The program with its gradients scaled as `torch.nn.utils.clip_grad_norm_` scales them, and their norm."""
    gradients = {r.target: r for r in program.results if r.kind == "gradient" and r.target in clip.names}
    forms, actions = dict(program.forms), list(program.actions)

    def add(name: str, target: str, form: Form, *args: Any) -> Ref:
        forms[name] = form
        actions.append(Action(name, Call(target, args), (name,)))
        return Ref(name)

    norms = []
    for name in clip.names:
        if name in gradients:
            form = replace(forms[name], shape=(), strides=(), offset=0)
            norms.append(add(f"norm_{name}", "aten.linalg_vector_norm.default", form, gradients[name].value, 2.0))
    if not norms:
        return program
    stacked = Call("aten.stack.default", (tuple(norms),))
    norm = add("gradient_norm", "aten.linalg_vector_norm.default", forms[norms[0].name], stacked, 2.0)
    inverse = Call("aten.reciprocal.default", (Call("aten.add.Tensor", (norm, 1e-6)),))
    share = Call("aten.mul.Tensor", (inverse, clip.most))
    share = add("gradient_share", "aten.clamp.default", forms[norm.name], share, None, 1.0)
    results = [Result("norm", "", norm)]
    for result in program.results:
        if result.kind == "gradient" and result.target in gradients:
            name = f"clipped_{result.target}"
            value = add(name, "aten.mul.Tensor", forms[result.target], result.value, share)
            result = replace(result, value=value)
        results.append(result)
    return replace(program, actions=tuple(actions), forms=forms, results=tuple(results))


def after_backward(program: Program, rules: Mapping[str, Rule]) -> tuple[Program, int]:
    """The program as eager mode runs it: all gradients stay, and the updates come after the backward pass, parameter
    by parameter; and of how many ops these are. Gradients that are added to ``.grad`` are added where they are made, as
    autograd does."""
    added = {name: rule for name, rule in rules.items() if rule.kind == "sum"}
    program = with_updates(program, added)
    forms, givens, actions = dict(program.forms), list(program.givens), list(program.actions)
    by_name, count = {given.name: given for given in program.givens}, len(actions)
    for result in program.results:
        rule = rules.get(result.target) if result.kind == "gradient" else None
        if rule is not None:
            update = _Updating(rule, by_name[result.target], forms)
            actions += update.actions(result.value)
            givens += update.states
    return replace(program, givens=tuple(givens), actions=tuple(actions), forms=forms), len(actions) - count


class _Updating:
    """The ops that update one parameter."""

    def __init__(self, rule: Rule, parameter: Given, forms: dict[str, Any]) -> None:
        self.rule, self.parameter, self.forms = rule, parameter, forms
        self.own = Ref(parameter.name)
        self.states: list[Given] = []
        for state in rule.states:
            form = parameter.form
            if state == "step":
                form = replace(form, shape=(), strides=(), offset=0, dtype="float32", width=4)
            given = Given(f"{state}_{parameter.name}", "state", f"{state}:{parameter.name}", form)
            self.states.append(given)
            forms[given.name] = form

    def actions(self, gradient: Ref | Call) -> list[Action]:
        """Ops in the order in which torch runs them."""
        rule = self.rule
        if rule.kind == "sum":
            into, added = Ref(self.states[0].name), list[Action]()
            self._write(added, "add", Call("aten.add_.Tensor", (into, gradient)), into)
            return added
        if rule.kind == "any":
            call = Call(f"optimizer.{rule.group}.{rule.words}", (self.own, gradient))
            return [Action(f"update_{self.own.name}", call, writes=(self.own.name,))]
        if rule.fused:
            return self._fused(gradient)
        before: list[Action] = []
        if rule.maximize:
            gradient = self._value(before, "negative", Call("aten.neg.default", (gradient,)))
        if rule.decay and rule.decoupled:
            self._write(before, "decay", Call("aten.mul_.Tensor", (self.own, rule.number("decay"))), self.own)
        elif rule.decay:
            options = (("alpha", rule.number("weight_decay")),)
            gradient = self._value(before, "decayed", Call("aten.add.Tensor", (gradient, self.own), options))
        return before + (self._sgd(gradient) if rule.kind == "sgd" else self._adam(gradient))

    def _sgd(self, gradient: Ref | Call) -> list[Action]:
        rule, actions = self.rule, []
        if rule.momentum:
            buffer = Ref(self.states[0].name)
            damped = Call("aten.mul_.Tensor", (buffer, rule.number("momentum")))
            call = Call("aten.add_.Tensor", (damped, gradient), (("alpha", rule.number("fresh")),))
            self._write(actions, "momentum", call, buffer)
            if rule.nesterov:
                options = (("alpha", rule.number("momentum")),)
                gradient = self._value(actions, "ahead", Call("aten.add.Tensor", (gradient, buffer), options))
            else:
                gradient = buffer
        call = Call("aten.add_.Tensor", (self.own, gradient), (("alpha", rule.number("minus_lr")),))
        self._write(actions, "update", call, self.own)
        return actions

    def _adam(self, gradient: Ref | Call) -> list[Action]:
        rule, actions = self.rule, []
        first, second = (Ref(state.name) for state in self.states)
        call = Call("aten.lerp_.Scalar", (first, gradient, rule.number("rest_1")))
        self._write(actions, "first", call, first)
        damped = Call("aten.mul_.Tensor", (second, rule.number("beta2")))
        options = (("value", rule.number("rest_2")),)
        call = Call("aten.addcmul_.default", (damped, gradient, gradient), options)
        self._write(actions, "second", call, second)
        root = Call("aten.div_.Tensor", (Call("aten.sqrt.default", (second,)), rule.number("correction")))
        divisor = Call("aten.add_.Tensor", (root, rule.number("eps")))
        call = Call("aten.addcdiv_.default", (self.own, first, divisor), (("value", rule.number("minus_step")),))
        self._write(actions, "update", call, self.own)
        return actions

    def _fused(self, gradient: Ref | Call) -> list[Action]:
        rule, actions = self.rule, []
        if isinstance(gradient, Call):  # the kernel reads memory in its own order
            options = (("memory_format", Word("torch.contiguous_format")),)
            laid = Call("aten.clone.default", (gradient,), options)
            gradient = self._value(actions, "laid_out", laid)
        lists: list[tuple[Ref, ...]] = [(self.own,), (gradient,)]
        names = ["weight_decay", "lr"]
        if rule.kind == "sgd":
            lists.append((Ref(self.states[0].name),) if rule.momentum else ())
            names += ["momentum", "dampening", "is_first_step"]
            literal: tuple[tuple[str, Any], ...] = (("nesterov", rule.nesterov),)
            target = "aten._fused_sgd_.default"
        else:
            first, second, step = (Ref(state.name) for state in self.states)
            lists += [(first,), (second,), (), (step,)]
            names += ["beta1", "beta2", "eps"]
            literal = (("amsgrad", False),)
            target = "aten._fused_adamw_.default" if rule.decoupled else "aten._fused_adam_.default"
        numbers = tuple([(name, rule.number(name)) for name in names])
        call = Call(target, tuple(lists), (*numbers, *literal, ("maximize", rule.maximize)))
        written = [self.own.name, *(state.name for state in self.states if not state.name.startswith("step_"))]
        actions.append(Action(f"update_{self.parameter.name}", call, writes=tuple(written)))
        return actions

    def _value(self, actions: list[Action], what: str, call: Call) -> Ref:
        name = f"{what}_{self.parameter.name}"
        self.forms[name] = self.parameter.form
        actions.append(Action(name, call, (name,)))
        return Ref(name)

    def _write(self, actions: list[Action], what: str, call: Call, into: Ref) -> None:
        actions.append(Action(f"{what}_{self.parameter.name}", call, writes=(into.name,)))


def ready(torch: Any, optimizer: Any, rules: Sequence[Rule], parameters: Sequence[Sequence[Any]]) -> dict[str, Any]:
    """Make or find the state of each group's parameters, count the step, and give the numbers of this call. Raises
    `InputError`: an option now asks for other ops than those of the step, or parameters of a group have seen
    different numbers of steps."""
    numbers: dict[str, Any] = {}
    for rule, group, tensors in zip(rules, optimizer.param_groups, parameters, strict=True):
        if rule.kind == "any":
            numbers[f"{rule.group}.{rule.words}"] = partial(update, optimizer, group)
            continue
        _same_rule(rule, group)
        counts = {_count(torch, optimizer, rule, tensor) for tensor in tensors}
        if len(counts) > 1:
            raise InputError(
                "parameters of one group have seen different numbers of steps; give them groups of their own"
            )
        step = max(counts, default=1)
        own = _sgd_numbers(group, step == 1) if rule.kind == "sgd" else _adam_numbers(group, step)
        numbers.update({f"{rule.group}.{name}": value for name, value in own.items()})
    return numbers


def _same_rule(rule: Rule, group: Mapping[str, Any]) -> None:
    switches = [("weight_decay", rule.decay), ("maximize", rule.maximize)]
    if rule.kind == "sgd":
        switches += [("momentum", rule.momentum), ("nesterov", rule.nesterov)]
    for name, before in switches:
        if bool(group[name]) != before:
            raise InputError(f"{name} was switched on or off since the step was compiled; compile it again")


def _count(torch: Any, optimizer: Any, rule: Rule, tensor: Any) -> int:
    """The number of this step for a parameter, from 1; its state is made where there is none."""
    if not rule.states:
        return 2
    state = optimizer.state[tensor]
    if rule.kind == "sgd":
        if state.get("momentum_buffer") is not None:
            return 2
        # -0.0 is what x + buffer leaves as it is, whatever x: the first buffer is the gradient itself
        state["momentum_buffer"] = torch.full_like(tensor, -0.0, memory_format=torch.preserve_format)
        return 1
    if not state:
        kind = torch.float64 if torch.get_default_dtype() == torch.float64 else torch.float32
        kind = torch.float32 if rule.fused else kind
        state["step"] = torch.zeros((), dtype=kind, device=tensor.device if rule.fused else "cpu")
        for name in ("exp_avg", "exp_avg_sq"):
            state[name] = torch.zeros_like(tensor, memory_format=torch.preserve_format)
    state["step"] += 1
    return int(state["step"].item())


def _sgd_numbers(group: Mapping[str, Any], first: bool) -> dict[str, Any]:
    lr, dampening = float(group["lr"]), group["dampening"]
    return {
        "lr": lr, "minus_lr": -lr, "weight_decay": group["weight_decay"], "momentum": group["momentum"],
        "dampening": dampening, "is_first_step": first, "fresh": 1.0 if first else 1 - dampening,
    }  # fmt: skip


def _adam_numbers(group: Mapping[str, Any], step: int) -> dict[str, Any]:
    lr, decay, (beta_1, beta_2) = float(group["lr"]), group["weight_decay"], map(float, group["betas"])
    return {
        "lr": lr, "weight_decay": decay, "decay": 1 - lr * decay, "beta1": beta_1, "beta2": beta_2, "eps": group["eps"],
        "rest_1": 1 - beta_1, "rest_2": 1 - beta_2, "correction": (1 - beta_2**step) ** 0.5,
        "minus_step": -(lr / (1 - beta_1**step)),
    }  # fmt: skip
