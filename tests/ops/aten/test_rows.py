"""Every row of ATen's ops, proved in torch on a small instance; and each row broken on purpose is caught."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from typing import Any

import pytest

from lowtide.graph import Graph, Kind, Op, Tensor
from lowtide.ops import aten
from lowtide.ops.access import Access
from lowtide.ops.forms import Custom
from lowtide.ops.index import Index
from lowtide.ops.meaning import Meaning, meaning
from lowtide.run.probe import Findings, RefusedError
from lowtide.run.probe_nodes import probe_node, runner_of

pytestmark = pytest.mark.skipif(find_spec("torch") is None, reason="needs the extra torch")
BUDGET = 10**7


@dataclass(frozen=True)
class Case:
    """An op: its type, the shapes of its tensors (None: left out), its arguments, element types that are not float."""

    type: str
    reads: tuple[tuple[int, ...] | None, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    dtypes: Mapping[int, str] = field(default_factory=dict)
    dims: int = -1
    """Axes that can be cut, so that a map is not proved by saying nothing; -1: at least one."""


def case(name: str, *reads: Any, dims: int = -1, dtypes: Mapping[int, str] | None = None, **attributes: Any) -> Case:
    """A case in one line."""
    return Case(name, reads, attributes, dtypes or {}, dims)


CONV: dict[str, Any] = {
    "stride": (2, 1), "padding": (1, 0), "dilation": (1, 2), "transposed": False, "output_padding": (0, 0), "groups": 1
}  # fmt: skip
MASK = {"output_mask": (True, True, True)}
IMAGE = (2, 4, 8, 7)
CASES = (
    case("aten.convolution.default", IMAGE, (6, 4, 3, 2), (6,), dims=5, **CONV),
    case("aten.convolution.default", IMAGE, (6, 2, 3, 2), None, dims=4, **{**CONV, "groups": 2}),
    case("aten.convolution.default", IMAGE, (4, 1, 3, 3), (4,), **{**CONV, "groups": 4}),
    case(
        "aten.convolution.default", IMAGE, (4, 3, 3, 2), (3,),
        **{**CONV, "transposed": True, "output_padding": (1, 0)},
    ),
    case("aten.convolution.default", (2, 3, 9), (5, 3, 3), (5,), stride=(2,), padding=(1,), dilation=(1,),
         transposed=False, output_padding=(0,), groups=1),
    case("aten.conv2d.default", IMAGE, (6, 4, 3, 3), (6,), stride=(1, 1), padding=(1, 1)),
    case("aten.convolution_backward.default", (2, 6, 4, 5), IMAGE, (6, 4, 3, 2), dims=2, bias_sizes=(6,), **CONV,
         **MASK),
    case("aten.convolution_backward.default", (2, 6, 4, 5), IMAGE, (6, 4, 3, 2), dims=3, bias_sizes=(6,), **CONV,
         output_mask=(True, True, False)),
    case("aten.convolution_backward.default", (2, 6, 4, 5), IMAGE, (6, 2, 3, 2), dims=1, bias_sizes=(6,),
         **{**CONV, "groups": 2}, **MASK),
    case("aten.max_pool2d.default", IMAGE, kernel_size=(3, 2), stride=(2, 2), padding=(1, 0)),
    case("aten.avg_pool2d.default", IMAGE, kernel_size=(3, 2), stride=(2, 1), padding=(1, 1)),
    case("aten.max_pool2d_with_indices.default", IMAGE, dims=2, kernel_size=(2, 2)),
    case("aten.max_pool2d_with_indices_backward.default", (2, 4, 4, 3), IMAGE, (2, 4, 4, 3), dims=2, kernel_size=(2, 2),
         stride=(2, 2), padding=(0, 0), dilation=(1, 1), ceil_mode=False, dtypes={2: "int64"}),
    case("aten.avg_pool2d_backward.default", (2, 4, 4, 3), IMAGE, dims=2, kernel_size=(2, 2), stride=(2, 2),
         padding=(0, 0), ceil_mode=False, count_include_pad=True, divisor_override=None),
    case("aten._adaptive_avg_pool2d.default", IMAGE, output_size=(1, 1)),
    case("aten._adaptive_avg_pool2d.default", (2, 3, 8, 6), output_size=(4, 3)),
    case("aten._adaptive_avg_pool2d.default", IMAGE, dims=2, output_size=(3, 3)),
    case("aten._adaptive_avg_pool2d_backward.default", (2, 4, 2, 2), IMAGE, dims=2),
    case("aten.upsample_nearest2d.default", IMAGE, output_size=(16, 21)),
    case("aten.upsample_nearest2d_backward.default", (2, 4, 16, 14), dims=2, output_size=(16, 14), input_size=IMAGE),
    case("aten.upsample_bilinear2d.default", IMAGE, dims=2, output_size=(16, 14), align_corners=False),
    case("aten.reflection_pad2d.default", IMAGE, dims=2, padding=(1, 1, 2, 2)),
    case("aten.grid_sampler_2d.default", IMAGE, (2, 5, 6, 2), interpolation_mode=0, padding_mode=0,
         align_corners=False),
    case("aten.mm.default", (5, 6), (6, 7), dims=3),
    case("aten.bmm.default", (3, 5, 6), (3, 6, 7), dims=4),
    case("aten.addmm.default", (7,), (5, 6), (6, 7), dims=3),
    case("aten.baddbmm.default", (3, 5, 7), (3, 5, 6), (3, 6, 7), dims=4),
    case("aten.mv.default", (5, 6), (6,)),
    case("aten.dot.default", (6,), (6,)),
    case("aten.linear.default", (2, 5, 6), (7, 6), (7,), dims=4),
    case("aten.matmul.default", (2, 1, 5, 6), (3, 6, 7), dims=5),
    case("aten.matmul.default", (6,), (3, 6, 7)),
    case("aten.sum.dim_IntList", (4, 5, 6), dims=3, dim=(1,), keepdim=True),
    case("aten.sum.default", (4, 5)),
    case("aten.mean.dim", (4, 5, 6), dims=3, dim=(-1,), keepdim=False),
    case("aten.amax.default", (4, 5, 6), dims=3, dim=(2,)),
    case("aten.max.dim", (4, 5), dims=1, dim=1),
    case("aten.argmax.default", (4, 5), dims=1, dim=1),
    case("aten.var_mean.correction", (4, 5), dims=1, dim=(1,)),
    case("aten.logsumexp.default", (4, 5), dims=1, dim=(1,)),
    case("aten._softmax.default", (4, 5, 6), dims=2, dim=-1, half_to_float=False),
    case("aten._log_softmax.default", (4, 5), dims=1, dim=1, half_to_float=False),
    case("aten._softmax_backward_data.default", (4, 5), (4, 5), dims=1, dim=1, input_dtype=6),
    case("aten._log_softmax_backward_data.default", (4, 5), (4, 5), dims=1, dim=1, input_dtype=6),
    case("aten.cumsum.default", (4, 5), dims=1, dim=0),
    case("aten.sort.default", (4, 5), dims=1, dim=1),
    case("aten.topk.default", (4, 5), dims=1, k=2, dim=1),
    case("aten.glu.default", (4, 6), dims=1, dim=-1),
    case("aten.triu.default", (3, 4, 5), dims=1, diagonal=1),
    case("aten.native_layer_norm.default", (3, 4, 6), (6,), (6,), dims=2, normalized_shape=(6,), eps=1e-5),
    case("aten.native_layer_norm_backward.default", (3, 4, 6), (3, 4, 6), (3, 4, 1), (3, 4, 1), (6,), (6,), dims=2,
         normalized_shape=(6,), **MASK),
    case("aten._native_batch_norm_legit_functional.default", IMAGE, (4,), (4,), (4,), (4,), dims=1, training=True,
         momentum=0.1, eps=1e-5),
    case("aten._native_batch_norm_legit_no_training.default", IMAGE, (4,), (4,), (4,), (4,), momentum=0.1, eps=1e-5),
    case("aten.native_batch_norm_backward.default", IMAGE, IMAGE, (4,), (4,), (4,), (4,), (4,), dims=1, train=True,
         eps=1e-5, **MASK),
    case("aten.native_group_norm.default", IMAGE, (4,), (4,), dims=1, N=2, C=4, HxW=56, group=2, eps=1e-5),
    case("aten.native_group_norm_backward.default", IMAGE, IMAGE, (2, 2), (2, 2), (4,), dims=1, N=2, C=4, HxW=56,
         group=2, **MASK),
    case("aten.embedding.default", (9, 5), (3, 4), dims=3, dtypes={1: "int64"}),
    case("aten.embedding_dense_backward.default", (3, 4, 5), (3, 4), dims=3, dtypes={1: "int64"}, num_weights=100,
         padding_idx=-1, scale_grad_by_freq=False),
    case("aten.mse_loss.default", (4, 5), (4, 5), dims=2, reduction=1),
    case("aten.mse_loss.default", (4, 5), (4, 5), dims=2, reduction=0),
    case("aten.mse_loss_backward.default", (), (4, 5), (4, 5), dims=2, reduction=1),
    case("aten.nll_loss_forward.default", (6, 9), (6,), None, dims=1, dtypes={1: "int64"}, reduction=0,
         ignore_index=-100),
    case("aten.nll_loss_forward.default", (6, 9), (6,), None, dims=0, dtypes={1: "int64"}, reduction=1,
         ignore_index=-100),
    case("aten.nll_loss_backward.default", (), (6, 5), (6,), None, (), dims=1, dtypes={2: "int64"}, reduction=1,
         ignore_index=-100),
    case("aten.transpose.int", (3, 4, 5), dims=3, dim0=0, dim1=-1),
    case("aten.t.default", (3, 4), dims=2),
    Case("aten.permute.default", ((3, 4, 5),), {"dims": (2, 0, 1)}, dims=3),
    case("aten.squeeze.dim", (3, 1, 5), dims=2, dim=1),
    case("aten.view.default", (4, 6), size=(2, 2, 6)),
    case("aten.view.default", (2, 2, 6), size=(4, 6)),
    case("aten._unsafe_view.default", (4, 6), size=(24,)),
    case("aten.cat.default", (3, 4), (3, 2), (3, 5), dims=2, dim=1),
    case("aten.stack.default", (3, 4), (3, 4), dims=2, dim=1),
    case("aten.split.Tensor", (3, 7), dims=1, split_size=3, dim=1),
    case("aten.unbind.int", (3, 4, 5), dims=2, dim=1),
    case("aten.slice.Tensor", (3, 9), dims=2, dim=1, start=2, end=8, step=2),
    case("aten.select.int", (3, 4, 5), dims=2, dim=1, index=-1),
    case("aten.constant_pad_nd.default", (3, 4), dims=2, pad=(1, 2, 0, 1), value=0.0),
    Case("aten.roll.default", ((3, 4),), {"shifts": (1,), "dims": (1,)}, dims=1),
    Case("aten.flip.default", ((3, 4),), {"dims": (1,)}, dims=2),
    case("aten.expand.default", (3, 1, 5), dims=3, size=(3, 4, 5)),
    case("aten.index_select.default", (100, 4), (5,), dims=2, dim=0, dtypes={1: "int64"}),
    case("aten.gather.default", (3, 100), (3, 4), dims=2, dim=1, dtypes={1: "int64"}),
    case("aten.index.Tensor", (100, 4), (2, 3), dims=3, dtypes={1: "int64"}),
    case("aten.repeat.default", (3, 4), repeats=(2, 1)),
    case("aten.full.default", size=(3, 4), fill_value=1.0),
    case("aten.arange.default", dims=0, end=5),
    case("aten.scaled_dot_product_attention.default", (2, 3, 5, 4), (2, 3, 6, 4), (2, 3, 6, 4), dims=3),
    case("aten.scaled_dot_product_attention.default", (2, 3, 5, 4), (2, 3, 5, 4), (2, 3, 5, 4), dims=2, is_causal=True),
    case("aten._scaled_dot_product_flash_attention_for_cpu.default", (2, 3, 5, 4), (2, 3, 6, 4), (2, 3, 6, 4), dims=3),
    case("aten.native_dropout.default", (3, 4), dims=2, p=0.5, train=True),
    case("aten.native_dropout_backward.default", (3, 4), (3, 4), dims=2, dtypes={1: "bool"}, scale=2.0),
    *(case(f"aten.{name}.default", (3, 4), dims=2) for name in ("relu", "tanh", "gelu", "silu", "clone", "exp")),
    *(case(f"aten.{name}_backward.default", (3, 4), (3, 4), dims=2) for name in ("tanh", "gelu", "silu", "sigmoid")),
    case("aten.threshold_backward.default", (3, 4), (3, 4), dims=2, threshold=0.0),
    case("aten.add.Tensor", (3, 4), (4,), dims=2),
    case("aten.mul.Tensor", (3, 1), (3, 4), dims=2),
    case("aten.mul.Scalar", (3, 4), dims=2, other=2.0),
    case("aten.pow.Tensor_Scalar", (3, 4), dims=2, exponent=2.0),
    case("aten.where.self", (3, 4), (3, 4), (3, 1), dims=2, dtypes={0: "bool"}),
)  # fmt: skip


def graph_of(case: Case) -> tuple[Graph, Op]:
    """The case as a graph of one op; torch says which results it has."""
    import torch

    tensors, operands = [], []
    for i, shape in enumerate(case.reads):
        operands.append(None if shape is None else i)
        if shape is not None:
            size = torch.Size(shape).numel() * 4
            tensors.append(Tensor(i, size, Kind.INPUT, f"x{i}", shape, case.dtypes.get(i, "float32")))
    inputs = tuple(i for i in operands if i is not None)
    bare = Op(0, inputs, (), "probe", case.type, attributes=case.attributes, operands=tuple(operands))
    results = results_of(Graph("probe", tuple(tensors), (), dialect="aten"), bare)
    first = len(case.reads)
    made = [
        Tensor(
            first + j, y.numel() * y.element_size(), Kind.OUTPUT, f"y{j}", tuple(y.shape), str(y.dtype).split(".")[1]
        )
        for j, y in enumerate(results)
    ]
    op = replace(bare, outputs=tuple(t.id for t in made))
    return Graph("probe", (*tensors, *made), (op,), dialect="aten"), op


def results_of(graph: Graph, op: Op) -> list[Any]:
    """What torch gives for zeros."""
    import torch

    from lowtide.run.probe_aten import AtenRunner, arguments_of

    function = AtenRunner()._function(op.type)
    given = [
        None
        if t is None
        else torch.zeros(graph.tensor_by_id[t].shape, dtype=getattr(torch, graph.tensor_by_id[t].dtype))
        for t in op.operands
    ]
    results = function(**arguments_of(function._schema, given, op))
    flat = list(results) if isinstance(results, tuple | list) else [results]
    return [y for y in flat if y is not None]


def probed(graph: Graph, op: Op, meaning: Meaning, seed: int = 0) -> Findings:
    """What probing shows of this meaning."""
    runner = runner_of("aten")
    assert runner is not None
    return probe_node(graph, op, meaning, runner, seed, BUDGET, BUDGET)[0]


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c.type[5:]}-{len(c.reads)}")
def test_a_row_holds_in_torch(case: Case):
    """What the map leaves out moves nothing, what it names moves something, and sums add up."""
    graph, op = graph_of(case)
    known = meaning(graph, op)
    assert known is not None
    assert known.opaque is None, known.opaque
    cuttable = known.access.cuttable()
    assert len(cuttable) == case.dims if case.dims >= 0 else cuttable
    findings = probed(graph, op, known)
    assert not findings.wrong
    assert findings.parts or findings.sums or not cuttable
    assert findings.inside_moved or not findings.inside or aten.name_of(op.type) in ("full", "embedding_dense_backward")


def broken(access: Access) -> list[Access]:
    """The access with one of its indices a row off, one side at a time; and with a reduced axis forgotten."""
    result = []
    for i, dims in enumerate(access.inputs):
        for d, index in enumerate(dims or ()):
            if index is None or index.axis < 0:
                continue
            for lo, hi in ((1, 1), (-1, -1)):
                wrong = Index(index.axis, index.num, index.den, index.lo + lo * index.den, index.hi + hi * index.den)
                changed = (*(dims or ())[:d], wrong, *(dims or ())[d + 1 :])
                result.append(replace(access, inputs=(*access.inputs[:i], changed, *access.inputs[i + 1 :])))
    return result


@pytest.mark.parametrize("case", [c for c in CASES if c.dims], ids=lambda c: f"{c.type[5:]}-{len(c.reads)}")
def test_a_row_broken_on_purpose_is_caught(case: Case):
    """An index one row off, on either side, is seen by the probe for every op that reads rows by their place."""
    graph, op = graph_of(case)
    known = meaning(graph, op)
    assert known is not None
    for wrong in broken(known.access):
        try:
            limits = getattr(known.form, "limits", ())
            findings = probed(graph, op, replace(known, form=Custom(known.family, wrong, limits=limits), access=wrong))
        except RefusedError:
            continue
        assert findings.wrong, (wrong, known.access)
