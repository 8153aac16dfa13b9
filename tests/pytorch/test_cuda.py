"""What stands for CUDA, where there is no such device: the source of a step whose tensors lie on one, run with torch's
operators stood in for, and on fake tensors; the meter over numbers that are given to it; refusals."""

from __future__ import annotations

import copy
import weakref
from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import replace
from functools import cache
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import pytest

from lowtide.errors import InputError
from lowtide.run.torch import storages_peak
from lowtide.torch import Costs, StepOptions, compile_step, cuda_meter, meter, planning
from lowtide.torch.cuda_meter import CudaPeak, check_device, cuda_peak, cuda_seconds
from lowtide.torch.generate import executable
from lowtide.torch.meter import measure_ops, no_costs
from lowtide.torch.planning import Planned, PlanOptions, plan_program
from lowtide.torch.program import Call, Program, Word
from lowtide_research.bench.train_nets import training

torch: Any = None
with suppress(ImportError):
    torch = import_module("torch")
    torch.set_num_threads(1)

pytestmark = pytest.mark.skipif(torch is None, reason="needs the extra torch")
NETS = ("unet", pytest.param("gpt", marks=pytest.mark.slow))
PLACE = 'torch.device("cuda", 0)'


def _moved(value: Any, kind: str) -> Any:
    """A value of a call that names the CPU, with a device of another kind."""
    if isinstance(value, Word):
        return Word(value.replace('torch.device("cpu")', f'torch.device("{kind}", 0)'))
    if isinstance(value, Call):
        kwargs = tuple([(key, _moved(inner, kind)) for key, inner in value.kwargs])
        return replace(value, args=_moved(value.args, kind), kwargs=kwargs)
    return tuple([_moved(inner, kind) for inner in value]) if isinstance(value, tuple) else value


def on(kind: str, program: Program) -> Program:
    """A program with all its tensors on another device."""
    forms = {name: replace(form, device=(kind, 0)) for name, form in program.forms.items()}
    givens = tuple([replace(given, form=forms[given.name]) for given in program.givens])
    actions = tuple([replace(action, call=_moved(action.call, kind)) for action in program.actions])
    return replace(program, givens=givens, actions=actions, forms=forms)


