"""Ops that run for some rows at a time: which are found, and what they compute, against the step as it is."""

from __future__ import annotations

import copy
import random
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any

import pytest

from lowtide.errors import InputError
from lowtide.stop import Limits
from lowtide.torch import Step, StepOptions, compile_step
from lowtide.torch.costed import Costed, costed
from lowtide.torch.cutting import proposals, usual
from lowtide.torch.generate import executable, source_of
from lowtide.torch.meter import allocator_peak, measure_ops, no_costs
from lowtide.torch.program import Program
from lowtide.torch.rows import Region, groups, has_workspace, regions
from lowtide.torch.search import largest_op
from lowtide.torch.slices import sliced
from lowtide.torch.work import by_operations
from lowtide_research.bench.heads import head_alone
from lowtide_research.bench.train_known import gpt_plain
from lowtide_research.bench.train_nets import Training, training

torch: Any = None
with suppress(ImportError):
    torch = import_module("torch")
    torch.set_num_threads(1)

pytestmark = [pytest.mark.skipif(torch is None, reason="needs the extra torch"), pytest.mark.slow]

CLOSE = 2e-5
"""Largest difference over the largest value: sums in another order, in float32."""


def head(loss: str, *, ignored: bool = False, bias: bool = False) -> Training:
    """A linear head behind a layer, with a loss over its rows."""
    nn = torch.nn
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(12, 16), nn.Tanh(), nn.Linear(16, 90, bias=bias))
    x, target = torch.randn(21, 12), torch.randint(90, (21,))
    if ignored:
        target[::3] = -100
    functions = {
        "mean": nn.functional.cross_entropy,
        "sum": lambda o, t: nn.functional.cross_entropy(o, t, reduction="sum"),
        "mse": lambda o, t: nn.functional.mse_loss(o, t[:, None].float().expand(-1, 90)),
    }
    return Training(model, functions[loss], (x, target))


def found(net: Training) -> tuple[Step, Costed, list[Region]]:
    """A step as it is, and the regions around its largest op."""
    step = compile_step(net.model, net.loss_fn, net.batch, options=StepOptions(measure=False, time=0))
    own = costed(torch, step.program, None)
    return step, own, regions(torch, step.program, step.graph, largest_op(step.graph)[1])


def furthest(a: list[Any], b: list[Any]) -> float:
    """Largest difference of two lists of tensors, over the largest value of each."""
    pairs = zip(a, b, strict=True)
    return max(float((x - y).abs().max()) / max(1e-30, float(y.abs().max())) for x, y in pairs)


def as_planned(step: Step, net: Training, program: Program) -> list[Any]:
    """What a program with parts computes; the allocator gives out what is planned of its own order, but for 8 bytes."""
    table, failed = measure_ops(program, no_costs(torch, program))
    assert failed == ()
    own = costed(torch, program, table).own
    function = executable(source_of(program, own), "cut")

    def run() -> Any:
        with torch.no_grad():
            return function(step.given(*net.batch), {})

    results, peak = allocator_peak(run)
    assert abs(peak - own.peak_bytes) <= 8
    return results


@pytest.mark.parametrize("ignored", [False, True])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("loss", ["mean", "sum", "mse"])
def test_any_number_of_parts_computes_what_the_step_does(loss: str, bias: bool, ignored: bool) -> None:
    """One part bit by bit but for sums that begin at zero; more up to the order of sums. Each takes what is planned."""
    net = head(loss, bias=bias, ignored=ignored and loss != "mse")
    step, own, those = found(net)
    assert those
    expected = step.prepare(*net.batch)()
    for region in those:
        for parts in (1, 2, 4, 5, 21):
            results = as_planned(step, net, sliced(step.program, own.graph, [region], parts))
            assert furthest(results, expected) <= (1e-6 if parts == 1 else CLOSE)


def test_each_part_moves_the_weight_and_its_gradient_whole() -> None:
    """What a roofline takes longer by for many parts: 400 words by 32 in float32, the gradient read and written."""
    net = gpt_plain(torch, torch.nn, 2, 32, 2, 32, 400)
    step, own, those = found(net)
    cut = sliced(step.program, own.graph, those[:1], 4)
    body = next(iter(cut.bodies.values()))
    names = [action.call.target.split(".")[1] for action in body.actions]
    moved = dict(zip(zip(names, range(len(names)), strict=True), body.full_bytes, strict=True))
    products = sorted(size for (name, _), size in moved.items() if name == "mm")
    assert products == [400 * 32 * 4, 400 * 32 * 4, 2 * 400 * 32 * 4]
    assert all(size <= 16 for (name, _), size in moved.items() if name != "mm")


