"""Small training steps: a way there, and a way back that reads what it made."""

from __future__ import annotations

from lowtide.graph import Graph, Kind, Op, Tensor
from lowtide.optimize.recompute.sequence import Sequenced
from support.sequences import own


def step_of_a_chain(depth: int) -> Sequenced:
    """So many unit ops, a loss, and unit ops back that each read the gradient and what an op of the way there made."""
    tensors, ops = [Tensor(0, 1), *(Tensor(k, 1) for k in range(1, depth))], [Op(0, (), (0,), cost=1)]
    ops += [Op(k, (k - 1,), (k,), cost=1) for k in range(1, depth)]
    reads = depth - 1
    for k in range(depth):
        made = depth + k
        tensors.append(Tensor(made, 1, Kind.OUTPUT if k == depth - 1 else Kind.ACTIVATION))
        ops.append(Op(made, (reads, depth - 1 - k) if k else (reads,), (made,), cost=1))
        reads = made
    return own(Graph("step", tuple(tensors), tuple(ops)))


def random_attention_step(seed: int) -> Graph:
    """A step with heads: products along two rows at once, transposes, and reshapes behind the batch."""
    random = Random(seed)
    net = StepNet(f"random attention step {seed}")
    rows, seq, heads, each = (random.randint(2, 4) for _ in range(4))
    x = net.tensor("x", (rows, seq, heads * each))
    for _ in range(random.randint(1, 2)):
        width = x.shape[-1]
        q, k, v = (net.einsum(x, net.parameter((width, heads, each)), "nsd", "dhe", "nshe") for _ in range(3))
        q, k, v = (net.transpose(value, (0, 2, 1, 3)) for value in (q, k, v))
        shares = net.softmax(net.scale(net.einsum(q, k, "nhse", "nhte", "nhst"), 0.5))
        mixed = net.einsum(shares, v, "nhst", "nhte", "nhse")
        mixed = net.transpose(mixed, (0, 2, 1, 3)) if random.random() < 0.7 else mixed
        if random.random() < 0.5 or mixed.shape != (rows, seq, heads, each):
            joined = net.reshape(mixed, (rows, seq, heads * each))
            x = net.einsum(joined, net.parameter((heads * each, width)), "nsd", "df", "nsf")
        else:
            x = net.einsum(mixed, net.parameter((heads, each, width)), "nshe", "hed", "nsd")
        x = net.norm(x) if random.random() < 0.3 else x
    net.train(net.einsum(x, net.parameter((x.shape[-1], 2)), "nsd", "df", "nsf"))
    return net.graph()


def random_image_step(seed: int) -> Graph:
    """A step of convolutions, pools, joins and enlarged images."""
    random = Random(seed)
    net = StepNet(f"random image step {seed}")
    x = net.tensor("x", (random.randint(2, 5), random.randint(1, 2), 4, 4))
    values = [x]
    for _ in range(random.randint(1, 4)):
        x = values[-1]
        kind = random.choice(("conv",) * 4 + ("stride", "pool", "relu", "sigmoid", "join", "add", "enlarge"))
        alike = [v for v in values if v.shape[2:] == x.shape[2:]]
        if kind == "conv":
            x = net.convolve(x, random.randint(1, 3), 3, 1, 1)
        elif kind == "stride" and x.shape[2] > 2:
            x = net.convolve(x, random.randint(1, 3), 2, 2)
        elif kind == "pool" and x.shape[2] > 2:
            x = net.mean_pool(x, *random.choice(((2, 2, 0), (3, 2, 1))))
        elif kind == "join":
            x = net.join([x, random.choice(alike)])
        elif kind == "add":
            x = net.add(x, random.choice([v for v in alike if v.shape == x.shape]))
        elif kind == "enlarge" and x.shape[2] < 8:
            x = net.enlarge(x, 2)
        else:
            x = net.sigmoid(x) if kind == "sigmoid" else net.relu(x)
        values.append(x)
    net.train(net.convolve(values[-1], 2, 1))
    return net.graph()


STEPS = (random_step, random_attention_step, random_image_step)


def labelled_graph(ops: list[tuple[str, list[str], str, str]], shapes: dict[str, tuple[int, ...]]) -> Graph:
    """A graph of ops (type, operands, result, labels) on tensors of float32; what is read by no op is an output."""
    ids = {name: i for i, name in enumerate(shapes)}
    made, read = {o[2] for o in ops}, {t for o in ops for t in o[1]}
    tensors = []
    for name, shape in shapes.items():
        kind = Kind.INPUT if name not in made else Kind.ACTIVATION if name in read else Kind.OUTPUT
        size = 4
        for d in shape:
            size *= d
        tensors.append(Tensor(ids[name], size, kind, name, shape, "float32"))
    whole = [
        Op(i, tuple(ids[t] for t in reads), (ids[out],), f"{kind}_{i}", kind, flops=10, attributes={"labels": labels})
        for i, (kind, reads, out, labels) in enumerate(ops)
    ]
    return Graph("labelled", tuple(tensors), tuple(whole), sha256="0" * 64, dialect="labels")


def chain_with_skips(blocks: int) -> Sequenced:
    """Blocks of two ops and one that adds what went in, unit sizes and costs; a loss; and back: through both ops, which
    read what they read on the way there, and an op that adds both gradients."""
    tensors: list[Tensor] = []
    ops: list[Op] = []

    def op(*reads: int, label: str = "", kind: Kind = Kind.ACTIVATION) -> int:
        made = len(tensors)
        tensors.append(Tensor(made, 1, kind))
        ops.append(Op(made, reads, (made,), label, cost=1))
        return made

    goes_in, inside = None, []
    for k in range(blocks):
        first = op(*([] if goes_in is None else [goes_in]), label=f"first{k}")
        second = op(first, label=f"second{k}")
        out = op(second, *([first] if goes_in is None else [goes_in]), label=f"add{k}")
        inside.append((goes_in, first, second))
        goes_in = out
    assert goes_in is not None
    gradient = op(goes_in, label="loss")
    for k in reversed(range(blocks)):
        goes_in, first, second = inside[k]
        through = op(gradient, first, second, label=f"second{k}'")
        through = op(through, *([] if goes_in is None else [goes_in]), label=f"first{k}'")
        kind = Kind.ACTIVATION if k else Kind.OUTPUT
        gradient = op(through, gradient, label=f"add{k}'", kind=kind)
    return own(Graph("skips", tuple(tensors), tuple(ops)))
