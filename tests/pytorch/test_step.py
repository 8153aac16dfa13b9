"""Planned steps against eager ones: bit by bit, and by the allocator's own events; only where torch is installed."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import pytest

from lowtide.errors import InputError
from lowtide.run.torch import storages_peak
from lowtide.torch import StepOptions, compile, compile_step, curve
from lowtide.torch.meter import allocator_peak
from lowtide.torch.step import Step
from lowtide.torch.step_plan import OverBudgetError
from lowtide_research.bench.train_nets import NETS, training

torch: Any = None
with suppress(ImportError):
    torch = import_module("torch")
    torch.set_num_threads(1)  # small nets, and other tests beside them

pytestmark = [pytest.mark.skipif(torch is None, reason="needs the extra torch"), pytest.mark.slow]


def optimizers() -> dict[str, Callable[[Any], Any]]:
    """A maker of each kind of optimizer, by name."""
    optim = torch.optim
    return {
        "sgd": lambda p: optim.SGD(p, lr=0.05),
        "momentum": lambda p: optim.SGD(p, lr=0.05, momentum=0.9, weight_decay=1e-3, dampening=0.1),
        "nesterov": lambda p: optim.SGD(p, lr=0.05, momentum=0.9, nesterov=True, maximize=True),
        "fused sgd": lambda p: optim.SGD(p, lr=0.05, momentum=0.9, weight_decay=1e-3, fused=True),
        "adam": lambda p: optim.Adam(p, lr=1e-3, weight_decay=1e-2),
        "adamw": lambda p: optim.AdamW(p, lr=1e-3),
        "fused adamw": lambda p: optim.AdamW(p, lr=1e-3, fused=True),
        "fused adam": lambda p: optim.Adam(p, lr=1e-3, fused=True),
    }


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """A stretch of random numbers that others do not see."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        yield


def same(a: Any, b: Any) -> bool:
    """Whether two tensors are equal bit by bit, signs of zeros apart."""
    return a.dtype == b.dtype and a.shape == b.shape and torch.equal(a, b)


def differing(step: Step, net: Any, eager: Any, optimizer: Any, eager_optimizer: Any, steps: int = 3) -> list[str]:
    """Names of all that differs after each of some steps: losses, parameters, buffers, the optimizer's state."""
    names = []
    for k in range(steps):
        with seeded(k):
            loss = step(*net.batch)
        with seeded(k):
            eager_optimizer.zero_grad()
            expected = net.loss_fn(eager(net.batch[0]), *net.batch[1:])
            expected.backward()
            eager_optimizer.step()
        names += [] if same(loss, expected.detach()) else [f"loss {k}"]
        both = zip(net.model.state_dict().items(), eager.state_dict().values(), strict=True)
        names += [f"{name} {k}" for (name, a), b in both if not same(a, b)]
        for a, b in zip(optimizer.state.values(), eager_optimizer.state.values(), strict=True):
            names += [f"{key} {k}" for key, value in b.items() if value is not None and not same(a[key], value)]
    return names


@pytest.mark.parametrize("name", NETS)
def test_within_a_budget_three_steps_are_eagers_bit_by_bit(name: str) -> None:
    """Two budgets between the largest op and file order: the allocator gives out what was planned."""
    own = None
    for share in (0.6, 0.4):
        net = training(name)
        eager = copy.deepcopy(net.model)
        optimizer, eager_optimizer = (torch.optim.AdamW(m.parameters(), fused=True) for m in (net.model, eager))
        if own is None:
            own = compile_step(net.model, net.loss_fn, net.batch, optimizer=optimizer, options=StepOptions(time=0))
        costs = own.costs
        budget = own.plan.floor_bytes + int(share * (own.plan.peak_bytes - own.plan.floor_bytes))
        step = compile_step(
            net.model, net.loss_fn, net.batch, optimizer=optimizer, options=StepOptions(costs=costs), budget=budget
        )
        assert step.costs == costs
        assert step.predicted_peak_bytes <= budget < own.predicted_peak_bytes
        assert differing(step, net, eager, optimizer, eager_optimizer) == []
        _, measured = allocator_peak(step.prepare(*net.batch))
        assert abs(measured - step.predicted_peak_bytes) <= step.predicted_peak_bytes / 1000


