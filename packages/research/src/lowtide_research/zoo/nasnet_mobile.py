"""NASNet-A Mobile op for op as torch exports timm's model: what Zhong et al.'s NASNet-A row was measured on.

Its own order needs their RPO peak and its optimum is theirs (4405 and 3943 KiB), once batch normalisation and
activation are one op with what they follow, and padding and slicing are free. Nothing is merged: a ReLU that two
branches take of one tensor is two ops. Reduction cells pad by one row and column before they stride, and slice the
first ones off again, as TensorFlow's padding asks for.
"""

from __future__ import annotations

from lowtide_research.zoo.builder import Net, Value

CLASSES = 1000
STEM = 32  # channels of the first convolution


def build_nasnet_mobile(name: str, *, n: int, filters: int) -> Net:
    """Stem, two reducing stem cells, three stacks of `n` normal cells with a reduction cell between. `filters`:
    channels of a branch of the first stack; they double with every stack."""
    net = Net(name, merge=False)
    image = net.input("image", (1, 3, 224, 224))
    stem = net.batch_norm(net.padded_conv(image, STEM, (3, 3), (2, 2), (0, 0)))
    with net.scope("stem0"):
        squeezed = _squeezed(net, stem, filters // 4)
        older, newer = stem, _reduction(net, squeezed, stem, filters // 4, padded=False)
    with net.scope("stem1"):
        squeezed = _squeezed(net, newer, filters // 2)
        fitted = _halved(net, older, filters // 2)
        older, newer = newer, _reduction(net, squeezed, fitted, filters // 2)
    for stack in range(3):
        width = filters << stack
        for i in range(n):
            with net.scope(f"stack{stack}/cell{i}"):
                states = (_squeezed if i else _halved)(net, older, width), _squeezed(net, newer, width)
                older, newer = newer, _normal(net, *states, width)
        if stack < 2:
            with net.scope(f"reduction{stack}"):
                fitted, squeezed = _squeezed(net, older, 2 * width), _squeezed(net, newer, 2 * width)
                older, newer = newer, _reduction(net, squeezed, fitted, 2 * width)
    y = net.relu(newer)
    side = y.shape[2:]
    pooled = net.op("AveragePool", [y], (1, y.shape[1], 1, 1), y.signal, kernel_shape=side, strides=side)
    net.output(net.gemm(net.reshape(pooled, (1, y.shape[1])), CLASSES))
    return net


def _normal(net: Net, older: Value, newer: Value, width: int) -> Value:
    states = [
        older,
        net.add(_separable(net, newer, 5, width), _separable(net, older, 3, width)),
        net.add(_separable(net, older, 5, width), _separable(net, older, 3, width)),
        net.add(net.average_pool(newer, 3), older),
        net.add(net.average_pool(older, 3), net.average_pool(older, 3)),
        net.add(_separable(net, newer, 3, width), newer),
    ]
    return net.concat(states)


def _reduction(net: Net, newer: Value, older: Value, width: int, *, padded: bool = True) -> Value:
    def branch(x: Value, kernel: int, stride: int = 2) -> Value:
        return _separable(net, x, kernel, width, stride, padded=padded)

    def pool(kind: str) -> Value:
        x = _padded(net, newer) if padded else newer
        y = net.max_pool(x, 3, 2) if kind == "max" else net.average_pool(x, 3, 2)
        return _sliced(net, y) if padded else y

    first = net.add(branch(newer, 5), branch(older, 7))
    second = net.add(pool("max"), branch(older, 7))
    third = net.add(pool("average"), branch(older, 5))
    fourth = net.add(net.average_pool(first, 3), second)
    return net.concat([second, third, fourth, net.add(branch(first, 3, 1), pool("max"))])


def _squeezed(net: Net, x: Value, width: int) -> Value:
    return net.batch_norm(net.conv(net.relu(x), width, 1))


def _halved(net: Net, x: Value, width: int) -> Value:
    """Half the height and width: one half of the channels sees the even rows and columns, one the odd ones."""
    x = net.relu(x)
    even = net.conv(net.average_pool(x, 1, 2), width // 2, 1)
    shifted = _sliced(net, net.pad(x, (0, 0, 0, 0), (0, 0, 1, 1)))
    odd = net.conv(net.average_pool(shifted, 1, 2), width // 2, 1)
    return net.batch_norm(net.concat([even, odd]))


def _separable(net: Net, x: Value, kernel: int, width: int, stride: int = 1, *, padded: bool = False) -> Value:
    y = net.relu(x)
    y = net.depthwise(_padded(net, y) if padded else y, kernel, stride, bias=True)
    y = net.conv(y, width, 1)
    y = net.relu(net.batch_norm(_sliced(net, y) if padded else y))
    return net.batch_norm(net.conv(net.depthwise(y, kernel, bias=True), width, 1))


def _padded(net: Net, x: Value) -> Value:
    return net.pad(x, (0, 0, 1, 1), (0, 0, 0, 0))


def _sliced(net: Net, x: Value) -> Value:
    """Without the first row, then without the first column."""
    batch, channels, height, width = x.shape
    x = net.slice(x, (0, 0, 1, 0), x.shape)
    return net.slice(x, (0, 0, 0, 1), (batch, channels, height - 1, width))