def test_the_head_of_a_language_model_is_found() -> None:
    """From the scores to both of their gradients, over all tokens; only what is small goes in and out."""
    net = gpt_plain(torch, torch.nn, 2, 32, 2, 32, 400)
    step, _, those = found(net)
    names = [step.program.actions[k].call.target.split(".")[1] for k in those[0].indices]
    assert names == [
        "mm", "_log_softmax", "nll_loss_forward", "nll_loss_backward", "_log_softmax_backward_data", "mm", "mm"
    ]  # fmt: skip
    assert those[0].rows == 64
    largest = 64 * 400 * 4
    assert all(step.program.forms[name].extent_bytes < largest for name in (*those[0].given, *those[0].made))


def convolutional(seed: int) -> Training:
    """A few layers drawn at random that run for part of the batch: convolutions of every kind, norms, pools."""
    nn, draw = torch.nn, random.Random(seed)
    torch.manual_seed(seed)
    width, places, layers = 8, 12, []
    for _ in range(draw.randint(2, 4)):
        groups, stride, bias = draw.choice([1, 1, 4, width]), draw.choice([1, 1, 2]), draw.random() < 0.5
        kind = draw.choice(["plain", "transposed", "upsampled"])
        if kind == "transposed":
            layers.append(nn.ConvTranspose2d(width, width, 3, stride, 1, groups=groups, bias=bias))
        else:
            layers += [nn.Upsample(scale_factor=2, mode=draw.choice(["nearest", "bilinear"]))] * (kind == "upsampled")
            layers.append(nn.Conv2d(width, width, draw.choice([1, 3]), stride, 1, groups=groups, bias=bias))
        layers += draw.sample([nn.GroupNorm(2, width), nn.SiLU(), nn.LeakyReLU(), nn.MaxPool2d(3, 1, 1)], 2)
    model = nn.Sequential(nn.Conv2d(3, width, 3, 1, 1), *layers, nn.AdaptiveAvgPool2d(2), nn.Flatten())
    model.append(nn.Linear(4 * width, 5))
    batch = torch.randn(6, 3, places, places), torch.randint(5, (6,))
    return Training(model, nn.functional.cross_entropy, batch)


@pytest.mark.parametrize("seed", range(6))
def test_convolutions_run_for_part_of_the_batch(seed: int) -> None:
    """Around convolutions and gradients of them: as many bytes as are planned, and results up to the order of sums; bit
    by bit where one convolution alone runs for two images or more at a time: torch has another kernel for one image,
    and oneDNN for a number of channels that is no multiple of a vector's."""
    net = convolutional(seed)
    step = compile_step(net.model, net.loss_fn, net.batch, options=StepOptions(measure=False, time=0))
    own, expected = costed(torch, step.program, None), step.prepare(*net.batch)()
    draw = random.Random(seed)
    convolutions = [k for k, a in enumerate(step.program.actions) if has_workspace(a) and not a.writes]
    for seed_op in draw.sample(convolutions, 4):
        found = groups(torch, step.program, step.graph, seed_op)
        assert found
        for group in (found[0], draw.choice(found)):
            parts = min(draw.choice([2, 3, group[0].rows]), group[0].rows)
            results = as_planned(step, net, sliced(step.program, own.graph, group, parts))
            exact = len(group[0].ops) == 1 and group[0].rows == len(net.batch[0]) > parts
            assert furthest(results, expected) <= (0 if exact and not adds_up(step.program, group) else CLOSE)


def is_gradient(action: Any) -> bool:
    """Whether an op is the gradient of a convolution."""
    return action.call.target.startswith("aten.convolution_backward.")


def adds_up(program: Program, group: Sequence[Region]) -> bool:
    """Whether some result of a group's ops is a sum over its parts."""
    rows = [(row.dims, program.actions[row.index].outputs) for region in group for row in region.ops]
    return any(dim is None and name for dims, outputs in rows for dim, name in zip(dims, outputs, strict=True))


