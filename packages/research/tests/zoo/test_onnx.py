"""The zoo's ONNX files: valid, runnable, the same as the graphs, the same bytes every time."""

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import numpy_helper

from lowtide.errors import InputError
from lowtide.graph import Kind
from lowtide.read.onnx.reader import read_onnx
from lowtide_research import zoo
from lowtide_research.zoo import Net

REDUCED = {
    "amoebanet_d": "amoebanet_d:layers=3,filters=32,side=64",
    "hrnet_w18_small_v1": "hrnet_w18_small_v1:side=64",
    "hrnet_w18_small_v2": "hrnet_w18_small_v2:side=64",
    "hrnet_w32": "hrnet_w32:side=64",
    "unet": "unet:side=32,filters=8",
    "unet_plus_plus": "unet_plus_plus:side=32,filters=8",
    "vovnet_39": "vovnet_39:side=64,width=16,step=4",
    "segformer_b0": "segformer_b0:side=64,depth=1",
    "vae_decoder": "vae_decoder:side=8,filters=32",
    "resnet50": "resnet50:side=64",
    "resnext50": "resnext50:side=64",
    "densenet121": "densenet121:side=64",
    "fc_densenet103": "fc_densenet103:side=64",
    "fcn_resnet50": "fcn_resnet50:side=64",
    "deeplabv3_resnet50": "deeplabv3_resnet50:side=64",
    "lraspp_mobilenet_v3": "lraspp_mobilenet_v3:side=64",
    "r2plus1d_18": "r2plus1d_18:side=32",
    "s3d": "s3d:side=32",
    "transformer_base": "transformer_base:layers=1,width=64",
    "vit_b_16": "vit_b_16:layers=2,width=64,heads=4",
    "series_parallel": "series_parallel:n=100",
    "lstm": "lstm:layers=2,steps=4",
    "moe": "moe:experts=8,layers=2",
}
"""The large networks run at a smaller size."""

MIXING = ["random_width", "series_parallel", "matmul", "grid", "fft", "lstm", "moe"]
"""Synthetic ones, whose operators mix bytes."""

RUNNABLE = [REDUCED.get(name, name) for name in zoo.names() if zoo.build(name).runnable]
REAL = [name for name in RUNNABLE if name.partition(":")[0] not in MIXING]

ITEM_BYTES: dict[int, int] = {onnx.TensorProto.FLOAT: 4, onnx.TensorProto.INT64: 8, onnx.TensorProto.UINT8: 1}


@cache
def model_of(name: str) -> onnx.ModelProto:
    """Model of a network under the default seed."""
    return zoo.build(name).onnx()


