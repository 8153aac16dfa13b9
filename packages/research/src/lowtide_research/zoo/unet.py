"""U-Net (Ronneberger et al., MICCAI 2015) and U-Net++ (Zhou et al., DLMIA 2018).

U-Net++ fills the triangle between the two arms of the U: node ``x[i][j]`` reads all earlier nodes of its row
and the node below, enlarged::

    x00 -- x01 -- x02 -- x03 -- x04
       \\  /   \\  /   \\  /   \\  /
        x10 -- x11 -- x12 -- x13
           ...
"""

from __future__ import annotations

from lowtide_research.zoo.builder import Net, Value

LEVELS = 5
CLASSES = 2


def build_unet(name: str, *, batch: int, side: int, filters: int) -> Net:
    """Four levels down, four up; convolutions are padded, so that the crops of the paper fall away."""
    net = Net(name)
    x = net.input("image", (batch, 1, side, side))
    left: list[Value] = []
    for level in range(LEVELS):
        with net.scope(f"down{level}"):
            x = _double(net, net.max_pool(x, 2, 2) if level else x, filters << level)
        left.append(x)
    for level in reversed(range(LEVELS - 1)):
        with net.scope(f"up{level}"):
            wide = net.conv_transpose(x, filters << level)
            x = _double(net, net.concat([left[level], wide]), filters << level)
    with net.scope("head"):
        net.output(net.conv(x, CLASSES, 1))
    return net


def build_unet_plus(name: str, *, batch: int, side: int, filters: int) -> Net:
    """Nested U-Net of five levels without deep supervision."""
    net = Net(name)
    x = net.input("image", (batch, 3, side, side))
    rows: list[list[Value]] = [[] for _ in range(LEVELS)]
    for diagonal in range(LEVELS):
        with net.scope(f"x{diagonal}_0"):
            x = _double(net, net.max_pool(x, 2, 2) if diagonal else x, filters << diagonal)
        rows[diagonal].append(x)
        for level in reversed(range(diagonal)):
            with net.scope(f"x{level}_{diagonal - level}"):
                below = net.upsample(rows[level + 1][-1], 2)
                rows[level].append(_double(net, net.concat([*rows[level], below]), filters << level))
    with net.scope("head"):
        net.output(net.conv(rows[0][-1], CLASSES, 1))
    return net


def _double(net: Net, x: Value, filters: int) -> Value:
    return net.relu(net.conv(net.relu(net.conv(x, filters, 3)), filters, 3))
