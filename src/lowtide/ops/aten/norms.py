"""ATen ops whose results depend on all of some dimensions: softmax, norms, cumulative sums, orders; and norms of
channels."""

from __future__ import annotations

from lowtide.ops.forms import Along, Channelwise, Form, Labelled
from lowtide.ops.node import Node, NoForm, Row


def one_dim(default: int | None = None) -> Row:
    """Form of an op whose results depend on all of the dimension `dim`."""

    def row(node: Node) -> Form:
        value = node.attribute("dim", default)
        if not isinstance(value, int):
            raise NoForm("its argument dim is not known")
        return Along((node.dim(value, node.rank()),))

    return row


def normalised(node: Node) -> tuple[int, ...]:
    """Dimensions over which a layer norm computes statistics. Raises `NoForm`: how many they are is not known."""
    shape = node.ints("normalized_shape")
    if not shape:
        raise NoForm("its argument normalized_shape is not known")
    return tuple(range(node.rank() - len(shape), node.rank()))


def _batch_norm(training: bool | None) -> Row:
    """In training the statistics run over everything but the channels; they are kept for the way back."""

    def row(node: Node) -> Form:
        train = training if training is not None else bool(node.attribute("training", False))
        if node.rank() < 2:
            raise NoForm("no dimension of channels")
        vectors = tuple(range(1, len(node.operands)))
        untiled = (0, *range(2, node.rank())) if train else ()
        return Channelwise(1, vectors, untiled, cost=4)

    return row


def _group_norm(node: Node) -> Form:
    """Results: data, then mean and deviation of shape (batch, groups)."""
    rank = node.rank()
    data = (0, *(None,) * (rank - 1))
    operands = tuple(None if s is None else data if i == 0 else (None,) * len(s) for i, s in enumerate(node.reads))
    return Labelled("channelwise", operands, (data, *((0, None),) * (len(node.writes) - 1)))


ROWS: dict[str, Row] = {
    "_softmax _log_softmax softmax log_softmax _safe_softmax cumsum cumprod": one_dim(),
    "glu": one_dim(default=-1),
    "sort topk": lambda node: Along((node.dim(int(node.attribute("dim", -1)), node.rank()),), cost=20),
    "native_layer_norm layer_norm rms_norm _fused_rms_norm": lambda node: Along(normalised(node)),
    "native_group_norm": _group_norm,
    "native_batch_norm _native_batch_norm_legit _native_batch_norm_legit_functional batch_norm": _batch_norm(None),
    "_native_batch_norm_legit_no_training": _batch_norm(False),
    "_batch_norm_with_update_functional": _batch_norm(True),
    "triu tril": lambda node: Along((node.rank() - 2, node.rank() - 1), cost=0),  # the diagonal counts from the corner
}