def run(model: bytes, *seeds: int) -> list[np.ndarray]:
    """First output on random inputs, for each seed."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model, options, ["CPUExecutionProvider"])
    results = []
    for seed in seeds:
        generator = np.random.default_rng(seed)
        feed = {i.name: generator.standard_normal(i.shape, dtype=np.float32) for i in session.get_inputs()}
        results.append(np.asarray(session.run(None, feed)[0]))
    return results


@pytest.mark.slow
@pytest.mark.parametrize("name", REAL)
def test_runs_and_depends_on_its_input(name: str) -> None:
    """The checker with shape inference accepts the model; outputs are finite and differ between inputs."""
    model = model_of(name).SerializeToString()
    onnx.checker.check_model(model, full_check=True)
    one, other = run(model, 1, 2)
    assert np.isfinite(one).all()
    assert 0.05 < np.square(one).mean() < 1000
    assert np.abs(one - other).max() > 0.02 * np.abs(one).max()


@pytest.mark.slow
@pytest.mark.parametrize("family", MIXING)
def test_bytes_are_mixed_as_stated(family: str) -> None:
    """Node by node, onnxruntime gives the weighted sums; nearly every byte of the outputs hangs on the inputs."""
    net = zoo.build(REDUCED.get(family, family))
    model = net.onnx()
    onnx.checker.check_model(model, full_check=True)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    generator = np.random.default_rng(3)
    found = []
    for _ in range(2):
        feed = {i.name: generator.integers(0, 256, i.shape, dtype=np.uint8) for i in session.get_inputs()}
        values = dict(feed)
        for node in model.graph.node:
            taps, weights = (numpy_helper.to_array(a.t) for a in node.attribute)
            read = np.concatenate([values[x] for x in node.input]).astype(np.int64)
            assert set(taps.ravel()) == set(range(len(read)))
            values[node.output[0]] = ((read[taps] * weights).sum(axis=1) % 256).astype(np.uint8)
        outputs = [np.asarray(a) for a in session.run(None, feed)]
        for value, output in zip(model.graph.output, outputs, strict=True):
            assert np.array_equal(values[value.name], output)
        found.append(np.concatenate(outputs))
    assert (found[0] != found[1]).mean() > 0.8


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNNABLE)
def test_graph_and_file_agree(name: str) -> None:
    """Op ids are node indices, tensor ids the order of first appearance, names, types and sizes are equal."""
    graph, proto = zoo.build(name).graph(), model_of(name).graph
    infos = {v.name: v.type.tensor_type for v in (*proto.input, *proto.output, *proto.value_info)}
    ids: dict[str, int] = {}
    sizes: dict[str, int] = {}
    for value in proto.input:
        ids.setdefault(value.name, len(ids))
    for initializer in proto.initializer:
        ids.setdefault(initializer.name, len(ids))
        sizes[initializer.name] = len(initializer.raw_data)
    for node in proto.node:
        for tensor in (*node.input, *node.output):
            ids.setdefault(tensor, len(ids))
    for tensor, info in infos.items():
        shape = [d.dim_value for d in info.shape.dim]
        sizes[tensor] = int(np.prod(shape)) * ITEM_BYTES[info.elem_type]
    assert [(t.id, t.name) for t in graph.tensors] == [(i, n) for n, i in ids.items()]
    assert {t.name: t.size for t in graph.tensors} == sizes
    assert len(graph.ops) == len(proto.node)
    for op, node in zip(graph.ops, proto.node, strict=True):
        assert (op.name, op.type) == (node.name, f"{node.domain}::{node.op_type}".removeprefix("::"))
        assert op.inputs == tuple(ids[n] for n in node.input)
        assert op.outputs == tuple(ids[n] for n in node.output)
    outputs = [t.name for t in graph.tensors if t.kind is Kind.OUTPUT]
    assert outputs == [v.name for v in proto.output]


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["nasnet_a_cifar", "randwire_er", "transformer", REDUCED["amoebanet_d"], "swiftnet", "grid", "moe"]
)
def test_reader_gives_the_same_graph(name: str, tmp_path: Path) -> None:
    """What is read back is the graph that the zoo makes, flops too, but for source, digest and what only a file has."""
    path = tmp_path / "model.onnx"
    path.write_bytes(model_of(name).SerializeToString())
    read, made = read_onnx(path), zoo.build(name).graph()
    assert [replace(t, value=None) for t in read.tensors] == list(made.tensors)
    assert [replace(op, attributes={}, operands=()) for op in read.ops] == [
        replace(op, attributes={}) for op in made.ops
    ]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["nasnet_a_cifar", "transformer:layers=1", "randwire_ba:nodes=8,channels=8", "fft"])
def test_same_bytes_twice(name: str) -> None:
    """The same seed gives the same bytes, another one other weights."""
    first = model_of(name).SerializeToString()
    assert first == zoo.build(name).onnx(seed=0).SerializeToString()
    assert first != zoo.build(name).onnx(seed=1).SerializeToString()


def test_every_layer_runs() -> None:
    """The builder's shapes are those that onnxruntime finds, also for layers that no network uses."""
    net = Net("layers")
    x = net.input("x", (1, 6, 9, 9))
    x = net.batch_norm(net.concat([net.conv(x, 5, 3, 2), net.max_pool(net.conv(x, 2, (1, 5)), 3, 2)]))
    x = net.slice(net.pad(x, (0, 0, 1, 0), (0, 0, 0, 1)), (0, 1, 0, 1), (1, 7, 6, 6))
    x = net.average_pool(net.depthwise(x, 3), 3)
    x = net.multiply(net.gelu(net.transpose(x, (0, 2, 3, 1))), net.scalar(2.0))
    x = net.softmax(net.dense(net.reshape(x, (6, 5, 6)), 7))
    x = net.reshape(net.squeeze(net.unsqueeze(x, -1), (3,)), (2, 3, 5, 7))
    x = net.upsample(net.conv_transpose(net.depthwise(x, 3, 2, dilation=2), 4), 3)
    net.output(net.gemm(net.reshape(net.max_pool(x, 2, 2), (2, 4 * 9 * 12)), 3))
    model = net.onnx()
    onnx.checker.check_model(model, full_check=True)
    assert run(model.SerializeToString(), 0)[0].shape == (2, 3)


def test_weights_beyond_one_file_are_refused() -> None:
    """Two gigabytes of weights do not fit one protobuf message, and that is said before any is drawn."""
    net = zoo.build("transformer:layers=1,width=16384")
    with pytest.raises(InputError, match="too many for one ONNX file"):
        net.onnx()
