"""HRNet for classification (Wang et al., Deep High-Resolution Representation Learning, TPAMI 2020).

Branches of falling resolution and rising width run side by side; at the end of a module every branch gets the
sum of all of them::

    1/4  --- blocks ---+--- sum --- ... --- 128 --.
    1/8  --- blocks ---+--- sum --- ... --- 256 --+-- (stride 2, add)
    1/16 ----------- blocks --+---- ... --- 512 --+--
    1/32 ----------------- blocks -- .. -- 1024 --+-- 1x1 - pool - linear

Zhong et al. (ICCAD 2023) give peaks and no configuration. With a 256x256 image and the activations inside the
convolutions, the head explains them. In depth-first post-order the widened branches of 1/32, 1/16 and 1/8 (112
channels' worth of 1/4) are held while the residual block of 1/4 adds 128 and 128 channels to 128 more: 496 x 16 KiB =
7936 KB, their RPO peak of all three networks. The other way round, the narrow branches are held: 398 and 399.75 x 16
KiB = 6368 and 6396 KB, their optima of W18-v1 and W18-v2. The standard first stage of W18-v2 and W32, 64 channels
widened to 256, would need 12288 KB whatever the order; ``bottleneck=32`` gives what they print.
"""

from __future__ import annotations

from dataclasses import dataclass

from lowtide_research.zoo.builder import Net, Value

CLASSES = 1000
EXPANSION = 4
HEAD_WIDTHS = (32, 64, 128, 256)
LAST_FILTERS = 2048


@dataclass(frozen=True)
class HrnetShape:
    """What distinguishes the HRNets."""

    bottlenecks: int  # blocks of the first stage
    modules: tuple[int, int, int]  # modules of the second, third and fourth stage
    blocks: int  # residual blocks of each branch of a module
    widths: tuple[int, int, int, int]  # channels of the four branches


SHAPES = {
    "w18_small_v1": HrnetShape(1, (1, 1, 1), 2, (16, 32, 64, 128)),
    "w18_small_v2": HrnetShape(2, (1, 3, 2), 2, (18, 36, 72, 144)),
    "w32": HrnetShape(4, (1, 4, 3), 4, (32, 64, 128, 256)),
}


def build_hrnet(name: str, *, shape: str, side: int, bottleneck: int) -> Net:
    """Stem, four stages, classification head; batch normalisation folded."""
    net, layout = Net(name), SHAPES[shape]
    x = net.relu(net.conv(net.input("image", (1, 3, side, side)), 64, 3, 2))
    x = net.relu(net.conv(x, 64, 3, 2))
    for i in range(layout.bottlenecks):
        with net.scope(f"stage1/block{i}"):
            x = _bottleneck(net, x, bottleneck)
    branches = [x]
    for stage, modules in enumerate(layout.modules, 2):
        with net.scope(f"stage{stage}/transition"):
            branches = _transition(net, branches, layout.widths[:stage])
        for i in range(modules):
            with net.scope(f"stage{stage}/module{i}"):
                branches = _module(net, branches, layout.blocks)
    with net.scope("head"):
        net.output(_head(net, branches))
    return net


def _bottleneck(net: Net, x: Value, width: int) -> Value:
    y = net.relu(net.conv(x, width, 1))
    y = net.conv(net.relu(net.conv(y, width, 3)), EXPANSION * width, 1)
    residual = x if x.shape[1] == EXPANSION * width else net.conv(x, EXPANSION * width, 1)
    return net.relu(net.add(y, residual))


def _basic(net: Net, x: Value) -> Value:
    y = net.conv(net.relu(net.conv(x, x.shape[1], 3)), x.shape[1], 3)
    return net.relu(net.add(y, x))


def _transition(net: Net, branches: list[Value], widths: tuple[int, ...]) -> list[Value]:
    """Bring the branches to their widths, and make one more from the last of them."""
    matched = [
        x if x.shape[1] == width else net.relu(net.conv(x, width, 3))
        for x, width in zip(branches, widths, strict=False)
    ]
    return [*matched, net.relu(net.conv(branches[-1], widths[-1], 3, 2))]


def _module(net: Net, branches: list[Value], blocks: int) -> list[Value]:
    deepened = []
    for i, x in enumerate(branches):
        with net.scope(f"branch{i}"):
            for _ in range(blocks):
                x = _basic(net, x)
        deepened.append(x)
    fused = []
    for i in range(len(deepened)):
        with net.scope(f"fuse{i}"):
            total = _matched(net, deepened, 0, i)
            for j in range(1, len(deepened)):
                total = net.add(total, _matched(net, deepened, j, i))
            fused.append(net.relu(total))
    return fused


def _matched(net: Net, branches: list[Value], source: int, target: int) -> Value:
    """Branch `source` with the resolution and width of branch `target`."""
    x, width = branches[source], branches[target].shape[1]
    if source > target:
        return net.upsample(net.conv(x, width, 1), 2 ** (source - target))
    for step in range(source, target):
        last = step == target - 1
        x = net.conv(x, width if last else x.shape[1], 3, 2)
        x = x if last else net.relu(x)
    return x


def _head(net: Net, branches: list[Value]) -> Value:
    wide = [_bottleneck(net, x, width) for x, width in zip(branches, HEAD_WIDTHS, strict=True)]
    y = wide[0]
    for x in wide[1:]:
        y = net.add(x, net.relu(net.conv(y, x.shape[1], 3, 2)))
    y = net.relu(net.conv(y, LAST_FILTERS, 1))
    return net.gemm(net.reshape(net.global_average_pool(y), (y.shape[0], LAST_FILTERS)), CLASSES)