@pytest.mark.parametrize(("name", "kind"), list(zip(NETS, optimizers() if torch else NETS, strict=True)))
def test_three_steps_are_eagers_bit_by_bit(name: str, kind: str) -> None:
    """Every net with another optimizer: losses, parameters, buffers, state; and the allocator gives out what the plan
    says."""
    net = training(name)
    eager = copy.deepcopy(net.model)
    optimizer, eager_optimizer = (optimizers()[kind](m.parameters()) for m in (net.model, eager))
    before = torch.get_rng_state()
    step = compile_step(net.model, net.loss_fn, net.batch, optimizer=optimizer, options=StepOptions(time=0))
    assert torch.equal(before, torch.get_rng_state())
    assert differing(step, net, eager, optimizer, eager_optimizer) == []
    assert step.plan.unmeasured == 0
    _, measured = allocator_peak(step.prepare(*net.batch))
    assert abs(measured - step.predicted_peak_bytes) <= step.predicted_peak_bytes / 1000
    _, storages = storages_peak(step.prepare(*net.batch), step.given(*net.batch))
    assert 0 < storages <= measured


def perceptron() -> tuple[Any, Any, tuple[Any, Any]]:
    """A small net without surprises, its loss, a batch."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
    return model, torch.nn.functional.mse_loss, (torch.randn(5, 8), torch.randn(5, 4))


def test_without_an_optimizer_gradients_add_up_in_grad() -> None:
    """As `loss.backward()` does, call after call."""
    model, loss_fn, batch = perceptron()
    eager = copy.deepcopy(model)
    step = compile_step(model, loss_fn, batch, options=StepOptions(measure=False))
    for _ in range(2):
        loss = step(*batch)
        expected = loss_fn(eager(batch[0]), batch[1])
        expected.backward()
        assert same(loss, expected.detach())
        for a, b in zip(model.parameters(), eager.parameters(), strict=True):
            assert same(a.grad, b.grad)


def test_a_learning_rate_may_change_between_steps() -> None:
    """The optimizer is asked at every call; a switch of its ops is refused."""
    model, loss_fn, batch = perceptron()
    eager = copy.deepcopy(model)
    optimizer, other = (torch.optim.SGD(m.parameters(), lr=0.1) for m in (model, eager))
    step = compile_step(model, loss_fn, batch, optimizer=optimizer, options=StepOptions(measure=False))
    for rate in (0.1, 0.01):
        optimizer.param_groups[0]["lr"] = other.param_groups[0]["lr"] = rate
        step(*batch)
        other.zero_grad()
        loss_fn(eager(batch[0]), batch[1]).backward()
        other.step()
        assert all(same(a, b) for a, b in zip(model.parameters(), eager.parameters(), strict=True))
    optimizer.param_groups[0]["momentum"] = 0.9
    with pytest.raises(InputError, match="momentum was switched on or off"):
        step(*batch)


def test_another_batch_size_is_refused_or_planned_anew() -> None:
    """The message names both sizes."""
    model, loss_fn, batch = perceptron()
    other = (torch.randn(3, 8), torch.randn(3, 4))
    step = compile_step(model, loss_fn, batch, options=StepOptions(measure=False, replan=False))
    with pytest.raises(InputError, match=r"planned for float32\[5, 8\].*got float32\[3, 8\].*replan=True"):
        step(*other)
    step = compile_step(model, loss_fn, batch, options=StepOptions(measure=False, replan=True))
    assert same(step(*other), loss_fn(model(other[0]), other[1]).detach())
    assert step.for_batch(*other) is step.for_batch(*other)
    assert step.for_batch(*batch) is step


def test_progress_is_reported() -> None:
    """Tracing, measuring to the end, what the search is for, and its first plan."""
    model, loss_fn, batch = perceptron()
    lines: list[str] = []
    own = compile_step(model, loss_fn, batch, options=StepOptions(report=lines.append, time=0))
    assert lines[0] == "tracing"
    assert lines[1] == f"traced {len(own.graph.ops)} ops"
    kinds = len(own.costs.ops) if own.costs else 0
    assert lines[-1] == f"measured {kinds} of {kinds} kinds of op"
    budget = own.predicted_peak_bytes
    compile_step(model, loss_fn, batch, options=StepOptions(costs=own.costs, report=lines.append), budget=budget)
    assert lines[-1].startswith("eager takes ")
    net = training("generator")
    compile_step(
        net.model,
        net.loss_fn,
        net.batch,
        options=StepOptions(measure=False, report=lines.append, time=0.5),
        budget="90%",
    )
    assert lines[-2].startswith("a plan within ")
    assert lines[-2].endswith(" time; seeking a faster one")
    assert lines[-1].endswith(" ops not measured: their workspace is not counted")


def test_a_step_says_how_many_ops_were_not_measured() -> None:
    """In its `repr` and in the last line of progress, a curve's too; one of measured ops says nothing of it."""
    model, loss_fn, batch = perceptron()
    lines: list[str] = []
    step = compile_step(model, loss_fn, batch, options=StepOptions(measure=False, report=lines.append, time=0))
    ops = len(step.graph.ops)
    words = f"{ops} of {ops} ops not measured: their workspace is not counted"
    assert f"  note         {words}\n" in repr(step)
    assert lines[-1] == words
    curve(model, loss_fn, batch, options=StepOptions(measure=False, time=0.1, report=lines.append), points=2)
    assert lines[-1] == words
    assert lines.count(words) == 2
    assert "not measured" not in repr(compile_step(model, loss_fn, batch))


