"""The numbers of the TFLite schema: what an operator code, an element type and an option field mean.

Source: `tensorflow/lite/schema/schema.fbs` (schema version 3, as of ai-edge-litert 2.3). Slots are field numbers of
tables, in the order of the schema.
"""

from __future__ import annotations

IDENTIFIER = b"TFL3"

OPERATORS: tuple[str, ...] = tuple(
    """
    ADD AVERAGE_POOL_2D CONCATENATION CONV_2D DEPTHWISE_CONV_2D DEPTH_TO_SPACE DEQUANTIZE EMBEDDING_LOOKUP FLOOR
    FULLY_CONNECTED HASHTABLE_LOOKUP L2_NORMALIZATION L2_POOL_2D LOCAL_RESPONSE_NORMALIZATION LOGISTIC
    LSH_PROJECTION LSTM MAX_POOL_2D MUL RELU RELU_N1_TO_1 RELU6 RESHAPE RESIZE_BILINEAR RNN SOFTMAX SPACE_TO_DEPTH
    SVDF TANH CONCAT_EMBEDDINGS SKIP_GRAM CALL CUSTOM EMBEDDING_LOOKUP_SPARSE PAD UNIDIRECTIONAL_SEQUENCE_RNN GATHER
    BATCH_TO_SPACE_ND SPACE_TO_BATCH_ND TRANSPOSE MEAN SUB DIV SQUEEZE UNIDIRECTIONAL_SEQUENCE_LSTM STRIDED_SLICE
    BIDIRECTIONAL_SEQUENCE_RNN EXP TOPK_V2 SPLIT LOG_SOFTMAX DELEGATE BIDIRECTIONAL_SEQUENCE_LSTM CAST PRELU MAXIMUM
    ARG_MAX MINIMUM LESS NEG PADV2 GREATER GREATER_EQUAL LESS_EQUAL SELECT SLICE SIN TRANSPOSE_CONV SPARSE_TO_DENSE
    TILE EXPAND_DIMS EQUAL NOT_EQUAL LOG SUM SQRT RSQRT SHAPE POW ARG_MIN FAKE_QUANT REDUCE_PROD REDUCE_MAX PACK
    LOGICAL_OR ONE_HOT LOGICAL_AND LOGICAL_NOT UNPACK REDUCE_MIN FLOOR_DIV REDUCE_ANY SQUARE ZEROS_LIKE FILL
    FLOOR_MOD RANGE RESIZE_NEAREST_NEIGHBOR LEAKY_RELU SQUARED_DIFFERENCE MIRROR_PAD ABS SPLIT_V UNIQUE CEIL
    REVERSE_V2 ADD_N GATHER_ND COS WHERE RANK ELU REVERSE_SEQUENCE MATRIX_DIAG QUANTIZE MATRIX_SET_DIAG ROUND
    HARD_SWISH IF WHILE NON_MAX_SUPPRESSION_V4 NON_MAX_SUPPRESSION_V5 SCATTER_ND SELECT_V2 DENSIFY SEGMENT_SUM
    BATCH_MATMUL PLACEHOLDER_FOR_GREATER_OP_CODES CUMSUM CALL_ONCE BROADCAST_TO RFFT2D CONV_3D IMAG REAL COMPLEX_ABS
    HASHTABLE HASHTABLE_FIND HASHTABLE_IMPORT HASHTABLE_SIZE REDUCE_ALL CONV_3D_TRANSPOSE VAR_HANDLE READ_VARIABLE
    ASSIGN_VARIABLE BROADCAST_ARGS RANDOM_STANDARD_NORMAL BUCKETIZE RANDOM_UNIFORM MULTINOMIAL GELU
    DYNAMIC_UPDATE_SLICE RELU_0_TO_1 UNSORTED_SEGMENT_PROD UNSORTED_SEGMENT_MAX UNSORTED_SEGMENT_SUM ATAN2
    UNSORTED_SEGMENT_MIN SIGN BITCAST BITWISE_XOR RIGHT_SHIFT STABLEHLO_LOGISTIC STABLEHLO_ADD STABLEHLO_DIVIDE
    STABLEHLO_MULTIPLY STABLEHLO_MAXIMUM STABLEHLO_RESHAPE STABLEHLO_CLAMP STABLEHLO_CONCATENATE
    STABLEHLO_BROADCAST_IN_DIM STABLEHLO_CONVOLUTION STABLEHLO_SLICE STABLEHLO_CUSTOM_CALL STABLEHLO_REDUCE
    STABLEHLO_ABS STABLEHLO_AND STABLEHLO_COSINE STABLEHLO_EXPONENTIAL STABLEHLO_FLOOR STABLEHLO_LOG
    STABLEHLO_MINIMUM STABLEHLO_NEGATE STABLEHLO_OR STABLEHLO_POWER STABLEHLO_REMAINDER STABLEHLO_RSQRT
    STABLEHLO_SELECT STABLEHLO_SUBTRACT STABLEHLO_TANH STABLEHLO_SCATTER STABLEHLO_COMPARE STABLEHLO_CONVERT
    STABLEHLO_DYNAMIC_SLICE STABLEHLO_DYNAMIC_UPDATE_SLICE STABLEHLO_PAD STABLEHLO_IOTA STABLEHLO_DOT_GENERAL
    STABLEHLO_REDUCE_WINDOW STABLEHLO_SORT STABLEHLO_WHILE STABLEHLO_GATHER STABLEHLO_TRANSPOSE DILATE
    STABLEHLO_RNG_BIT_GENERATOR REDUCE_WINDOW STABLEHLO_COMPOSITE STABLEHLO_SHIFT_LEFT STABLEHLO_CBRT STABLEHLO_CASE
    """.split()  # noqa: SIM905
)
"""Name of each builtin operator code."""