def test_a_convolution_alone_is_cut_where_its_gradient_is_highest() -> None:
    """The gradient of large weights, behind statistics of the batch: along output channels no sum is in parts, and the
    kernel's workspace becomes smaller with them."""
    nn = torch.nn
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 64, 16, 16), nn.BatchNorm2d(64), nn.ReLU(), nn.Flatten(), nn.Linear(256, 5))
    net = Training(model, nn.functional.cross_entropy, (torch.randn(2, 3, 32, 32), torch.randint(5, (2,))))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    own = compile_step(net.model, net.loss_fn, net.batch, optimizer=optimizer, options=StepOptions(time=0))
    options, budget = StepOptions(costs=own.costs, time=4), own.plan.floor_bytes * 3 // 4
    given = {"optimizer": optimizer, "options": options, "budget": budget}
    with pytest.raises(InputError, match=r"'convolution_backward.*' .*alone takes .*; allow='recompute,tile' may"):
        compile_step(net.model, net.loss_fn, net.batch, allow="recompute", **given)
    step = compile_step(net.model, net.loss_fn, net.batch, **given)
    assert "ops in parts: " in repr(step)
    assert any(is_gradient(own.program.actions[k]) for cut in step.plan.cuts[:1] for k in cut.ops)
    eager = copy.deepcopy(model)
    other = torch.optim.SGD(eager.parameters(), lr=0.1)
    loss = step(*net.batch)
    expected = net.loss_fn(eager(net.batch[0]), *net.batch[1:])
    expected.backward()
    other.step()
    assert torch.equal(loss, expected.detach())
    both = [[p.detach() for p in m.parameters()] for m in (model, eager)]
    assert furthest(*both) <= CLOSE
    _, peak = allocator_peak(step.prepare(*net.batch))
    assert peak <= step.predicted_peak_bytes <= budget


@pytest.mark.parametrize("name", ["resnet", "unet"])
def test_statistics_of_the_batch_end_a_region(name: str) -> None:
    """No axis runs through a norm of the batch: what is cut beside it are single convolutions."""
    step, _, those = found(training(name))
    kinds = [[step.program.actions[k].call.target.split(".")[1] for k in region.indices] for region in those]
    assert all(names == ["convolution_backward"] for names in kinds)


def test_three_steps_with_the_head_cut_stay_beside_eager() -> None:
    """A budget that no order meets without a cut, AdamW inside; the allocator gives out what was planned."""
    torch.manual_seed(0)
    net = gpt_plain(torch, torch.nn, 2, 32, 2, 32, 2000)
    eager = copy.deepcopy(net.model)
    optimizer, other = (torch.optim.AdamW(m.parameters(), lr=1e-3) for m in (net.model, eager))
    own = compile_step(net.model, net.loss_fn, net.batch, optimizer=optimizer, options=StepOptions(time=0))
    budget = own.plan.floor_bytes // 2
    with pytest.raises(InputError, match=r"alone takes .*allow='recompute,tile' may cut it"):
        compile_step(
            net.model, net.loss_fn, net.batch, optimizer=optimizer, options=StepOptions(costs=own.costs),
            budget=budget, allow="recompute",
        )  # fmt: skip
    step = compile_step(
        net.model, net.loss_fn, net.batch, optimizer=optimizer, options=StepOptions(costs=own.costs, time=4),
        budget=budget,
    )  # fmt: skip
    assert step.plan.cuts
    assert step.plan.unmeasured == 0
    for _ in range(3):
        loss = step(*net.batch)
        other.zero_grad()
        expected = net.loss_fn(eager(net.batch[0]), *net.batch[1:])
        expected.backward()
        other.step()
        assert abs(float(loss - expected.detach())) < 1e-4
    _, peak = allocator_peak(step.prepare(*net.batch))
    assert peak == step.predicted_peak_bytes <= budget
    again = compile_step(
        net.model,
        net.loss_fn,
        net.batch,
        optimizer=optimizer,
        options=StepOptions(costs=step.costs, measure=False),
        plan=step.plan,
    )
    assert again.source == step.source
    broken = sorted({0, *step.plan.cuts[0].ops})
    cuts = [type(step.plan.cuts[0])(ops=broken, parts=2)]
    plan = import_module("msgspec").structs.replace(step.plan, cuts=cuts)
    with pytest.raises(InputError, match="are no region of this step"):
        compile_step(
            net.model,
            net.loss_fn,
            net.batch,
            optimizer=optimizer,
            options=StepOptions(costs=own.costs, measure=False),
            plan=plan,
        )


