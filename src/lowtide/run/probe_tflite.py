"""Runs single TFLite operators in LiteRT's own kernels: a file of one operator, written here from the graph.

What the graph holds as constants is a constant of that file, so that kernels take the path they take in the model. The
interpreter runs in this process: it is given no file of a stranger's, only what is written here.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np

from lowtide.errors import first_line, install_command
from lowtide.graph import Graph, Kind, Op, Tensor
from lowtide.ops.access import Shape
from lowtide.run.probe import Arrays, Kernel, Operand, RefusedError, Runner

_TYPES = {
    "float32": "FLOAT32", "float16": "FLOAT16", "int32": "INT32", "uint8": "UINT8", "int64": "INT64", "bool": "BOOL",
    "int16": "INT16", "int8": "INT8", "uint32": "UINT32", "uint16": "UINT16", "uint64": "UINT64", "float64": "FLOAT64",
}  # fmt: skip
_OPTIONS = {
    "AVERAGE_POOL_2D": "Pool2D", "MAX_POOL_2D": "Pool2D", "L2_POOL_2D": "Pool2D", "SUM": "Reducer", "MEAN": "Reducer",
    "REDUCE_MAX": "Reducer", "REDUCE_MIN": "Reducer", "REDUCE_PROD": "Reducer", "REDUCE_ANY": "Reducer",
    "REDUCE_ALL": "Reducer", "L2_NORMALIZATION": "L2Norm", "MAXIMUM": "MaximumMinimum", "MINIMUM": "MaximumMinimum",
    "UNIDIRECTIONAL_SEQUENCE_LSTM": "UnidirectionalSequenceLSTM", "RNN": "RNN", "SVDF": "SVDF", "LSTM": "LSTM",
    "UNIDIRECTIONAL_SEQUENCE_RNN": "SequenceRNN", "BATCH_MATMUL": "BatchMatMul", "CUMSUM": "Cumsum",
    "EMBEDDING_LOOKUP": "EmbeddingLookup", "SQUARED_DIFFERENCE": "SquaredDifference", "GATHER_ND": "GatherNd",
    "LOCAL_RESPONSE_NORMALIZATION": "LocalResponseNormalization", "TOPK_V2": "TopKV2", "SELECT_V2": "SelectV2",
    "PADV2": "PadV2", "SPLIT_V": "SplitV", "REVERSE_V2": "ReverseV2",
}  # fmt: skip
"""Options whose name does not follow from the operator's; CONV_2D has Conv2DOptions, and so on."""


