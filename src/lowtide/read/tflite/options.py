"""Options of TFLite's operators: which fields each kind has, and their values as plain numbers and tuples.

Source: `tensorflow/lite/schema/schema.fbs` (schema version 3, as of ai-edge-litert 2.3). An entry of a table is the
number of a kind in the union, then its fields by slot: ``name:form=default``. The form is that of `struct`, ``i`` if
none is given; ``*`` before it is a vector, ``s`` a text, ``-`` a slot that is no longer used. Kinds without fields have
no entry.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any, NamedTuple

from lowtide.graph import MAX_VALUE_BYTES, Array
from lowtide.read.tflite.wire import Table

_BUILTIN = """
      1 padding:b stride_w stride_h fused_activation_function:b dilation_w_factor=1 dilation_h_factor=1
        quantized_bias_type:b
      2 padding:b stride_w stride_h depth_multiplier fused_activation_function:b dilation_w_factor=1
        dilation_h_factor=1
      3 num_channels num_columns_per_channel:*i embedding_dim_per_channel:*i
      4 type:b
      5 padding:b stride_w stride_h filter_width filter_height fused_activation_function:b
      6 rank fused_activation_function:b asymmetric_quantize_inputs:B
      7 fused_activation_function:b asymmetric_quantize_inputs:B
      8 fused_activation_function:b weights_format:b keep_num_dims:B asymmetric_quantize_inputs:B quantized_bias_type:b
        quant_spec:*B
      9 beta:f
     10 axis fused_activation_function:b
     11 fused_activation_function:b pot_scale_int16:B=1
     12 fused_activation_function:b
     13 radius bias:f alpha:f beta:f
     14 fused_activation_function:b cell_clip:f proj_clip:f kernel_type:b asymmetric_quantize_inputs:B
     15 - - align_corners:B half_pixel_centers:B
     16 subgraph:I
     17 new_shape:*i
     18 ngram_size max_skip_size include_all_ngrams:B
     19 block_size
     20 combiner:b
     21 fused_activation_function:b
     23 axis batch_dims
     27 keep_dims:B
     28 fused_activation_function:b pot_scale_int16:B=1
     29 fused_activation_function:b
     30 squeeze_dims:*i
     31 time_major:B fused_activation_function:b asymmetric_quantize_inputs:B
     32 begin_mask end_mask ellipsis_mask new_axis_mask shrink_axis_mask offset:B
     35 num_splits
     37 in_data_type:b out_data_type:b
     40 output_type:b
     49 padding:b stride_w stride_h fused_activation_function:b quantized_bias_type:b
     50 validate_indices:B
     55 out_type:b
     57 output_type:b
     58 min:f max:f num_bits narrow_range:B
     59 values_count axis
     61 axis
     64 num axis
     69 fused_activation_function:b cell_clip:f proj_clip:f merge_outputs:B time_major:B=1 asymmetric_quantize_inputs:B
     70 time_major:B fused_activation_function:b merge_outputs:B asymmetric_quantize_inputs:B
     71 fused_activation_function:b cell_clip:f proj_clip:f time_major:B asymmetric_quantize_inputs:B
        diagonal_recurrent_tensors:B
     74 align_corners:B half_pixel_centers:B
     75 alpha:f
     77 mode:b
     79 num_splits
     80 idx_out_type:b=2
     87 seq_dim batch_dim
     92 then_subgraph_index else_subgraph_index
     93 cond_subgraph_index body_subgraph_index
     94 block_size
    101 adj_x:B adj_y:B asymmetric_quantize_inputs:B
    102 exclusive:B reverse:B
    103 init_subgraph_index
    106 padding:b stride_d stride_w stride_h fused_activation_function:b dilation_d_factor=1 dilation_w_factor=1
        dilation_h_factor=1
    107 table_id key_dtype:b value_dtype:b
    111 container:s shared_name:s
    114 seed:q seed2:q
    115 boundaries:*f
    116 approximate:B