def around(net: Training, kind: str) -> tuple[Step, Costed, list[tuple[Region, ...]]]:
    """A step as it is, and the regions around its first op of a kind, with those of other layers."""
    step = compile_step(net.model, net.loss_fn, net.batch, options=StepOptions(measure=False, time=0))
    own = costed(torch, step.program, None)
    seed = next(k for k, a in enumerate(step.program.actions) if a.call.target.split(".")[1] == kind)
    return step, own, groups(torch, step.program, step.graph, seed)


@pytest.mark.parametrize("kind", ["_softmax", "_softmax_backward_data", "gelu_backward"])
def test_layers_in_parts_compute_what_the_step_does(kind: str) -> None:
    """Attention up to the loss, its gradient with the weights made again, the gradient of the feed-forward part: in
    parts of the batch, of the queries and of the hidden units, and the last feed-forward part with the loss behind it.
    All layers of a kind have one function. Bit by bit where nothing is added up in parts, and the allocator gives out
    what is planned."""
    net = gpt_plain(torch, torch.nn, 3, 32, 4, 16, 90)
    step, own, those = around(net, kind)
    layers = [group for group in those if len(group) == 3]
    assert len(layers) == 2
    assert all(bool(group[0].recomputed) == (kind != "_softmax") for group in layers)
    assert [len(group) for group in those if group not in layers] == [1] * (kind == "gelu_backward")
    expected = step.prepare(*net.batch)()
    for group in those:
        sums = any(dim is None for row in group[0].ops for dim in row.dims)
        for parts in (1, 2, 3, 4):
            program = sliced(step.program, own.graph, group, parts)
            assert len(program.bodies) == 1
            assert furthest(as_planned(step, net, program), expected) <= (CLOSE if sums else 0)


def test_attention_is_cut_where_its_weights_are_highest_and_batch_norm_is_before_it() -> None:
    """Own order's floor is three times the weights; within half of it they are in parts, and made again behind the
    loss. The saved plan gives the same source again; without one of its ops the others are no region."""
    net = pictures(batch_norm=True)
    own = compile_step(net.model, net.loss_fn, net.batch, options=StepOptions(time=0))
    budget = own.plan.floor_bytes // 2
    step = compile_step(
        net.model,
        net.loss_fn,
        net.batch,
        options=StepOptions(costs=own.costs, time=8),
        budget=budget,
        allow="recompute,tile",
    )
    kinds = {own.program.actions[k].call.target for cut in step.plan.cuts[:1] for k in (*cut.ops, *cut.again)}
    assert {"aten._softmax.default", "aten.bmm.default"} <= kinds
    expected = own.prepare(*net.batch)()
    results, peak = allocator_peak(step.prepare(*net.batch))
    assert peak <= step.predicted_peak_bytes + 8 <= budget + 8
    assert furthest(results, expected) <= CLOSE
    again = compile_step(
        net.model, net.loss_fn, net.batch, options=StepOptions(costs=step.costs, measure=False), plan=step.plan
    )
    assert again.source == step.source
    structs = import_module("msgspec").structs
    ops = step.plan.cuts[0].ops
    broken = structs.replace(step.plan.cuts[0], ops=ops[:2] + ops[3:])
    plan = structs.replace(step.plan, cuts=[broken])
    with pytest.raises(InputError, match="are no region of this step"):
        compile_step(net.model, net.loss_fn, net.batch, options=StepOptions(costs=own.costs, measure=False), plan=plan)


def test_within_a_bound_on_time_attention_is_cut_as_well() -> None:
    """Of 256 places it takes less than three quarters of what running ops again alone does in a quarter more time."""
    net = pictures(batch_norm=True)
    table = by_operations(
        torch, compile_step(net.model, net.loss_fn, net.batch, options=StepOptions(measure=False, time=0)).program
    )
    options = StepOptions(costs=table, measure=False, time=6)
    peaks = [
        compile_step(net.model, net.loss_fn, net.batch, options=options, allow=allow, slower=0.25).plan.peak_bytes
        for allow in ("recompute", "recompute,tile")
    ]
    assert 4 * peaks[1] < 3 * peaks[0]


