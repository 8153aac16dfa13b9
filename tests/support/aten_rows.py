"""Small instances of every row of the ATen operator table; torch says which results each has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from lowtide.graph import Graph, Kind, Op, Tensor


@dataclass(frozen=True)
class Instance:
    """An op: its type, the shapes of its tensors (None: left out), its arguments, element types that are not float."""

    type: str
    reads: tuple[tuple[int, ...] | None, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    dtypes: Mapping[int, str] = field(default_factory=dict)
    dims: int = -1
    """Axes that can be cut, so that a map is not proved by saying nothing; -1: at least one."""
    unread: tuple[int, ...] = ()
    """Operands whose numbers move no result: of ``zeros_like`` only the shape is asked for."""


def case(
    name: str, *reads: Any, dims: int = -1, dtypes: Mapping[int, str] | None = None, **attributes: Any
) -> Instance:
    """An instance in one line."""
    return Instance(name, reads, attributes, dtypes or {}, dims)


CONV: dict[str, Any] = {
    "stride": (2, 1), "padding": (1, 0), "dilation": (1, 2), "transposed": False, "output_padding": (0, 0), "groups": 1
}  # fmt: skip
MASK = {"output_mask": (True, True, True)}
IMAGE = (2, 4, 8, 7)
UNARY = (
    "relu", "tanh", "gelu", "silu", "clone", "exp", "acos", "asin", "atan", "cosh", "sinh", "tan", "erfc", "exp2",
    "expm1", "isnan", "lift_fresh_copy", "log10", "log1p", "log2", "log_sigmoid_forward", "mish", "sgn",
    "square", "trunc", "contiguous", "abs", "ceil", "cos", "erf", "floor", "log", "neg",
    "reciprocal", "round", "rsqrt", "sign", "sin", "sqrt", "elu", "hardsigmoid", "hardswish", "hardtanh",
    "leaky_relu", "sigmoid", "softplus", "alias", "detach",
)  # fmt: skip
"""Elementwise or as they are, and of one operand."""

INSTANCES = (
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
    Instance("aten.permute.default", ((3, 4, 5),), {"dims": (2, 0, 1)}, dims=3),
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
    Instance("aten.roll.default", ((3, 4),), {"shifts": (1,), "dims": (1,)}, dims=1),
    Instance("aten.flip.default", ((3, 4),), {"dims": (1,)}, dims=2),
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
    *(case(f"aten.{name}.default", (3, 4), dims=2) for name in UNARY),
    *(case(f"aten.{name}.default", (3, 4), dims=2, dtypes={0: "bool"}) for name in ("bitwise_not", "logical_not")),
    *(case(f"aten.{name}.default", (3, 4), (3, 4), dims=2) for name in ("atan2", "hardsigmoid_backward",
      "hardswish_backward", "floor_divide", "maximum", "minimum")),
    *(case(f"aten.{name}.Tensor", (3, 4), (3, 1), dims=2) for name in ("sub", "div", "rsub", "xlogy", "fmod",
      "remainder", "eq", "ne", "ge", "gt", "le", "lt")),
    *(case(f"aten.bitwise_{name}.Tensor", (3, 4), (3, 4), dims=2, dtypes={0: "int32", 1: "int32"})
      for name in ("and", "or", "xor")),
    *(case(f"aten.logical_{name}.default", (3, 4), (3, 4), dims=2, dtypes={0: "bool", 1: "bool"})
      for name in ("and", "or", "xor")),
    *(case(f"aten.{name}.default", (3, 4), (3, 4), (3, 4), dims=2) for name in ("addcmul", "addcdiv")),
    case("aten.lerp.Tensor", (3, 4), (3, 4), (3, 4), dims=2),
    case("aten._prelu_kernel.default", (3, 4), (3, 4), dims=2),
    *(case(f"aten.{name}.default", (3, 1), dims=2, size=(3, 4)) for name in ("broadcast_to", "expand_copy")),
    case("aten.elu_backward.default", (3, 4), (3, 4), dims=2, alpha=1.0, scale=1.0, input_scale=1.0, is_result=False),
    case("aten.hardtanh_backward.default", (3, 4), (3, 4), dims=2, min_val=-0.5, max_val=0.5),
    case("aten.leaky_relu_backward.default", (3, 4), (3, 4), dims=2, negative_slope=0.1, self_is_result=False),
    case("aten.softplus_backward.default", (3, 4), (3, 4), dims=2, beta=1.0, threshold=20.0),
    case("aten.threshold.default", (3, 4), dims=2, threshold=0.0, value=2.0),
    case("aten.masked_fill.Scalar", (3, 4), (3, 4), dims=2, value=9.0, dtypes={1: "bool"}),
    Instance("aten.fill.Scalar", ((3, 4),), {"value": 2.0}, dims=2, unread=(0,)),
    Instance("aten.copy.default", ((3, 4), (3, 4)), dims=2, unread=(0,)),
    *(Instance(f"aten.{name}.default", ((3, 4),), dims=2, unread=(0,))
      for name in ("ones_like", "zeros_like", "isinf")),
    case("aten.clamp.default", (3, 4), dims=2, min=-0.5, max=0.5),
    case("aten.clamp_min.default", (3, 4), dims=2, min=0.0),
    case("aten.clamp_max.default", (3, 4), dims=2, max=0.0),
    case("aten._to_copy.default", (3, 4), dims=2),
    case("aten.reshape.default", (4, 6), shape=(2, 2, 6)),
    case("aten.flatten.using_ints", (4, 2, 3), start_dim=1),
    case("aten.unsqueeze.default", (4, 6), dims=2, dim=1),
    *(case(f"aten.{name}_backward.default", (3, 4), (3, 4), dims=2) for name in ("tanh", "gelu", "silu", "sigmoid")),
    case("aten.threshold_backward.default", (3, 4), (3, 4), dims=2, threshold=0.0),
    case("aten.add.Tensor", (3, 4), (4,), dims=2),
    case("aten.mul.Tensor", (3, 1), (3, 4), dims=2),
    case("aten.mul.Scalar", (3, 4), dims=2, other=2.0),
    case("aten.pow.Tensor_Scalar", (3, 4), dims=2, exponent=2.0),
    case("aten.where.self", (3, 4), (3, 4), (3, 1), dims=2, dtypes={0: "bool"}),
    case("aten.conv1d.default", (2, 3, 9), (5, 3, 3), (5,), stride=(2,), padding=(1,)),
    case("aten.conv3d.default", (1, 2, 5, 6, 4), (3, 2, 2, 3, 2), (3,), stride=(1, 2, 1), padding=(0, 1, 0)),
    case("aten.max_pool1d.default", (2, 3, 9), kernel_size=(3,), stride=(2,), padding=(1,)),
    case("aten.max_pool3d.default", (1, 2, 6, 6, 4), kernel_size=(2, 3, 2), stride=(2, 2, 1)),
    case("aten.max_pool3d_with_indices.default", (2, 2, 6, 6, 4), dims=2, kernel_size=(2, 2, 2)),
    case("aten.avg_pool1d.default", (2, 3, 9), kernel_size=(3,), stride=(2,), padding=(1,)),
    case("aten.avg_pool3d.default", (1, 2, 6, 6, 4), kernel_size=(2, 3, 2), stride=(2, 2, 1)),
    case("aten._adaptive_avg_pool3d.default", (2, 2, 6, 4, 4), output_size=(3, 2, 2)),
    case("aten.adaptive_avg_pool1d.default", (2, 3, 8), output_size=(4,)),
    case("aten.adaptive_avg_pool2d.default", (2, 3, 8, 6), output_size=(4, 3)),
    case("aten.adaptive_max_pool2d.default", (2, 3, 8, 6), dims=2, output_size=(4, 3)),
    case("aten.upsample_nearest1d.default", (2, 3, 7), output_size=(14,)),
    case("aten.upsample_nearest3d.default", (1, 2, 3, 4, 5), output_size=(6, 8, 5)),
    case("aten.upsample_bicubic2d.default", IMAGE, dims=2, output_size=(16, 14), align_corners=False),
    case("aten.upsample_linear1d.default", (2, 3, 7), dims=2, output_size=(14,), align_corners=False),
    case("aten.upsample_bilinear2d_backward.default", (2, 4, 16, 14), dims=2, output_size=(16, 14), input_size=IMAGE,
         align_corners=False),
    case("aten.reflection_pad1d.default", (2, 3, 7), dims=2, padding=(1, 2)),
    case("aten.replication_pad1d.default", (2, 3, 7), dims=2, padding=(1, 2)),
    case("aten.replication_pad2d.default", IMAGE, dims=2, padding=(1, 1, 2, 2)),
    case("aten.pixel_shuffle.default", (2, 8, 3, 4), upscale_factor=2),
    case("aten.pixel_unshuffle.default", (2, 2, 6, 4), downscale_factor=2),
    case("aten.amin.default", (4, 5, 6), dims=3, dim=(2,)),
    case("aten.min.dim", (4, 5), dims=1, dim=1),
    case("aten.argmin.default", (4, 5), dims=1, dim=1),
    case("aten.any.dim", (6, 2), dtypes={0: "bool"}, dim=1),
    case("aten.all.dim", (6, 2), dtypes={0: "bool"}, dim=1),
    case("aten.var.correction", (4, 5), dims=1, dim=(1,)),
    case("aten.std.correction", (4, 5), dims=1, dim=(1,)),
    case("aten.prod.dim_int", (4, 5), dims=1, dim=1),
    case("aten.linalg_vector_norm.default", (4, 5), dims=1, dim=(1,)),
    case("aten.softmax.int", (4, 5, 6), dims=2, dim=-1),
    case("aten.log_softmax.int", (4, 5), dims=1, dim=1),
    case("aten._safe_softmax.default", (4, 5), dims=1, dim=-1),
    case("aten.cumprod.default", (4, 5), dims=1, dim=0),
    case("aten.tril.default", (3, 4, 5), dims=1, diagonal=-1),
    case("aten.layer_norm.default", (3, 4, 6), (6,), (6,), dims=2, normalized_shape=(6,)),
    case("aten.rms_norm.default", (3, 4, 6), (6,), dims=2, normalized_shape=(6,)),
    case("aten._fused_rms_norm.default", (3, 4, 6), (6,), dims=2, normalized_shape=(6,), eps=1e-5),
    case("aten.native_batch_norm.default", IMAGE, (4,), (4,), None, None, dims=1, training=True, momentum=0.1,
         eps=1e-5),
    case("aten._native_batch_norm_legit.no_stats", IMAGE, (4,), (4,), dims=1, training=True, momentum=0.1, eps=1e-5),
    case("aten._batch_norm_with_update_functional.default", IMAGE, (4,), (4,), (4,), (4,), dims=1, momentum=0.1,
         eps=1e-5),
    case("aten.batch_norm.default", IMAGE, (4,), (4,), (4,), (4,), training=False, momentum=0.1, eps=1e-5,
         cudnn_enabled=False),
    case("aten.split_with_sizes.default", (3, 7), dims=1, split_sizes=(3, 4), dim=1),
    case("aten.chunk.default", (3, 7), dims=1, chunks=2, dim=1),
    case("aten.narrow.default", (3, 9), dims=2, dim=1, start=2, length=4),
    case("aten.full_like.default", (3, 4), fill_value=1.0),
    case("aten.zeros.default", size=(3, 4)),
    case("aten.ones.default", size=(3, 4)),
    case("aten.new_zeros.default", (3, 4), size=(2, 5)),
    case("aten.new_full.default", (3, 4), size=(2, 5), fill_value=2.0),
    case("aten.scalar_tensor.default", dims=0, s=3.0),
    case("aten.eye.default", dims=0, n=4),
    case("aten._reshape_copy.default", (4, 6), size=(2, 2, 6)),
    case("aten.view_copy.default", (2, 2, 6), size=(4, 6)),
    case("aten._reshape_alias.default", (4, 6), size=(2, 12), stride=(12, 1)),
    case("aten.unflatten.int", (4, 6), dim=1, sizes=(2, 3)),
)  # fmt: skip


NOT_RUN = {
    "constant_pad_nd_backward": "torch 2.13 has no op of that name to call",
    "empty": "holds what was there before",
    "bernoulli": "draws random numbers",
    "rand_like": "draws random numbers",
    "randn_like": "draws random numbers",
    "rand": "draws random numbers",
    "randn": "draws random numbers",
    "_scaled_dot_product_flash_attention": "runs on a GPU alone",
    "_scaled_dot_product_efficient_attention": "runs on a GPU alone",
}
"""Rows without an instance, and why."""


def graph_of(instance: Instance) -> tuple[Graph, Op]:
    """The instance as a graph of one op; torch says which results it has."""
    import torch

    tensors, operands = [], []
    for i, shape in enumerate(instance.reads):
        operands.append(None if shape is None else i)
        if shape is not None:
            size = torch.Size(shape).numel() * 4
            tensors.append(Tensor(i, size, Kind.INPUT, f"x{i}", shape, instance.dtypes.get(i, "float32")))
    inputs = tuple(i for i in operands if i is not None)
    bare = Op(0, inputs, (), "probe", instance.type, attributes=instance.attributes, operands=tuple(operands))
    results = results_of(Graph("probe", tuple(tensors), (), dialect="aten"), bare)
    first = len(instance.reads)
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