def test_where_nothing_is_asked_the_least_bytes_within_five_percent_are_planned() -> None:
    """The same plan as with ``slower=0.05``, lower than file order; and eager's step bit by bit."""
    net = training("swiglu")
    eager = copy.deepcopy(net.model)
    optimizer, other = (torch.optim.AdamW(m.parameters(), lr=1e-3) for m in (net.model, eager))
    table = compile_step(net.model, net.loss_fn, net.batch, optimizer=optimizer, options=StepOptions(time=0)).costs
    default, asked = (
        compile_step(
            net.model, net.loss_fn, net.batch, optimizer=optimizer, slower=slower, options=StepOptions(costs=table)
        )
        for slower in (None, "5%")
    )
    assert default.plan.ops == asked.plan.ops
    assert default.plan.seconds <= 1.05 * default.plan.own_order_seconds * (1 + 1e-6)
    assert default.plan.peak_bytes < default.plan.own_order_peak_bytes <= default.plan.eager_peak_bytes
    for _ in range(2):
        loss = default(*net.batch)
        other.zero_grad()
        expected = net.loss_fn(eager(net.batch[0]), *net.batch[1:])
        expected.backward()
        other.step()
        assert torch.equal(loss, expected.detach())
    _, peak = allocator_peak(default.prepare(*net.batch))
    assert peak == default.predicted_peak_bytes


def test_the_best_plan_above_a_budget_comes_with_the_error() -> None:
    """Just above the largest op and without time for a search: the budget that would do is said, the plan is there."""
    net = training("gpt")
    own = compile_step(net.model, net.loss_fn, net.batch, options=StepOptions(measure=False, time=0))
    with pytest.raises(OverBudgetError, match=r"the best takes .*; give budget=\"\d+%\" of eager or more") as refused:
        compile_step(
            net.model,
            net.loss_fn,
            net.batch,
            options=StepOptions(measure=False, time=0),
            budget=own.plan.floor_bytes + 1,
            allow="recompute",
        )
    plan = pickle.loads(pickle.dumps(refused.value)).plan
    assert own.plan.floor_bytes + 1 < plan.peak_bytes <= own.plan.peak_bytes
    step = compile_step(net.model, net.loss_fn, net.batch, options=StepOptions(measure=False), plan=plan)
    assert step.predicted_peak_bytes == plan.peak_bytes


def test_a_saved_plan_is_replayed_and_only_for_its_own_step(tmp_path: Path) -> None:
    """Of another module it is refused; a changed one too."""
    model, loss_fn, batch = perceptron()
    step = compile_step(model, loss_fn, batch, options=StepOptions(measure=False))
    step.save(tmp_path / "step.json")
    again = compile_step(model, loss_fn, batch, options=StepOptions(measure=False), plan=tmp_path / "step.json")
    assert again.source == step.source
    assert again.plan == step.plan
    with pytest.raises(InputError, match="is of another step"):
        compile_step(
            model[0], loss_fn, (batch[0], torch.randn(5, 16)), options=StepOptions(measure=False), plan=step.plan
        )
    text = (tmp_path / "step.json").read_text()
    (tmp_path / "step.json").write_text(text.replace('"ops":[0,1,2', '"ops":[2,1,0'))
    with pytest.raises(InputError, match="does not hold"):
        compile_step(model, loss_fn, batch, options=StepOptions(measure=False), plan=tmp_path / "step.json")
    (tmp_path / "step.json").write_text("{}")
    with pytest.raises(InputError, match="no plan of a step"):
        compile_step(model, loss_fn, batch, options=StepOptions(measure=False), plan=tmp_path / "step.json")


def test_the_source_is_a_module_of_its_own(tmp_path: Path) -> None:
    """What is emitted runs without lowtide, and gives what the step gives."""
    model, loss_fn, batch = perceptron()
    step = compile_step(model, loss_fn, batch, options=StepOptions(measure=False))
    step.emit(tmp_path / "S.py")
    namespace: dict[str, Any] = {}
    exec((tmp_path / "S.py").read_text(), namespace)
    given = {**dict(model.named_parameters()), "0": batch[0], "1": batch[1]}
    with torch.no_grad():
        results = namespace["step"]([given[g.target] for g in step.program.givens], {})
    assert same(results[0], step(*batch))