def pictures(*, batch_norm: bool) -> Training:
    """Convolutions, then two layers of attention over 256 places, whose weights are what the step is made of."""
    nn, heads, width = torch.nn, 2, 16
    torch.manual_seed(0)

    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.qkv = nn.LayerNorm(width), nn.Linear(width, 3 * width)

        def forward(self, x: Any) -> Any:
            b, n, _ = x.shape
            q, k, v = (t.view(b, n, heads, -1).transpose(1, 2) for t in self.qkv(self.norm(x)).chunk(3, -1))
            return x + ((q @ k.transpose(-1, -2)).softmax(-1) @ v).transpose(1, 2).reshape(b, n, width)

    class Pictures(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            norm = nn.BatchNorm2d(width) if batch_norm else nn.Identity()
            self.stem = nn.Sequential(nn.Conv2d(3, width, 3, 1, 1, bias=not batch_norm), norm)  # or its gradient is 0
            self.layers, self.head = nn.Sequential(Attention(), Attention()), nn.Linear(width, 5)

        def forward(self, x: Any) -> Any:
            return self.head(self.layers(self.stem(x).flatten(2).transpose(1, 2)).mean(1))

    return Training(Pictures(), nn.functional.cross_entropy, (torch.randn(4, 3, 16, 16), torch.randint(5, (4,))))


@pytest.mark.parametrize("kind", ["_softmax_backward_data", "gelu_backward"])
def test_what_is_made_again_reads_parameters_before_they_are_changed(kind: str) -> None:
    """With an optimizer's updates inside, all layers cut: results and parameters are those of the step as it is."""
    torch.manual_seed(0)
    net = gpt_plain(torch, torch.nn, 2, 32, 4, 16, 90)
    optimizer = torch.optim.SGD(net.model.parameters(), lr=0.1)
    step = compile_step(
        net.model, net.loss_fn, net.batch, optimizer=optimizer, options=StepOptions(measure=False, time=0)
    )
    own = costed(torch, step.program, None)
    seed = next(k for k, a in enumerate(step.program.actions) if a.call.target.split(".")[1] == kind)
    group = next(group for group in groups(torch, step.program, step.graph, seed) if len(group) == 2)
    assert group[0].recomputed
    cut = costed(torch, sliced(step.program, own.graph, group, 3), None)
    ends = []
    for program, sequence in ((step.program, own.own), (cut.program, cut.own)):
        given = [tensor.detach().clone() for tensor in step.given(*net.batch)]
        with torch.no_grad():
            results = executable(source_of(program, sequence), "step")(given, defaultdict(lambda: 0.5))
        ends.append([*results, *given])
    assert furthest(ends[1], ends[0]) <= CLOSE
    assert not all(torch.equal(a, b) for a, b in zip(given, step.given(*net.batch), strict=True))


def optimizers() -> dict[str, Callable[[Any], Any]]:
    """A maker of each kind of optimizer whose updates are ops of the step."""
    optim = torch.optim
    return {
        "sgd": lambda p: optim.SGD(p, lr=0.1),
        "momentum": lambda p: optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01),
        "adam": lambda p: optim.Adam(p, weight_decay=0.01),
        "adamw": lambda p: optim.AdamW(p),
    }


