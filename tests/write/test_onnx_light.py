"""The nine light models, permuted and run: nothing but the order changes."""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import onnx
import onnxruntime as ort
import pytest

from lowtide.graph import Kind
from lowtide.read.onnx.reader import read_onnx
from lowtide.write.onnx import write_onnx
from support.light_models import light_model, light_paths
from support.onnx_builder import random_order, saved

_LIKE_OTHERS = ("densenet121", "resnet50", "vgg19")
"""Of the same ops as smaller ones: the order that was permuted is not run in full."""


def _session(path: Path, shown: list[str]) -> ort.InferenceSession:
    """A session with further outputs: protobuf merges what is appended to the file into its graph."""
    values = [onnx.ValueInfoProto(name=name) for name in shown]
    with path.open("ab") as file:
        file.write(onnx.ModelProto(graph=onnx.GraphProto(output=values)).SerializeToString())
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    return ort.InferenceSession(path, options)


@pytest.fixture
def folder():
    """A directory that goes away at once: pytest would keep gigabytes of weights."""
    with TemporaryDirectory() as name:
        yield Path(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in light_paths() if name not in _LIKE_OTHERS])
def test_every_tensor_is_equal_after_a_random_permutation(name, folder):
    """Outputs and intermediates do not change when nodes are permuted; the last one is not constant."""
    source, target = saved(light_model(name), folder), folder / "out.onnx"
    graph = read_onnx(source)
    write_onnx(source, random_order(graph, 7), target)
    made = [graph.tensor_by_id[t] for op in (*graph.ops, *graph.folded) for t in op.outputs]
    inner = [t.name for t in made if t.kind is not Kind.OUTPUT]
    before = _session(source, inner)
    feed = {i.name: np.random.default_rng(1).standard_normal(i.shape).astype(np.float32) for i in before.get_inputs()}
    names = [t.name for t in made]
    expected = dict(zip(names, before.run(names, feed), strict=True))
    del before
    for name, found in zip(names, _session(target, inner).run(names, feed), strict=True):
        np.testing.assert_array_equal(found, expected[name], err_msg=name)
        assert np.isfinite(found).all()
    assert np.ptp(expected[made[-1].name]) > 0