CUSTOM = OPERATORS.index("CUSTOM")
PLACEHOLDER = OPERATORS.index("PLACEHOLDER_FOR_GREATER_OP_CODES")
"""Codes from here on stand in the newer field of an operator code only; the old one is a byte."""

TYPES: dict[int, tuple[str, int]] = {
    0: ("float32", 32),
    1: ("float16", 16),
    2: ("int32", 32),
    3: ("uint8", 8),
    4: ("int64", 64),
    5: ("string", 0),
    6: ("bool", 8),
    7: ("int16", 16),
    8: ("complex64", 64),
    9: ("int8", 8),
    10: ("float64", 64),
    11: ("complex128", 128),
    12: ("uint64", 64),
    13: ("resource", 32),
    14: ("variant", 32),
    15: ("uint32", 32),
    16: ("uint16", 16),
    17: ("int4", 4),
    18: ("bfloat16", 16),
    19: ("int2", 2),
    20: ("uint4", 4),
    21: ("float8_e4m3fn", 8),
    22: ("float8_e5m2", 8),
}
"""Element type: its name and its bits. The elements of a string tensor have no fixed size: 0 here."""

Field = tuple[int, str, str, int]
"""Slot, name, `struct` form, default."""

OPTIONS: dict[int, tuple[Field, ...]] = {
    1: (  # Conv2DOptions
        (0, "padding", "b", 0), (1, "stride_w", "i", 0), (2, "stride_h", "i", 0), (3, "activation", "b", 0),
        (4, "dilation_w", "i", 1), (5, "dilation_h", "i", 1),
    ),
    2: (  # DepthwiseConv2DOptions
        (0, "padding", "b", 0), (1, "stride_w", "i", 0), (2, "stride_h", "i", 0), (3, "depth_multiplier", "i", 0),
        (4, "activation", "b", 0), (5, "dilation_w", "i", 1), (6, "dilation_h", "i", 1),
    ),
    5: (  # Pool2DOptions
        (0, "padding", "b", 0), (1, "stride_w", "i", 0), (2, "stride_h", "i", 0), (3, "filter_w", "i", 0),
        (4, "filter_h", "i", 0), (5, "activation", "b", 0),
    ),
    10: ((0, "axis", "i", 0), (1, "activation", "b", 0)),  # ConcatenationOptions
    15: ((2, "align_corners", "B", 0), (3, "half_pixel_centers", "B", 0)),  # ResizeBilinearOptions
    16: ((0, "subgraph", "I", 0),),  # CallOptions
    19: ((0, "block_size", "i", 0),),  # SpaceToDepthOptions
    27: ((0, "keep_dims", "B", 0),),  # ReducerOptions
    32: (  # StridedSliceOptions
        (0, "begin_mask", "i", 0), (1, "end_mask", "i", 0), (2, "ellipsis_mask", "i", 0), (3, "new_axis_mask", "i", 0),
        (4, "shrink_axis_mask", "i", 0), (5, "offset", "B", 0),
    ),
    31: ((0, "time_major", "B", 0),),  # SequenceRNNOptions
    49: ((0, "padding", "b", 0), (1, "stride_w", "i", 0), (2, "stride_h", "i", 0)),  # TransposeConvOptions
    59: ((0, "values_count", "i", 0), (1, "axis", "i", 0)),  # PackOptions
    71: ((3, "time_major", "B", 0),),  # UnidirectionalSequenceLSTMOptions
    74: ((0, "align_corners", "B", 0), (1, "half_pixel_centers", "B", 0)),  # ResizeNearestNeighborOptions
    92: ((0, "subgraph", "i", 0), (1, "second_subgraph", "i", 0)),  # IfOptions
    93: ((0, "subgraph", "i", 0), (1, "second_subgraph", "i", 0)),  # WhileOptions
    94: ((0, "block_size", "i", 0),),  # DepthToSpaceOptions
    101: ((0, "adj_x", "B", 0), (1, "adj_y", "B", 0)),  # BatchMatMulOptions
    103: ((0, "subgraph", "i", 0),),  # CallOnceOptions
}  # fmt: skip
"""Fields that planning needs, by the kind of builtin options. Padding 0 is SAME, 1 VALID."""

STATEFUL = frozenset(
    """
    CALL CALL_ONCE IF WHILE VAR_HANDLE READ_VARIABLE ASSIGN_VARIABLE HASHTABLE HASHTABLE_FIND HASHTABLE_IMPORT
    HASHTABLE_SIZE RANDOM_STANDARD_NORMAL RANDOM_UNIFORM MULTINOMIAL STABLEHLO_RNG_BIT_GENERATOR STABLEHLO_WHILE
    STABLEHLO_CASE STABLEHLO_COMPOSITE STABLEHLO_CUSTOM_CALL CUSTOM
    """.split()  # noqa: SIM905
)
"""Operators that may read or change something beside their tensors: they keep their order among each other. Custom
operators are unknown, so they are among them."""