@pytest.mark.parametrize("kind", list(optimizers() if torch else ["none"]))
@pytest.mark.parametrize("layer", ["convolution", "linear"])
def test_a_parameter_is_updated_row_by_row_with_its_gradient(kind: str, layer: str) -> None:
    """No part of the step holds all of the gradient; parameters and state are those of the step as it is."""
    nn = torch.nn
    torch.manual_seed(0)
    layers = {"convolution": nn.Conv2d(4, 12, 3, padding=1), "linear": nn.Conv2d(4, 12, 1)}
    model = nn.Sequential(nn.Conv2d(3, 4, 1), layers[layer], nn.Flatten(), nn.Linear(12 * 25, 6))
    net = Training(model, nn.functional.cross_entropy, (torch.randn(2, 3, 5, 5), torch.randint(6, (2,))))
    optimizer = optimizers()[kind](model.parameters())
    step = compile_step(
        net.model, net.loss_fn, net.batch, optimizer=optimizer, options=StepOptions(measure=False, time=0)
    )
    step.prepare(*net.batch)  # makes the optimizer's state
    own = costed(torch, step.program, None)
    name = {"convolution": "p_1_weight", "linear": "p_3_weight"}[layer]
    seed = next(k for k, a in enumerate(step.program.actions) if name in a.writes)
    those = [g for g in groups(torch, step.program, step.graph, seed) if len(g[0].ops) > 1]
    assert those
    for group in those:
        region, shape = group[0], step.program.forms[name].shape
        assert shape not in [step.program.forms[made].shape for made in region.made]  # the gradient is never complete
        assert {n for row in region.ops for n in step.program.actions[row.index].writes} >= {name}
        for parts in (2, region.rows):
            cut = costed(torch, sliced(step.program, own.graph, [region], parts), None)
            ends = []
            for program, sequence in ((step.program, own.own), (cut.program, cut.own)):
                given = [tensor.detach().clone() for tensor in step.given(*net.batch)]
                with torch.no_grad():
                    results = executable(source_of(program, sequence), "step")(given, defaultdict(lambda: 0.5))
                ends.append([*results, *given])
            assert furthest(ends[1], ends[0]) <= CLOSE


def test_what_reads_all_of_a_parameter_is_not_in_parts_with_its_update() -> None:
    """The gradient of the layer's input along the rows of its result would read rows that are changed already."""
    nn = torch.nn
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.Linear(8, 5))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    batch = torch.randn(4, 6), torch.randn(4, 5)
    step = compile_step(
        model, nn.functional.mse_loss, batch, optimizer=optimizer, options=StepOptions(measure=False, time=0)
    )
    actions = step.program.actions
    update = next(k for k, a in enumerate(actions) if "p_1_weight" in a.writes)
    for group in groups(torch, step.program, step.graph, update):
        changed = {name for k in group[0].indices for name in actions[k].writes}
        for row in group[0].ops:
            assert all(operand.along is not None for operand in row.operands if operand.root in changed)


def test_no_more_parts_are_taken_than_the_budget_asks_for() -> None:
    """Five where four are too few, though eight are tried before; and with the time as bound as many as it allows."""
    net = head_alone(16, 3000, 120)
    step, own, those = found(net)
    region = max(those, key=lambda r: len(r.indices))

    def cut_in(parts: int) -> Costed:
        return costed(torch, sliced(step.program, own.graph, [region], parts), None)

    alone = {parts: largest_op(cut_in(parts).graph)[0] for parts in (4, 5, 8)}
    assert alone[8] < alone[5] < alone[4]
    chosen = proposals(torch, own, None, alone[4] - 1, Limits(60))
    assert [record.parts for record in chosen[0].records] == [5]
    most = cut_in(7).seconds_of(cut_in(7).graph.own_order)
    assert 7 in {cut.parts for cut in usual(torch, own, None, most)}
    plan = compile_step(
        net.model,
        net.loss_fn,
        net.batch,
        options=StepOptions(measure=False, time=20),
        budget=alone[4] - 1,
        allow="recompute,tile",
    )
    assert [cut.parts for cut in plan.plan.cuts] == [5]
    assert abs(float(plan(*net.batch) - step(*net.batch))) < 1e-2


def test_below_all_cuts_the_op_is_named_that_no_cut_makes_smaller() -> None:
    """And not the head, which parts would have made small enough."""
    net = gpt_plain(torch, torch.nn, 1, 32, 2, 32, 2000)
    options = StepOptions(measure=False)
    for allow, head_named in (("recompute", True), ("recompute,tile", False)):
        with pytest.raises(InputError, match="alone takes") as refused:
            compile_step(net.model, net.loss_fn, net.batch, options=options, budget=1000, allow=allow)
        assert ("_log_softmax_backward_data" in str(refused.value)) == head_named


def test_what_may_be_changed_is_said_in_known_words() -> None:
    """Other words are named; recomputing is always allowed."""
    net = head("mean")
    with pytest.raises(InputError, match="allow does not know 'concat'"):
        compile_step(net.model, net.loss_fn, net.batch, options=StepOptions(measure=False), allow="recompute,concat")
    with pytest.raises(InputError, match="with tile or offload"):
        compile_step(net.model, net.loss_fn, net.batch, options=StepOptions(measure=False), allow=["tile"])