class TfliteRunner(Runner):
    """Single operators in LiteRT, on one thread, without delegates."""

    drawn = _TYPES

    def __init__(self) -> None:
        if find_spec("ai_edge_litert") is None:
            raise RefusedError(f"needs LiteRT: {install_command('tflite')}")
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
        self._schema: Any = import_module("ai_edge_litert.schema_py_generated")
        self._interpreter: Any = import_module("ai_edge_litert.interpreter")

    def open(self, graph: Graph, op: Op, operands: Sequence[Operand | None]) -> Kernel:
        """A function from operands to results, as `lowtide.run.probe.Runner` has it."""
        tensors = [None if t is None else graph.tensor_by_id[t] for t in op.operands or op.inputs]
        results = [graph.tensor_by_id[t] for t in op.outputs]
        held = [t is not None and t.kind is Kind.CONSTANT for t in tensors]
        last: dict[tuple[object, ...], Any] = {}  # an interpreter by what its model says: probes change little

        def kernel(given: Arrays) -> list[np.ndarray]:
            arrays = [
                array if operand is None or operand.value is None else operand.value
                for array, operand in zip(given, operands, strict=True)
            ]
            fed = [(a, fixed) for a, fixed in zip(arrays, held, strict=True) if a is not None]
            key = tuple(None if a is None else a.shape for a in arrays) + tuple(a.tobytes() for a, f in fed if f)
            if key not in last:
                last.clear()
                last[key] = self._interpreter_of(self._model(op, tensors, arrays, held, results))
            return self._invoke(last[key], [a for a, fixed in fed if not fixed])

        return kernel

    def _model(
        self,
        op: Op,
        tensors: Sequence[Tensor | None],
        arrays: Arrays,
        held: Sequence[bool],
        results: Sequence[Tensor],
    ) -> bytes:
        import flatbuffers

        s = self._schema
        model, subgraph, code, node = s.ModelT(), s.SubGraphT(), s.OperatorCodeT(), s.OperatorT()
        number = getattr(s.BuiltinOperator, op.type, None)
        if number is None:
            raise RefusedError(f"LiteRT has no {op.type}")
        code.builtinCode, code.deprecatedBuiltinCode, code.version = number, min(number, 127), 1
        model.version, model.operatorCodes, model.subgraphs, model.buffers = 3, [code], [subgraph], [s.BufferT()]
        subgraph.tensors, subgraph.operators, subgraph.inputs = [], [node], []
        node.inputs = []
        for tensor, array, fixed in zip(tensors, arrays, held, strict=True):
            if tensor is None or array is None:
                node.inputs.append(-1)
                continue
            node.inputs.append(len(subgraph.tensors))
            if not fixed:
                subgraph.inputs.append(len(subgraph.tensors))
            subgraph.tensors.append(self._tensor(model, tensor, array.shape, array if fixed else None))
        first = len(subgraph.tensors)
        subgraph.tensors += [self._tensor(model, tensor, tensor.shape or (), None) for tensor in results]
        node.outputs = subgraph.outputs = list(range(first, len(subgraph.tensors)))
        self._options(op, node)
        builder = flatbuffers.Builder(1 << 14)
        builder.Finish(model.Pack(builder), b"TFL3")
        return bytes(builder.Output())

    def _tensor(self, model: Any, tensor: Tensor, shape: Shape, value: np.ndarray | None) -> Any:
        s = self._schema
        t = s.TensorT()
        if tensor.dtype not in _TYPES:
            raise RefusedError(f"elements of type {tensor.dtype or 'unknown'} are not drawn")
        t.shape, t.type, t.name, t.hasRank, t.buffer = (
            list(shape),
            getattr(s.TensorType, _TYPES[tensor.dtype]),
            "",
            True,
            0,
        )
        if tensor.quant is not None:
            q = s.QuantizationParametersT()
            q.scale, q.zeroPoint = list(tensor.quant.scales), list(tensor.quant.zero_points)
            axis = tensor.quant.axis or 0  # old converters give a bias the dimension of its weights
            q.quantizedDimension = axis if axis < len(shape) else 0
            t.quantization = q
        if value is not None:
            buffer = s.BufferT()
            buffer.data = np.frombuffer(np.ascontiguousarray(value).tobytes(), np.uint8)
            model.buffers.append(buffer)
            t.buffer = len(model.buffers) - 1
        return t

    def _options(self, op: Op, node: Any) -> None:
        s = self._schema
        words = [word if word[0].isdigit() else word.capitalize() for word in op.type.split("_")]
        name = _OPTIONS.get(op.type, "".join(word.replace("2d", "2D") for word in words)) + "Options"
        kind = getattr(s, f"{name}T", None)
        if kind is None:
            if op.attributes:
                raise RefusedError(f"the options of {op.type} are not known")
            return
        options = kind()
        for key, value in op.attributes.items():
            field = key.split("_")[0] + "".join(word.capitalize() for word in key.split("_")[1:])
            if not hasattr(options, field):
                raise RefusedError(f"{name} has no field {field}")
            setattr(options, field, list(value) if isinstance(value, tuple) else value)
        node.builtinOptions, node.builtinOptionsType = options, getattr(s.BuiltinOptions, name)

    def _interpreter_of(self, model: bytes) -> Any:
        kinds = self._interpreter
        try:
            interpreter = kinds.Interpreter(
                model_content=model,
                num_threads=1,
                experimental_op_resolver_type=kinds.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
            )
            interpreter.allocate_tensors()
        except (RuntimeError, ValueError) as error:
            raise RefusedError(first_line(error)) from None
        return interpreter

    def _invoke(self, interpreter: Any, fed: Sequence[np.ndarray]) -> list[np.ndarray]:
        try:
            interpreter.reset_all_variables()
            for detail, array in zip(interpreter.get_input_details(), fed, strict=True):
                interpreter.set_tensor(detail["index"], array)
            interpreter.invoke()
            return [interpreter.get_tensor(detail["index"]).copy() for detail in interpreter.get_output_details()]
        except (RuntimeError, ValueError) as error:
            raise RefusedError(first_line(error)) from None
