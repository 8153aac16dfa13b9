"""Tensors of a step that are stored on the host and loaded back while other ops run: which, how long that takes, and
the code that does it.

In a sequence of op ids, with n ops, entry n + 2 t is where tensor t has been stored, and n + 2 t + 1 where it begins to
be loaded (`lowtide.optimize.recompute.swaps` says what that means). On the CPU a step's source carries `HOST`: two
threads, one for stores and one for loads, and memory that torch's allocator does not give out. On CUDA it calls torch's
own operators, ``ao::offload``, ``ao::reload`` and ``ao::wait_tensor``, which have pinned memory and one stream in
addition to the one that computes; they refuse tensors of the CPU, so that there is no one road for both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lowtide.graph import Graph, Kind
from lowtide.optimize.recompute.swaps import Bandwidth, nanoseconds
from lowtide.read.aten.trace import Form
from lowtide.torch.capture import OFFLOAD_OPS
from lowtide.torch.program import Program

_NANO = 1_000_000_000

HOST = '''
class Host:
    """Tensors in memory of their own, which torch's allocator does not give out: one thread stores, one loads."""

    def __init__(self):
        self.out, self.back = ThreadPoolExecutor(1), ThreadPoolExecutor(1)
        self.copies, self.stores, self.loads = {}, {}, {}

    def store(self, name, tensor, size):
        """Begin to copy the bytes of a tensor, after the stores before."""
        if name not in self.copies:
            self.copies[name] = torch.frombuffer(mmap.mmap(-1, size), dtype=torch.uint8)
        self.stores[name] = self.out.submit(_copy, [self.copies[name], _bytes(tensor, size)])

    def stored(self, name):
        """Wait until it has been stored."""
        self.stores.pop(name).result()

    def load(self, name, size, shape, strides, dtype):
        """A tensor into which the bytes begin to be copied, after the loads before."""
        tensor = torch.empty_strided(shape, strides, dtype=dtype)
        self.loads[name] = self.back.submit(_copy, [_bytes(tensor, size), self.copies[name]])
        return tensor

    def loaded(self, name):
        """Wait until it has been loaded."""
        self.loads.pop(name).result()


def _copy(pair):
    pair[0].copy_(pair[1])
    pair.clear()  # nobody else holds the tensor's memory when the caller hears of the end


def _bytes(tensor, size):
    return torch.empty(0, dtype=torch.uint8).set_(tensor.untyped_storage(), 0, (size,), (1,))


host = Host()
'''
"""What a step with transfers on the CPU runs beside its ops."""

IMPORTS = {
    "cpu": "import mmap\nfrom concurrent.futures import ThreadPoolExecutor\n\nimport torch",
    "cuda": f"import torch\nimport {OFFLOAD_OPS}  # torch.ops.ao",
}
"""What a step with transfers imports, by the kind of device."""


def begin_store(name: str, form: Form) -> str:
    """The line after which a tensor is on its way to the host."""
    if form.device[0] == "cpu":
        return f"host.store({name!r}, {name}, {form.extent_bytes})"
    # one dimension: what is in the device's memory in another order than in the host's is copied by way of a third
    flat = f"{name}.as_strided(({form.extent_bytes // form.width},), (1,))"
    return f"host[{name!r}] = torch.ops.ao.offload({flat})"


def end_store(name: str, form: Form) -> str:
    """The line after which the memory of a stored tensor may be another's."""
    return f"host.stored({name!r})" if form.device[0] == "cpu" else f"torch.ops.ao.wait_tensor(host[{name!r}])"


def begin_load(name: str, form: Form) -> str:
    """The line that takes memory for a tensor which is on its way back."""
    shape, strides = tuple(form.shape), tuple(form.strides)
    if form.device[0] == "cpu":
        return f"{name} = host.load({name!r}, {form.extent_bytes}, {shape}, {strides}, torch.{form.dtype})"
    device = f'torch.device("{form.device[0]}", {form.device[1]})'
    return f"{name} = torch.ops.ao.reload(host[{name!r}], {device}).as_strided({shape}, {strides})"


def end_load(name: str, form: Form) -> str:
    """The line after which a loaded tensor may be read."""
    return f"host.loaded({name!r})" if form.device[0] == "cpu" else f"torch.ops.ao.wait_tensor({name})"


def entry_of(graph: Graph, entry: int) -> tuple[int, bool] | None:
    """The tensor that an entry of a sequence stores or loads, and whether it loads; None: it is an op."""
    if entry < len(graph.ops):
        return None
    tensor, load = divmod(entry - len(graph.ops), 2)
    return tensor, bool(load)


def movable(graph: Graph, program: Program) -> tuple[int, ...]:
    """Ids of the tensors that may leave memory: an op makes them, they are no results, all their bytes are theirs, and
    they lie where the step runs."""
    movable, kind = [], program.device[0]
    for t in graph.tensors:
        form = program.forms.get(t.name)
        if t.kind is not Kind.ACTIVATION or t.alias_of is not None or t.id not in graph.producer or form is None:
            continue
        if t.size and t.size == form.extent_bytes and not form.offset and form.device[0] == kind:
            movable.append(t.id)
    return tuple(movable)


def seconds_with_transfers(
    graph: Graph, seconds: Mapping[int, float], bandwidth: Bandwidth, order: Sequence[int]
) -> float:
    """Seconds until the last entry of a sequence has ended, its waiting included."""
    there: dict[int, int] = {}
    now = storing = loading = 0
    for entry in order:
        moved = entry_of(graph, entry)
        if moved is None:
            op = graph.op_by_id[entry]
            now = max([now, *(there.get(t, 0) for t in op.inputs)]) + round(seconds[entry] * _NANO)
            there.update(dict.fromkeys(op.outputs, now))
            continue
        tensor, load = moved
        size = graph.tensor_by_id[tensor].size
        if load:
            loading = there[tensor] = max(loading, now) + nanoseconds(size, bandwidth.from_host)
        else:
            storing = max(storing, there[tensor]) + nanoseconds(size, bandwidth.to_host)
            now = max(now, storing)
    return now / _NANO
