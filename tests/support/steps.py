"""Small training steps, fixed and drawn at random."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from lowtide.graph import Graph, Kind, Op, Tensor
from lowtide_research.zoo.step_net import StepNet
from lowtide_research.zoo.values import Value

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
        kind = random.choice(("dense", "dense", "norm", "relu", "softmax", "scale", "add", "bias", "gate", "tied"))
        if kind == "dense":
            x = net.einsum(x, net.parameter((width, width)), "nsd", "df", "nsf")
        elif kind == "add":
            x = net.add(x, random.choice(values))
        elif kind == "bias":  # of one row for all samples, or for all of a sample
            x = net.add(x, net.tensor("bias", random.choice(((1, seq, width), (rows, 1, width)))))
        elif kind == "tied":  # a weight read along both of its dimensions
            w = net.parameter((width, width))
            x = net.einsum(net.einsum(x, w, "nsd", "df", "nsf"), w, "nsd", "df", "nsf")
        elif kind == "gate":  # a sum over a row, which each row reads
            x = net.einsum(x, net.einsum(x, random.choice(values), "nsd", "nsd", "nd"), "nsd", "nd", "nsd")
        elif kind == "scale":
            x = net.scale(x, random.choice((0.5, 2.0)))
        else:
            x = {"norm": net.norm, "relu": net.relu, "softmax": net.softmax}[kind](x)
        values.append(x)
    net.train(net.einsum(values[-1], net.parameter((width, 3)), "nsd", "df", "nsf"))
    return net.graph()


def random_attention_step(seed: int) -> Graph:
    """A step with heads: products along two rows at once, transposes, and reshapes behind the batch."""
    random = Random(seed)
    net = StepNet(f"random attention step {seed}")
    rows, heads, each = (random.randint(2, 4) for _ in range(3))
    seq = random.randint(1, 4)  # of one, a reshape makes one row of many
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
        kind = random.choice(("conv",) * 4 + ("stride", "pool", "pool", "relu", "sigmoid", "join", "add", "enlarge"))
        alike = [v for v in values if v.shape[2:] == x.shape[2:]]
        if kind == "conv":
            x = net.convolve(x, random.randint(1, 3), 3, 1, 1)
        elif kind == "stride" and x.shape[2] > 2:
            x = net.convolve(x, random.randint(1, 3), 2, 2)
        elif kind == "pool" and x.shape[2] > 2:
            x = net.mean_pool(x, *random.choice(((2, 2, 0), (3, 2, 1), (3, 1, 1))))
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


def random_sibling_step(seed: int) -> Graph:
    """A step of products that read the same, of two or more, whose results are used in one way or in several; what they
    read may be read elsewhere too."""
    random = Random(seed)
    net = StepNet(f"random sibling step {seed}")
    rows, seq, width = random.randint(2, 5), random.randint(1, 3), random.choice((2, 3, 4))
    x = net.tensor("x", (rows, seq, width))
    for _ in range(random.randint(1, 3)):
        many = [net.einsum(x, net.parameter((width, width)), "nsd", "df", "nsf") for _ in range(random.randint(2, 4))]
        how = random.choice(("alike", "apart", "turned", "turned", "turned and not", "shifted and turned", "summed"))
        if "turned" in how:  # by one of two readers, or what else is added to
            many = [net.add(y, x) for y in many] if how.startswith("shifted") else many
            turned = [net.transpose(net.relu(net.transpose(y, (0, 2, 1))), (0, 2, 1)) for y in many]
            many = turned + ([net.relu(y) for y in many] if how == "turned and not" else [])
        elif how == "alike":
            many = [net.relu(y) for y in many]
        elif how == "apart":
            many = [random.choice((net.relu, net.sigmoid, net.softmax))(y) for y in many]
        y = many[0]
        for other in many[1:]:
            y = net.einsum(y, other, "nsd", "nsd", "nsd") if random.random() < 0.5 else net.add(y, other)
        x = net.add(y, x) if random.random() < 0.6 else y
        x = net.norm(x) if random.random() < 0.5 else x
    net.train(net.einsum(x, net.parameter((width, 2)), "nsd", "df", "nsf"))
    return net.graph()


STEPS = (random_step, random_attention_step, random_image_step, random_sibling_step)


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


def heads_behind_statistics(rows: int = 16, width: int = 4, wide: int = 256, heads: int = 3) -> Graph:
    """A step of several wide heads, each behind a sum over the batch, which forbids parts of all of it."""
    ops: list[tuple[str, list[str], str, str]] = []
    shapes: dict[str, tuple[int, ...]] = {"x0": (rows, width)}
    names = ("u", "s", "z", "loss", "dz", "ds", "dv", "du", "dw", "w", "v", "new_w", "new_v", "m")
    for k in range(heads):
        x, n = f"x{k}", {name: f"{name}{k}" for name in names}
        ops += [
            ("einsum", [x, n["w"]], n["u"], "n d, d f -> n f"),
            ("softmax", [n["u"]], n["s"], "n . -> n ."),
            ("einsum", [n["s"], n["v"]], n["z"], "n f, f c -> n c"),
            ("square", [n["z"]], n["loss"], "n c -> n c"),
            ("scale", [n["z"]], n["dz"], "n c -> n c"),
            ("einsum", [n["dz"], n["v"]], n["ds"], "n c, f c -> n f"),
            ("einsum", [n["s"], n["dz"]], n["dv"], "n f, n c -> f c"),
            ("softmax_backward", [n["ds"], n["s"]], n["du"], "n ., n . -> n ."),
            ("einsum", [x, n["du"]], n["dw"], "n d, n f -> d f"),
            ("update", [n["w"], n["dw"]], n["new_w"], "d f, d f -> d f"),
            ("update", [n["v"], n["dv"]], n["new_v"], "f c, f c -> f c"),
        ]
        shapes |= {n[name]: (rows, wide) for name in ("u", "s", "ds", "du")}
        shapes |= {n[name]: (rows, 2) for name in ("z", "loss", "dz")}
        shapes |= {n[name]: (width, wide) for name in ("w", "dw", "new_w")}
        shapes |= {n[name]: (wide, 2) for name in ("v", "dv", "new_v")}
        if k + 1 < heads:
            ops.append(("einsum", [x, x], n["m"], "n d, n d -> d"))
            ops.append(("einsum", [x, n["m"]], f"x{k + 1}", "n d, d -> n d"))
            shapes |= {n["m"]: (width,), f"x{k + 1}": (rows, width)}
    equations = {"n d, d f -> n f": "nd,df->nf", "n f, f c -> n c": "nf,fc->nc", "n c, f c -> n f": "nc,fc->nf",
                 "n f, n c -> f c": "nf,nc->fc", "n d, n f -> d f": "nd,nf->df", "n d, n d -> d": "nd,nd->d",
                 "n d, d -> n d": "nd,d->nd"}  # fmt: skip
    graph = labelled_graph(ops, shapes)
    more = {"scale": {"factor": 2.0}, "update": {"factor": -0.1}}
    whole = []
    for op, (kind, _, _, labels) in zip(graph.ops, ops, strict=True):
        attributes = {**op.attributes, **more.get(kind, {})}
        attributes |= {"equation": equations[labels]} if kind == "einsum" else {}
        whole.append(replace(op, attributes=attributes))
    return replace(graph, ops=tuple(whole))