def test_an_inference_step_returns_what_the_module_returns() -> None:
    """Nested as it is, in evaluation mode, parameters still trainable afterwards."""

    class Two(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = torch.nn.Linear(8, 8), torch.nn.BatchNorm1d(8)

        def forward(self, x: Any, scale: Any = None) -> Any:
            h = self.b(self.a(x))
            return {"sum": h.sum(), "rest": (h.view(2, -1), None, 3)}

    model, x = Two().eval(), torch.randn(4, 8)
    step = compile(model, (x,))
    with torch.no_grad():
        expected = model(x)
    output = step(x)
    assert same(output["sum"], expected["sum"])
    assert same(output["rest"][0], expected["rest"][0])
    assert output["rest"][1:] == (None, 3)
    assert all(p.requires_grad for p in model.parameters())


def test_a_batch_that_is_no_tuple_is_refused():
    """A tensor would be taken for as many as it has rows."""
    with pytest.raises(InputError, match=r"of type Tensor; give a tuple of what a call takes, as \(x, y\)"):
        compile_step(torch.nn.Linear(4, 4), torch.nn.MSELoss(), torch.zeros(2, 4), options=StepOptions(measure=False))


def test_what_cannot_be_planned_is_said_in_one_line() -> None:
    """A loss that is no scalar, a module that branches on values, a mask."""
    model, _, batch = perceptron()

    class Branching(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return x if x.sum() > 0 else -x

    with pytest.raises(InputError, match="loss has shape"):
        compile_step(model, None, batch[:1], options=StepOptions(measure=False))
    line = Branching.forward.__code__.co_firstlineno + 1
    where = rf"a value decides in Python at .*test_step\.py:{line}; write it with tensors, as torch\.where does"
    with pytest.raises(InputError, match=f"Branching: torch cannot trace it: .*, {where}"):
        compile(Branching(), batch[:1])
    with pytest.raises(InputError, match=where):
        compile_step(Branching(), lambda y: y.mean(), batch[:1])
    with pytest.raises(InputError, match=r"values decide the size of a result, as a mask does at .*test_step\.py:"):
        compile_step(model, lambda out, y: out[y > 0].mean(), batch)


def test_a_budget_may_be_a_share_of_eagers_peak() -> None:
    """An error says what the best plan takes and what none is below."""
    model, loss_fn, batch = deep()
    eager = compile_step(model, loss_fn, batch, options=StepOptions(measure=False)).plan.eager_peak_bytes
    step = compile_step(model, loss_fn, batch, options=StepOptions(measure=False), budget="60%")
    assert step.predicted_peak_bytes <= eager * 0.6 == pytest.approx(step.plan.budget_bytes, abs=1)
    options, budget = StepOptions(measure=False, time=0.1), step.plan.floor_bytes + 1
    with pytest.raises(InputError, match=r"the best takes .* \(none is below "):
        compile_step(model, loss_fn, batch, options=options, budget=budget, allow="recompute")
    with pytest.raises(InputError, match="is no share of eager's peak; write 60%"):
        compile_step(model, loss_fn, batch, options=StepOptions(measure=False), budget="160%")
    with pytest.raises(InputError, match=r"the saved plan takes .*, and the budget is .*; leave one of them out"):
        compile_step(model, loss_fn, batch, options=StepOptions(measure=False), plan=step.plan, budget="50%")


def test_parts_are_proposed_for_ops_alone_that_a_region_holds() -> None:
    """A head's scores may be computed in parts; batch norm's gradient may not."""
    nn = torch.nn
    head = nn.Linear(8, 64), nn.CrossEntropyLoss(), (torch.randn(16, 8), torch.randint(64, (16,)))
    with pytest.raises(InputError, match=r"alone takes .*; allow='recompute,tile' may cut it"):
        compile_step(*head, options=StepOptions(measure=False), budget=1, allow="recompute")
    norm = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8)), lambda y: y.mean(), (torch.randn(8, 3, 16, 16),)
    with pytest.raises(InputError, match="alone takes") as refused:
        compile_step(*norm, options=StepOptions(measure=False), budget=1, allow="recompute")
    assert "recompute,tile" not in str(refused.value)


def test_added_time_may_be_in_per_cent() -> None:
    """It is the same as the part of one: time grows by no more, and bytes fall."""
    model, loss_fn, batch = deep()
    for slower in (0.1, "10%", " 10 %"):
        plan = compile_step(model, loss_fn, batch, options=StepOptions(measure=False, time=0.2), slower=slower).plan
        assert plan.seconds <= plan.own_order_seconds * 1.1 * (1 + 1e-6)
        assert plan.peak_bytes < plan.own_order_peak_bytes