"""
"""`BuiltinOptions`. Booleans are 0 or 1; of `Padding` 0 is SAME and 1 VALID."""

_BUILTIN_2 = """
      1 dimension:q
      2 broadcast_dimensions:*q
      3 start_indices:*q limit_indices:*q strides:*q
      4 window_strides:*q padding:*q lhs_dilation:*q rhs_dilation:*q window_reversal:*B input_batch_dimension:q
        input_feature_dimension:q input_spatial_dimensions:*q kernel_input_feature_dimension:q
        kernel_output_feature_dimension:q kernel_spatial_dimensions:*q output_batch_dimension:q
        output_feature_dimension:q output_spatial_dimensions:*q feature_group_count:q batch_group_count:q
        precision_config:*I
      5 call_target_name:s has_side_effect:B backend_config:s api_version called_computations:*i custom_attributes:*B
      6 dimensions:*q body_subgraph_index
      7 indices_are_sorted:B update_window_dims:*q inserted_window_dims:*q scatter_dims_to_operand_dims:*q
        index_vector_dim:q unique_indices:B update_computation_subgraph_index
      8 comparison_direction:I compare_type:I
      9 slice_sizes:*q
     10 edge_padding_low:*q edge_padding_high:*q interior_padding:*q
     11 iota_dimension:q
     12 lhs_batching_dimensions:*q rhs_batching_dimensions:*q lhs_contracting_dimensions:*q
        rhs_contracting_dimensions:*q precision_config:*I
     13 window_dimensions:*q window_strides:*q base_dilations:*q window_dilations:*q padding:*q body_subgraph_index
     14 dimension:q is_stable:B comparator_subgraph_index
     15 cond_subgraph_index body_subgraph_index
     16 offset_dims:*q collapsed_slice_dims:*q start_index_map:*q index_vector_dim:q slice_sizes:*q
        indices_are_sorted:B
     17 permutation:*q
     19 algorithm:b
     20 reduce_function
     21 name:s decomposition_subgraph_index composite_attributes:*B composite_attributes_format:b version
     23 branch_subgraph_indices:*i
"""
"""`BuiltinOptions2`."""

SUBGRAPHS = (
    "subgraph", "then_subgraph_index", "else_subgraph_index", "cond_subgraph_index", "body_subgraph_index",
    "init_subgraph_index", "comparator_subgraph_index", "update_computation_subgraph_index",
    "decomposition_subgraph_index",
)  # fmt: skip
"""Options that name a subgraph, in the order in which an operator runs them."""

_DTYPES = {"b": "int8", "B": "uint8", "h": "int16", "i": "int32", "I": "uint32", "q": "int64", "f": "float32"}
_TYPE, _OPTIONS, _CUSTOM, _TYPE_2, _OPTIONS_2 = 3, 4, 5, 11, 12
"""Slots of an operator's table."""


class Field(NamedTuple):
    """A field of an options table. `form` is `struct`'s, ``s`` for a text; `many`: a vector."""

    slot: int
    name: str
    form: str
    many: bool
    default: int


def _parsed(text: str) -> dict[int, tuple[Field, ...]]:
    kinds: dict[int, tuple[Field, ...]] = {}
    rows: list[list[str]] = []
    for word in text.split():
        if word.isdigit():
            rows.append([])
        rows[-1].append(word)
    for number, *entries in rows:
        fields = []
        for slot, entry in enumerate(entries):
            name, _, default = entry.partition("=")
            name, _, form = name.partition(":")
            if name != "-":
                fields.append(Field(slot, name, form.removeprefix("*") or "i", form[:1] == "*", int(default or 0)))
        kinds[int(number)] = tuple(fields)
    return kinds


OPTIONS: Mapping[int, tuple[Field, ...]] = _parsed(_BUILTIN)  # fields of each kind of builtin options that has some
OPTIONS_2: Mapping[int, tuple[Field, ...]] = _parsed(_BUILTIN_2)  # those of the newer union


def options_of(operator: Table) -> dict[str, Any]:
    """What an operator's options say, by the schema's names, and ``custom_options``, the bytes of a custom operator.
    Defaults are filled in; an operator whose file holds no options has none. Raises `WireError`: a table or a vector
    leads out of the file."""
    values: dict[str, Any] = {}
    for kinds, kind, slot in ((OPTIONS, _TYPE, _OPTIONS), (OPTIONS_2, _TYPE_2, _OPTIONS_2)):
        fields = kinds.get(operator.number(kind, "B"), ())
        table = operator.table(slot) if fields else None
        if table is not None:
            values.update((f.name, _value(table, f)) for f in fields)
    custom = operator.vector(_CUSTOM, 1)
    if custom is not None:
        values["custom_options"] = _held(operator, custom, "B")
    return values


def _value(table: Table, field: Field) -> Any:
    if field.form == "s":
        return table.text(field.slot)
    if not field.many:
        return table.number(field.slot, field.form, field.default)
    vector = table.vector(field.slot, struct.calcsize(field.form))
    return () if vector is None else _held(table, vector, field.form)


def _held(table: Table, vector: tuple[int, int], form: str) -> Any:
    """Entries of a vector, bytes as bytes; of a long one its type and length."""
    at, count = vector
    if count * struct.calcsize(form) > MAX_VALUE_BYTES:
        return Array(_DTYPES[form], (count,))
    numbers = table.file.integers(form, at, count)
    return bytes(numbers) if form == "B" else numbers
