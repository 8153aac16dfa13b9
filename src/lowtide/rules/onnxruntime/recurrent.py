"""What onnxruntime's LSTM, GRU and RNN take from the arena while they run, all after their outputs.

Each direction has buffers of its own: gates of all steps, a few states, biases, and, backwards, its input and output
reversed. All are given back when the kernel ends. Source: core/providers/cpu/rnn (read), and the runtime (1.31,
`tests/rules/onnxruntime/test_scratch.py`). Their turned weights are kept outside the arena.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lowtide.graph import Tensor

_WORD = 4


def recurrent_chunks(
    kind: str, inputs: Sequence[Tensor], outputs: Sequence[Tensor], attributes: Mapping[str, Any]
) -> tuple[int, ...]:
    """Bytes of each chunk, in the order in which they are taken; none if the layer is not one of floats in steps."""
    shapes = [t.shape or () for t in inputs]
    if len(shapes) < 3 or len(shapes[0]) != 3 or len(shapes[1]) != 3 or inputs[0].dtype != "float32":
        return ()
    steps, batch, read = shapes[0]
    directions, rows, _ = shapes[1]
    hidden = rows // {"LSTM": 4, "GRU": 3, "RNN": 1}[kind]
    state = _WORD * batch * hidden
    ranks = [len(t.shape or ()) for t in outputs]
    if kind == "RNN":
        return (steps * state, *(() if 4 in ranks else (steps * directions * state,)))
    missing = (directions * state,) * max(0, (2 if kind == "LSTM" else 1) - ranks.count(3))
    bias = any(len(s) == 2 and s[1] == 2 * rows for s in shapes[3:])
    backwards = (_WORD * steps * batch * read, steps * state)
    lengths = () if any(t.dtype == "int32" for t in inputs[3:]) else (_WORD * batch,)
    if kind == "GRU":
        linear = bool(attributes.get("linear_before_reset", 0))
        biases = (state,) * (4 if linear else 3) if bias else ()
        before = (state, state, *biases, *((state,) * linear), 3 * steps * state)
    else:
        biases = (_WORD * hidden,) * 4 if bias else ()
        before = (_WORD * hidden, _WORD * hidden, state, state, state, 4 * steps * state, *biases)
    forward, reverse = (*before, *lengths), (*before, *backwards, *lengths)
    if directions == 2:
        return (*missing, *forward, *reverse)
    return (*missing, *(reverse if attributes.get("direction") == "reverse" else forward))