@cache
def swapped(name: str) -> tuple[Any, Any, Planned]:
    """A net, its step on the CPU without transfers, and a plan on CUDA of the same ops with transfers."""
    net = training(name, 1)
    own = compile_step(net.model, net.loss_fn, net.batch, options=StepOptions(measure=False, time=0))
    least, most = own.plan.floor_bytes, own.plan.own_order_peak_bytes
    costs = Costs("cuda", "any", 1, [], (1e12, 1e12))  # so fast that transfers cost less than running again
    options = PlanOptions(least + 2 * (most - least) // 3, costs, False, 3.0, allow=("recompute", "offload"))
    planned = plan_program(torch, on("cuda", own.program), options)
    assert any(instance.moved for instance in planned.sequence.instances)
    return net, own, planned


class Transfers:
    """Stands for ``torch.ops.ao``: what is stored is copied when it is waited for, if its memory still lives; what is
    loaded is there when it is waited for, and no number before."""

    def __init__(self) -> None:
        self.under_way: dict[int, Callable[[], Any]] = {}
        self.stored = self.loaded = 0

    def offload(self, tensor: Any) -> Any:
        """The host's copy, which is filled later."""
        assert tensor.dim() == 1
        host, storage = SimpleNamespace(values=None), weakref.ref(tensor.untyped_storage())
        shape, kind = tuple(tensor.shape), tensor.dtype

        def end() -> None:
            memory = storage()
            assert memory is not None, "the tensor died before it was stored"
            host.values = torch.empty(0, dtype=kind).set_(memory, 0, shape, (1,)).numpy().copy()

        self.under_way[id(host)] = end
        self.stored += 1
        return host

    def reload(self, host: Any, device: Any) -> Any:
        """A tensor that is filled later."""
        assert host.values is not None, "loaded before it was stored"
        tensor = torch.empty(host.values.shape, dtype=torch.from_numpy(host.values).dtype)
        tensor.fill_(float("nan") if tensor.is_floating_point() else 1)
        storage = weakref.ref(tensor.untyped_storage())

        def end() -> None:
            memory = storage()
            assert memory is not None
            torch.empty(0, dtype=tensor_type).set_(memory, 0, host.values.shape, (1,)).copy_(
                torch.from_numpy(host.values)
            )

        tensor_type = tensor.dtype
        self.under_way[tensor.data_ptr()] = end
        self.loaded += 1
        return tensor

    def wait_tensor(self, tensor: Any) -> Any:
        """The end of a transfer that has begun."""
        self.under_way.pop(tensor.data_ptr() if isinstance(tensor, torch.Tensor) else id(tensor))()
        return tensor


@pytest.mark.parametrize("name", NETS)
def test_the_source_for_cuda_is_eager_bit_by_bit_where_its_operators_are_stood_in_for(name: str):
    """And holds what was planned at once; every tensor is waited for before it is read, and before its memory goes."""
    net, own, planned = swapped(name)
    eager = copy.deepcopy(net.model)
    text = planned.source.replace("torch.ops.ao", "ao").replace(PLACE, 'torch.device("cpu")')
    assert "cuda" not in text
    transfers = Transfers()
    given = own.given(*net.batch)
    step: Any = executable(text.replace("import torch\n", "import torch\nao = None\n", 1), name)
    step.__globals__["ao"] = transfers
    torch.manual_seed(1)
    with torch.no_grad():
        returned, peak = storages_peak(lambda: step(given, {}), given)
    assert transfers.stored
    assert transfers.loaded
    assert not transfers.under_way
    assert peak == planned.sequence.peak_bytes
    torch.manual_seed(1)
    loss = net.loss_fn(eager(net.batch[0]), *net.batch[1:])
    loss.backward()
    own.finish(returned)
    assert torch.equal(returned[[r.kind for r in own.program.results].index("loss")], loss.detach())
    for mine, other in zip(net.model.parameters(), eager.parameters(), strict=True):
        assert torch.equal(mine.grad, other.grad)


@pytest.mark.parametrize("name", NETS)
def test_the_source_for_cuda_runs_on_fake_tensors(name: str):
    """torch's own operators, as they are declared, take and give what the source says; results lie on the device."""
    _, _, planned = swapped(name)
    mode = import_module("torch._subclasses.fake_tensor").FakeTensorMode()
    with mode, torch.no_grad():
        given = [
            torch.empty_strided(f.shape, f.strides, dtype=getattr(torch, f.dtype), device="cuda:0")
            for f in (g.form for g in planned.program.givens)
        ]
        returned = executable(planned.source, name)(given, {})
    assert {str(value.device) for value in returned} == {"cuda:0"}


class Cuda:
    """Stands for ``torch.cuda``: an allocator that says what it is told to, and a clock."""

    def __init__(self) -> None:
        self.now = {"requested_bytes": 1000, "allocated_bytes": 1024, "reserved_bytes": 2**21}
        self.most = {"requested_bytes": 10**9, "allocated_bytes": 10**9, "reserved_bytes": 10**9}
        self.backend, self.waited, self.marks = "native", 0, 0

    def is_available(self) -> bool:
        """It is there."""
        return True

    def device_count(self) -> int:
        """One of it."""
        return 1

    def get_allocator_backend(self) -> str:
        """Whose memory it is."""
        return self.backend

    def synchronize(self, device: Any = None) -> None:
        """Nothing runs."""
        self.waited += 1

    def device(self, number: Any) -> Any:
        """It is current."""
        return nullcontext()

    def reset_peak_memory_stats(self, device: Any) -> None:
        """The most is what is there now."""
        self.most = dict(self.now)

    def memory_stats(self, device: Any) -> dict[str, int]:
        """What was counted."""
        now = {f"{kind}.all.current": size for kind, size in self.now.items()}
        return now | {f"{kind}.all.peak": size for kind, size in self.most.items()}

    def take(self, size: int) -> None:
        """Bytes that are given out and taken back."""
        blocks = -(-size // 512) * 512
        for kind, more in (("requested_bytes", size), ("allocated_bytes", blocks), ("reserved_bytes", 0)):
            self.most[kind] = max(self.most[kind], self.now[kind] + more)

    def Event(self, *, enable_timing: bool) -> Any:
        """A mark on the clock."""
        assert enable_timing
        return Mark(self)


class Mark:
    """An event; between two that follow each other lie 2.5 milliseconds."""

    def __init__(self, cuda: Cuda) -> None:
        self.cuda, self.at, self.there = cuda, -1, False

    def record(self) -> None:
        """It is started."""
        self.cuda.marks += 1
        self.at = self.cuda.marks

    def synchronize(self) -> None:
        """It is waited for."""
        assert self.at > 0
        self.there = True

    def elapsed_time(self, other: Mark) -> float:
        """Milliseconds."""
        assert other.there
        return 2.5 * (other.at - self.at)


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> Cuda:
    """A device that is none."""
    stand_in = Cuda()
    monkeypatch.setattr(cuda_meter, "library", lambda: SimpleNamespace(cuda=stand_in))
    return stand_in


def test_bytes_are_those_above_what_was_there(cuda: Cuda):
    """As they are asked for, and in blocks; nothing of the peak before."""
    returned, peak = cuda_peak(lambda: cuda.take(5000), ("cuda", 0))
    assert returned is None
    assert peak == CudaPeak(5000, 5120, 0)
    assert cuda.waited == 2


def test_seconds_are_those_between_two_events(cuda: Cuda):
    """Of the one device, which is waited for."""
    ran: list[int] = []
    assert cuda_seconds(lambda: ran.append(1), ("cuda", 0)) == pytest.approx(0.0025)
    assert ran == [1]


def test_ops_are_measured_by_the_devices_meter(cuda: Cuda, monkeypatch: pytest.MonkeyPatch):
    """Workspace is what is asked for beside the results, and seconds are the events'."""
    net = training("swiglu", 1)
    own = compile_step(net.model, net.loss_fn, net.batch, options=StepOptions(measure=False, time=0))
    program = replace(on("cuda", own.program), actions=own.program.actions)  # which make theirs on the CPU
    plain, filled, peak_of = getattr(meter, "_filled"), [], meter.cuda_peak  # noqa: B009 (it is private)

    def on_cpu(library: Any, form: Any) -> Any:
        filled.append(form.device)
        return plain(library, replace(form, device=("cpu", None)))

    def taking(call: Callable[[], Any], device: Any) -> Any:
        return peak_of(lambda: (cuda.take(10**8), call())[1], device)

    monkeypatch.setattr(meter, "_filled", on_cpu)
    monkeypatch.setattr(meter, "check_device", lambda torch, device: None)
    monkeypatch.setattr(meter, "cuda_peak", taking)
    table, failed = measure_ops(program, no_costs(torch, program))
    assert table.device == "cuda"
    assert set(filled) == {("cuda", 0)}
    assert not failed
    assert table.ops
    for op in table.ops:
        assert op.workspace_bytes + sum(op.output_bytes) == 10**8
        assert op.seconds == pytest.approx(0.0025)


def test_what_is_not_there_is_said_in_one_line(cuda: Cuda, monkeypatch: pytest.MonkeyPatch):
    """A device, its number, an allocator that does not count, torch's operators, another device, another's table."""
    net = training("swiglu", 1)
    own = compile_step(net.model, net.loss_fn, net.batch, options=StepOptions(measure=False, time=0))
    program, here = on("cuda", own.program), SimpleNamespace(cuda=cuda)
    if not torch.cuda.is_available():
        with pytest.raises(InputError, match="the step is on cuda:0, and torch finds no such device here"):
            measure_ops(program, no_costs(torch, program))
    with pytest.raises(InputError, match="the step is on cuda:1, and torch finds no such device here"):
        check_device(here, ("cuda", 1))
    check_device(here, ("cuda", 0))
    cuda.backend = "cudaMallocAsync"
    with pytest.raises(InputError, match="has cudaMallocAsync; take it out"):
        check_device(here, ("cuda", 0))
    with pytest.raises(InputError, match="the cost table is of cpu, and lacks"):
        measure_ops(program, Costs("cpu", "any", 1, []))
    options = PlanOptions(own.plan.floor_bytes + 1, None, False, 0.5, allow=("recompute", "offload"))
    with pytest.raises(InputError, match="of the CPU and of CUDA, and this step is on mps"):
        plan_program(torch, on("mps", own.program), options)
    monkeypatch.setattr("lowtide.torch.capture.OFFLOAD_OPS", "torch.no_such_module")
    with pytest.raises(InputError, match=r"offload on CUDA takes torch.ops.ao.offload, and torch .* has none"):
        plan_program(torch, program, options)
    assert planning.movable(own.graph, own.program)
