"""Small training steps, fixed and drawn at random."""

from __future__ import annotations

from random import Random

from lowtide.graph import Graph, Kind, Op, Tensor
from lowtide.zoo.step_net import StepNet
from lowtide.zoo.values import Value

SMALL = {
    "magis_resnet50": "batch=4,image=32,width=2",
    "magis_bert_base": "batch=5,seq=6,layers=2,width=8,heads=2",
    "magis_vit_base": "batch=4,image=8,patch=2,layers=2,width=12,heads=2",
    "magis_unet": "batch=5,image=16,width=2",
    "magis_unetpp": "batch=3,image=32,width=2",
    "magis_gpt_neo": "batch=6,seq=4,layers=2,width=8,heads=2",
    "magis_btlm": "batch=3,seq=4,layers=3,width=8,heads=2",
}
"""MAGIS's seven at sizes that are run in a moment."""


def random_step(seed: int, *, batch: int | None = None) -> Graph:
    """A step of a few dense layers, norms, softmaxes and sums of earlier values."""
    random = Random(seed)
    net = StepNet(f"random step {seed}")
    rows, seq, width = batch or random.randint(2, 7), random.randint(1, 3), random.choice((2, 4))
    values: list[Value] = [net.tensor("x", (rows, seq, width))]
    for _ in range(random.randint(1, 6)):
        x = random.choice(values[-3:])
        kind = random.choice(("dense", "dense", "norm", "relu", "softmax", "scale", "add"))
        if kind == "dense":
            x = net.einsum(x, net.parameter((width, width)), "nsd", "df", "nsf")
        elif kind == "add":
            x = net.add(x, random.choice(values))
        elif kind == "scale":
            x = net.scale(x, random.choice((0.5, 2.0)))
        else:
            x = {"norm": net.norm, "relu": net.relu, "softmax": net.softmax}[kind](x)
        values.append(x)
    net.train(net.einsum(values[-1], net.parameter((width, 3)), "nsd", "df", "nsf"))
    return net.graph()


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
