"""`compile_step` and `compile`: from a module to a planned step that runs, and back from a saved plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from lowtide.arguments import Batch, typed
from lowtide.errors import InputError
from lowtide.graph import Graph
from lowtide.outputs import Outputs
from lowtide.sizes import Size
from lowtide.torch.any_optimizer import stand_in
from lowtide.torch.batch import Key, as_batch, called, difference, elements, key_of, other_sizes
from lowtide.torch.capture import Capture, capture, inexact, library
from lowtide.torch.closed import closed_over
from lowtide.torch.cost import Costs, read_costs
from lowtide.torch.eager import EagerStep
from lowtide.torch.frozen import DRAWS, words_of
from lowtide.torch.generate import executable
from lowtide.torch.loss import as_loss
from lowtide.torch.measured_step import EagerCall, StepMeasure, measured
from lowtide.torch.meter import measure_ops, no_costs
from lowtide.torch.mode import Mode, Modes, plain
from lowtide.torch.optimizer import ACCUMULATE, GRADIENT, Clip, Rule, after_backward, ready, rules_of, with_updates
from lowtide.torch.planning import Compared, Planned, PlanOptions, plan_program
from lowtide.torch.program import Given, Program
from lowtide.torch.screen import first_screen
from lowtide.torch.sequence import Sequence as Steps
from lowtide.torch.spent import check_unspent, is_spent, spend
from lowtide.torch.step_options import StepOptions, check_call, check_gradient_hooks, clip_of, measurable, options_of
from lowtide.torch.step_plan import StepPlan
from lowtide.torch.storages import settle

_APART = "gradients are those of the first value alone; if the {} other scalars are losses, return the sum first"

_DECIDED = "a value decides at {}: the step is as under torch.compile, and its last bits may differ from eager's"

_SCALED = (
    "the loss scales by a GradScaler, which looks for infinities before the update; leave optimizer= out of "
    "compile_step, and call scaler.step(optimizer) and scaler.update() behind the step"
)


@dataclass(frozen=True)
class Job:
    """What a step is made of: module, loss, optimizer with its rules, and what was asked of the plan.

    `training`: whether gradients are wanted; `replan`: how many batches of other sizes get a plan of their own;
    `accumulate`: whether gradients are added to ``.grad`` one by one; `clip`: what their norm is clipped to.
    """

    model: Any
    loss_fn: Callable[..., Any] | None
    optimizer: Any
    rules: tuple[Rule, ...]
    options: PlanOptions
    training: bool
    replan: bool | int
    accumulate: bool = False
    clip: float | None = None

    def __post_init__(self) -> None:
        check_call(library(), self.model, self.loss_fn)

    def traced(self, batch: Sequence[Any]) -> tuple[Capture, Program, Compared]:
        """The step for batches of these sizes, traced, with the optimizer's updates; and what it is compared with.
        Raises `InputError`: torch cannot trace it; or the optimizer has none of the module's parameters."""
        if self.training:
            check_gradient_hooks(self.model)
        self.options.say("tracing")
        captured = capture(self.model, self.loss_fn, batch, backward=self.training, optimizer=self.optimizer)
        program = settle(captured.traced)
        gradients = [r.target for r in program.results if r.kind == "gradient"]
        if self.training and not gradients:
            message = "no parameter gets a gradient: requires_grad is False, or the loss reads none; for a forward pass"
            raise InputError(f"{message} there is lowtide.torch.compile", program.name)
        names = {id(tensor): name for name, tensor in captured.tensors.items()}
        rules = dict.fromkeys(gradients if self.accumulate else [], ACCUMULATE)
        if self.optimizer is not None:
            rules, updates = self._updates(names, program.name)
            program = replace(program, updates=updates)
        eager = EagerStep(*after_backward(program, rules), captured.eager)
        inside = with_updates(program, rules)
        order = dict.fromkeys([names[id(p)] for p in self.model.parameters() if id(p) in names])
        program = inside if self.clip is None else with_updates(program, rules, Clip(self.clip, tuple(order)))
        self.options.say(f"traced {len(program.actions)} ops")
        for words in self.caveats(captured, batch):
            self.options.say(words)
        return captured, program, Compared(eager, inside)

    def _updates(self, names: Mapping[int, str], place: str) -> tuple[dict[str, Rule], dict[str, Any]]:
        """The rule of each parameter by its name; and the optimizer's own code, to measure it."""
        groups = self.optimizer.param_groups
        if not any(id(p) in names for group in groups for p in group["params"]):
            raise InputError("the optimizer has no parameter of this module; make it of model.parameters()", place)
        rules: dict[str, Rule] = {}
        updates: dict[str, Any] = {}
        for rule, group in zip(self.rules, groups, strict=True):
            rules.update({names[id(p)]: rule for p in group["params"] if id(p) in names})
            if rule.kind == "any":
                updates[f"{rule.group}.{rule.words}"] = stand_in(self.optimizer, group)
        return rules, updates

    def caveats(self, captured: Capture, batch: Sequence[Any]) -> list[str]:
        """In what the module's steps may differ from eager's, in words."""
        torch = library()
        kinds = inexact(torch, self.model)
        leaves = torch.utils._pytree.tree_leaves(tuple(batch)) if self.training else []
        wanted = [str(k) for k, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
        said = [
            f"{', '.join(kinds)}: last bits may differ from eager's" if kinds else "",
            words_of(captured.changed),
            DRAWS if captured.draws else "",
            _APART.format(captured.output.losses_apart) if self.training and captured.output.losses_apart else "",
            _DECIDED.format(captured.decided) if captured.decided else "",
            f"tensor {', '.join(wanted)} of the batch gets no gradient: parameters alone do" if wanted else "",
        ]
        return [words for words in said if words]

    def build(self, batch: Batch) -> Step:
        """Capture and plan the step for batches of these sizes. Raises `InputError`: as `traced` and `plan_program`
        raise it; or the loss scales by a GradScaler, and there is an optimizer."""
        torch = library()
        batch = as_batch(batch)
        closed = closed_over(torch, self.model, self.loss_fn, batch)
        modes = Modes.of(torch, torch.nn.ModuleList([self.model, *closed.modules.values()]), batch)
        mode = modes.now()
        if closed.scalers and self.optimizer is not None:
            raise InputError(_SCALED, type(self.model).__name__)
        captured, program, compared = self.traced(batch)
        with plain(torch, mode):
            planned = plan_program(torch, program, measurable(self.options, captured), compared)
        caveats = self.caveats(captured, batch)
        return Step(self, planned, captured, caveats, (batch, key_of(torch, batch), modes, mode))


class Step:
    """A planned step: call it with a batch like the example.

    A training step computes the loss and every gradient, and updates parameters, buffers and the optimizer's state in
    place; without an optimizer it leaves the gradients in ``.grad``, added to what is there, as ``loss.backward()``
    does. An inference step returns what the module returns.
    """

    def __init__(
        self,
        job: Job,
        planned: Planned,
        captured: Capture,
        caveats: Sequence[str],
        key: tuple[Sequence[Any], Key, Modes, Mode],
    ) -> None:
        tensors = captured.tensors
        self._job, self._planned, self._tensors, self._output = job, planned, tensors, captured.output
        self._said = caveats
        example, self._key, self._modes, self._mode = key
        self._names = tuple([dict.fromkeys(part) if isinstance(part, Mapping) else None for part in example])
        self._slots = captured.slots
        self._function = executable(planned.source, planned.program.name)
        self._others: dict[Any, Step] = {}
        self._uncompiled = library().compiler.disable(self._call)  # its order is planned
        self.gradient_norm: Any = None
        """With ``clip_grad_norm=``, the norm of the last call's gradients before they were clipped."""
        self._spent: dict[int, Any] = {}
        states = {g.target.partition(":")[2] for g in self.program.givens if g.role == "state"}
        updated = {name for action in self.program.actions for name in action.writes} & set(tensors)
        held = {id(tensors[name]) for name in states | updated}
        groups = () if job.optimizer is None else job.optimizer.param_groups
        self._groups = [[p for p in group["params"] if id(p) in held] for group in groups]

    def __repr__(self) -> str:
        notes = [words for words in (self._planned.unmeasured, self._planned.in_parts, *self._said) if words]
        return first_screen(
            self.program.name,
            self.plan,
            self.graph,
            notes,
            training=self._job.training,
            clipped=self._job.clip is not None,
        )

    @property
    def plan(self) -> StepPlan:
        """What was planned."""
        return self._planned.plan

    @property
    def source(self) -> str:
        """The Python source that runs."""
        return self._planned.source

    @property
    def program(self) -> Program:
        """The step as plain calls, in its own order."""
        return self._planned.program

    @property
    def graph(self) -> Graph:
        """The step as a graph: storages and compute ops."""
        return self._planned.graph

    @property
    def sequence(self) -> Steps:
        """What runs when, and what dies where."""
        return self._planned.sequence

    @property
    def costs(self) -> Costs | None:
        """The cost table that it was planned with; None if nothing was measured."""
        return self._planned.costs

    @property
    def optimizer(self) -> Any:
        """What updates parameters within the step; None: it leaves gradients."""
        return self._job.optimizer

    @property
    def predicted_peak_bytes(self) -> int:
        """Most bytes that a call allocates at once; parameters, buffers, batch and the optimizer's state apart."""
        return self.plan.peak_bytes

    def emit(self, path: str | Path) -> None:
        """Write the source as a Python file. Raises `InputError` if it cannot be written."""
        with Outputs() as outputs:
            outputs.write(path, self.source.encode())

    def save(self, path: str | Path) -> None:
        """Write the plan, for ``plan=`` in another process. Raises `InputError` if it cannot be written."""
        self.plan.save(path)

    def __call__(self, *args: Any, **named: Any) -> Any:
        """Run the step: the loss, with metrics if ``loss_fn`` returns some, or the module's output.

        Parameters
        ----------
        args, named
            A batch like the example: ``step(x, y)``, ``step(x=x, y=y)``, ``step(**batch)``.

        Raises
        ------
        InputError
            The batch is another than those planned for, or the module is in another mode, and ``replan`` does not
            allow that; or the optimizer now needs other ops.
        """
        return self._uncompiled(args, named)

    def _call(self, args: Sequence[Any], named: Mapping[str, Any]) -> Any:
        batch = called(self._job.model, self._job.loss_fn, self._names, args, named)
        step = self.for_batch(*batch)
        returned = step.finish(step.prepare(*batch)())
        self.gradient_norm = step.gradient_norm
        return returned

    def measure(self, *args: Any, **named: Any) -> StepMeasure:
        """Run a batch in eager mode and with this step, and measure memory and time of both; afterwards the module and
        the optimizer are as before, for which a copy of them is kept meanwhile.

        Parameters
        ----------
        args, named
            A batch, as the step is called with.

        Raises
        ------
        InputError
            As a call raises it.
        """
        job = self._job
        batch = called(job.model, job.loss_fn, self._names, args, named)
        step = self.for_batch(*batch)
        eager = EagerCall(job.model, job.loss_fn, job.optimizer, job.clip, job.training, batch)
        return measured(eager, lambda: step.prepare(*batch), step.predicted_peak_bytes, step.program.device)

    def fits(self, *batch: Any) -> bool:
        """Whether this step is planned for a batch of these sizes and for the module's present mode."""
        return key_of(library(), as_batch(batch, self._names)) == self._key and self._modes.now() == self._mode

    def for_batch(self, *batch: Any) -> Step:
        """The step for a batch of these sizes, and for the present module: this one, or one planned anew.

        Raises
        ------
        InputError
            The sizes, or modes, frozen parameters, autocast are others, and ``replan`` does not allow that.
        """
        batch = as_batch(batch, self._names)
        if self.fits(*batch):
            return self
        key, mode, replan = key_of(library(), batch), self._modes.now(), self._job.replan
        if (key, mode) in self._others:
            return self._others[key, mode]
        if mode != self._mode and replan is not True:
            words = self._mode.difference(mode)
            raise InputError(f"the step is {words}; or compile with replan=True", self.program.name)
        if replan is not True and not other_sizes(self._key, key):
            raise InputError(f"{difference(self._key, key)}; or compile with replan=True", self.program.name)
        if replan is not True and len(self._others) >= replan:
            more = f"and plans {replan:d} other shapes at most; give batches of one size, or compile with replan=True"
            raise InputError(f"{difference(self._key, key)}, {more}", self.program.name)
        options = self._options_for(key) if mode == self._mode else self._job.options  # another may need more
        self._others[key, mode] = replace(self._job, options=options).build(batch)
        return self._others[key, mode]

    def _options_for(self, key: Key) -> PlanOptions:
        """What is asked of a plan for another batch: a smaller one may take what this one takes."""
        options = replace(self._job.options, plan=None)
        if (options.part is None and options.slower is None) or elements(key) > elements(self._key):
            return options
        return replace(options, part=None, slower=None, budget=self.plan.peak_bytes)

    def prepare(self, *batch: Any) -> Callable[[], list[Any]]:
        """All that a call does before its first op; a function that runs the ops alone, for meters."""
        torch = library()
        for group in self._groups:
            check_unspent(group)
        numbers = ready(torch, self._job.optimizer, self._job.rules, self._groups) if self._groups else {}
        given = self.given(*batch)

        def run() -> list[Any]:
            with torch.no_grad(), plain(torch, self._mode):
                return self._function(given, numbers)

        return run

    def given(self, *batch: Any) -> list[Any]:
        """The tensors that the ops are given: parameters, buffers, batch, and the state once there is one."""
        torch = library()
        batch = as_batch(batch, self._names)
        leaves = [leaf for leaf in torch.utils._pytree.tree_leaves(batch) if isinstance(leaf, torch.Tensor)]
        return [self._tensor(g, leaves) for g in self.program.givens]

    def _tensor(self, given: Given, leaves: Sequence[Any]) -> Any:
        if given.role == "batch":
            return leaves[int(given.target)]
        if given.role == "state":
            state, _, parameter = given.target.partition(":")
            if state == GRADIENT:
                return _gradient(library(), self._tensors[parameter])
            return self._job.optimizer.state[self._tensors[parameter]][state]
        slot = self._slots.get(given.name)
        tensor = self._tensors[given.name]
        return tensor if slot is None else slot.read_like(tensor)

    def finish(self, results: Sequence[Any]) -> Any:
        """What a call returns, of what its ops returned; gradients go where they belong."""
        outputs: list[Any] = []
        for result, value in zip(self.program.results, results, strict=True):
            if result.kind == "norm":
                self.gradient_norm = value
                continue
            if result.kind != "gradient":
                outputs.append(as_loss(value) if result.kind == "loss" else value)
                continue
            parameter = self._tensors[result.target]
            if is_spent(parameter.grad):
                parameter.grad = value
            else:
                parameter.grad.add_(value)
        for group in self._groups:
            spend(self._job.optimizer, group, self._spent)
        return self._output.filled(outputs)


@typed
def compile_step(
    model: Any,
    loss_fn: Callable[..., Any] | None,
    example: Batch,
    *,
    budget: Size | None = None,
    slower: float | str | None = None,
    optimizer: Any = None,
    clip_grad_norm: float | None = None,
    accumulate: bool = False,
    allow: str | Sequence[str] | None = None,
    plan: StepPlan | str | Path | None = None,
    options: StepOptions | None = None,
) -> Step:
    """Plan a training step of a module: forward, loss, backward, and the optimizer's update.

    Parameters
    ----------
    model
        A `torch.nn.Module`, in the mode (training or not) in which it will run.
    loss_fn
        ``loss_fn(model(batch[0]), *batch[1:])``: a scalar, or the scalar and metrics, as ``return loss, accuracy`` or a
        dict with ``"loss"``. Where ``batch[0]`` is a tuple or a dict, the module gets its parts; keys of a dict that
        ``forward`` does not take go to the loss. It may close over modules and tensors. None: the module returns the
        loss, or something with ``loss``, as models of transformers do.
    example
        A batch: tensors, or tuples, lists and dicts of them; or one dict. Only shapes, strides, types and devices
        matter.
    budget
        Most bytes that a call may allocate at once, as ``"2GiB"``, or a share of eager's peak, as ``"60%"``;
        parameters, buffers, batch and the optimizer's state are there before and do not count.
    slower
        Instead of a budget: the share of eager's time that the step may take in addition, as 0.1 or ``"10%"``; the
        least bytes within it are sought. Both times are predicted from single ops. Without a budget 5 %.
    optimizer
        Each parameter is updated as soon as its gradient is there, and the gradient is freed. `torch.optim.SGD`, `Adam`
        and `AdamW` become ops of the step; others run their own code on one parameter at a time, and are refused where
        that is not what they do. None: gradients are left in ``.grad``.
    clip_grad_norm
        With an optimizer: the most that the norm of the gradients of ``model.parameters()`` may be, as
        `torch.nn.utils.clip_grad_norm_` clips it; ``step.gradient_norm`` is the norm before. All gradients are then
        live at the end of the backward pass, and the updates come behind it: the step's `repr` says what that costs.
    accumulate
        Without an optimizer: add each gradient to the parameter's ``.grad`` as soon as it is there, and let it die.
        These are made of zeros where there are none, before the first op, and do not count. Otherwise all gradients
        are results, which live to the end of the step.
    allow
        What may be changed of the step. ``"recompute"``: ops are recomputed, and results are eager's to the bit.
        ``"recompute,tile"``: ops may run for some rows, channels or part of the batch at a time, with the update of
        the parameter whose gradient they make; kernels and sums then round otherwise than eager's, and the step's
        `repr` says so. ``"recompute,offload"``: tensors may be stored on the host and loaded back while other ops run,
        on the CPU in memory outside the allocator's, on CUDA by torch's operators ``ao``. None: ops are recomputed, and
        in parts where that alone does not meet the budget.
    plan
        A saved plan to replay instead of a search.
    options
        How it is measured, searched for and planned for other batches: `StepOptions`.

    Raises
    ------
    InputError
        torch cannot trace the step; the optimizer is of another kind; no plan within the budget is known; the saved
        plan is of another step.
    MissingExtraError
        torch is not installed.
    """
    torch = library()
    if accumulate and optimizer is not None:
        raise InputError("accumulate=True leaves gradients in .grad for an optimizer that you call; drop optimizer=")
    clip = clip_of(clip_grad_norm, optimizer)
    rules = () if optimizer is None else rules_of(torch, optimizer)
    options = options or StepOptions()
    wanted = options_of(budget, plan, options, allow, slower)
    return Job(model, loss_fn, optimizer, rules, wanted, True, options.replan, accumulate, clip).build(example)


@typed
def compile(
    model: Any,
    example: Batch,
    *,
    budget: Size | None = None,
    plan: StepPlan | str | Path | None = None,
    options: StepOptions | None = None,
) -> Step:
    """Plan the forward pass of a module, without gradients: ``step(*batch)`` returns what ``model(*batch)`` does.

    Parameters are those of `compile_step`.

    Raises
    ------
    InputError
        As `compile_step` raises it.
    MissingExtraError
        torch is not installed.
    """
    options = options or StepOptions()
    return Job(model, None, None, (), options_of(budget, plan, options), False, options.replan).build(example)


@typed
def measure(
    step: Step, *, costs: Costs | str | Path | None = None, report: Callable[[int, int], None] | None = None
) -> Costs:
    """Run each op of a step by itself, and write down its time, workspace and real sizes: a table for ``costs=``.

    Parameters
    ----------
    costs
        A table, or its file, to add to: what is in it is measured once.
    report
        Called with how many ops are measured, and of how many.

    Raises
    ------
    InputError
        The file is no cost table.
    """
    torch = library()
    table = read_costs(costs) if isinstance(costs, str | Path) else costs
    return measure_ops(step.program, table or no_costs(torch, step.program), report)[0]


def _gradient(torch: Any, parameter: Any) -> Any:
    """Where a parameter's gradient is added."""
    if is_spent(parameter.grad):
        parameter.grad = torch.zeros_like(parameter, memory_format=torch.preserve_format)
    return parameter.grad