def test_a_call_that_is_put_together_wrongly_is_said_in_words(caplog: pytest.LogCaptureFixture) -> None:
    """A batch that is no tuple, a loss that is none, words for numbers, a class of optimizer, one of another module: in
    one line, with no traceback that torch logs."""
    model, loss_fn, batch = perceptron()
    sgd, words_for_time = torch.optim.SGD, cast("Any", "fast")
    swapped = cast("Any", batch)
    for call, words in (
        (lambda: compile_step(model, loss_fn, batch[0]), r"type Tensor; give a tuple .* as \(x, y\)"),
        (lambda: compile_step(model, swapped, loss_fn), "loss_fn is of type tuple"),
        (lambda: compile_step(loss_fn, loss_fn, batch), "the model is of type function; give a torch.nn.Module"),
        (lambda: compile_step(model, cast("Any", torch.nn.MSELoss), batch), r"loss_fn is the class MSELoss; make one"),
        (lambda: compile_step(model, loss_fn, ()), r"the example is empty; give .* as \(x, y\)"),
        (lambda: compile_step(model, None, batch), "; without a loss_fn the module takes all of the batch"),
        (lambda: compile_step(model, lambda net, x, y: net(x).sum(), batch), r"the loss is loss_fn\(model\(x\), y\)"),
        (lambda: compile_step(model, loss_fn, (batch[0][:, 1:], batch[1])), "cannot trace it: a and b must have same"),
        (lambda: compile(model, batch[0]), "type Tensor; give a tuple"),
        (lambda: compile_step(model, loss_fn, batch, slower=words_for_time), "such as 0.1 or '10%', and not 'fast'"),
        (lambda: compile_step(model, loss_fn, batch, slower="-5%"), "and not '-5%'"),
        (lambda: compile_step(model, loss_fn, batch, budget=cast("Any", 0.6)), "no number of bytes; write '60%'"),
        (lambda: compile_step(model, loss_fn, batch, options=StepOptions(time=-1)), "time is -1; write seconds"),
        (lambda: compile_step(model, loss_fn, batch, optimizer=sgd), r"is the class SGD; make one, as SGD\(model"),
        (lambda: compile_step(model, loss_fn, batch, optimizer=sgd(deep()[0].parameters())), "no parameter of this"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=words):
            call()
    assert [r for r in caplog.records if r.levelname == "ERROR"] == []


def test_a_batch_of_equal_sizes_that_is_another_is_told_apart() -> None:
    """In one tuple; with other strides; nothing at all."""
    model, loss_fn, batch = perceptron()
    step = compile_step(model, loss_fn, batch, options=StepOptions(measure=False))
    with pytest.raises(InputError, match="put together in another way"):
        step(batch)
    with pytest.raises(InputError, match=r"with strides \(1, 5\), not \(8, 1\)"):
        step(batch[0].t().contiguous().t(), batch[1])
    with pytest.raises(InputError, match="and got nothing"):
        step()


def deep() -> tuple[Any, Any, tuple[Any, Any]]:
    """Ten layers alike, whose values between are most of what a step takes."""
    nn = torch.nn
    model = nn.Sequential(*(nn.Sequential(nn.Linear(16, 16), nn.ReLU()) for _ in range(10)))
    return model, nn.functional.mse_loss, (torch.randn(256, 16), torch.randn(256, 16))


@pytest.mark.parametrize("call", ["register_hook", "register_post_accumulate_grad_hook"])
def test_a_hook_on_a_gradient_is_refused(call: str) -> None:
    """A step would not run it; a forward pass has no gradients, and a frozen parameter none."""
    model, x = torch.nn.Linear(4, 4), torch.randn(3, 4)
    handle = getattr(model.weight, call)(lambda given: None)
    with pytest.raises(InputError, match=rf"parameter 'weight' has a hook on its gradient \({call}\)"):
        compile_step(model, torch.sum, (x,), options=StepOptions(measure=False))
    compile(model, (x,), options=StepOptions(measure=False))
    handle.remove()
    compile_step(model, torch.sum, (x,), options=StepOptions(measure=False))


def test_a_curve_has_no_swap() -> None:
    """What it does not look for is refused, not dropped."""
    with pytest.raises(InputError, match="a curve has no plans with offload"):
        curve(
            torch.nn.Linear(4, 4),
            torch.sum,
            (torch.randn(3, 4),),
            options=StepOptions(measure=False),
            allow="recompute,offload",
        )
