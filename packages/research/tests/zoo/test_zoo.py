"""The zoo: published figures, ids, refusals."""

import math

import pytest

from lowtide.analyse.liveness import profile
from lowtide.analyse.storage import memory_model
from lowtide.errors import InputError
from lowtide.graph import Kind
from lowtide.target import BUILT_IN
from lowtide_research import zoo
from lowtide_research.zoo.randwire import barabasi_albert, erdos_renyi, watts_strogatz
from support.plain_orders import reverse_post_order

PUBLISHED = {
    "nasnet_a_cifar": (780, "2.250"),
    "amoebanet_a_cifar": (742, "1.749"),
    "darts_cifar": (719, "2.321"),
    "nasnet_a_imagenet": (647, "5.064"),
    "amoebanet_a_imagenet": (617, "4.920"),
    "darts_imagenet": (523, "4.908"),
    "pnasnet_5_cifar": (916, "2.571"),
    "pnasnet_5_imagenet": (750, "4.908"),
}
"""HMCOS (DAC 2022), Table 1: ops of its released networks, RPO peak in MiB. PNASNet is not in the paper."""


@pytest.mark.slow
@pytest.mark.parametrize("name", PUBLISHED)
def test_rpo_peak_is_the_published_one(name: str) -> None:
    """Every cell network has HMCOS's op count, and its RPO peak to the printed digit."""
    ops, mebibytes = PUBLISHED[name]
    graph = zoo.build(name).graph()
    model = memory_model(graph, BUILT_IN["hmcos"])
    peak = profile(model, reverse_post_order(graph)).peak
    assert len(graph.ops) == ops
    assert f"{math.floor(peak / 2**20 * 1000 + 0.5) / 1000:.3f}" == mebibytes


@pytest.mark.slow
def test_nasnet_imagenet_rpo_peak_in_bytes() -> None:
    """The printed digits stand for these bytes, under strict rules as well."""
    graph = zoo.build("nasnet_a_imagenet").graph()
    order = reverse_post_order(graph)
    assert profile(memory_model(graph, BUILT_IN["hmcos"]), order).peak == 5_309_824
    assert profile(memory_model(graph, BUILT_IN["strict"]), order).peak == 5_309_824


PARAMETERS = {
    "resnet50": (25_557_032, 0),
    "resnext50": (25_028_904, 0),
    "densenet121": (7_978_856, 0),
    "fcn_resnet50": (35_322_218 - 2_365_205, 21),
    "deeplabv3_resnet50": (42_004_074 - 2_365_205, 21),
    "lraspp_mobilenet_v3": (3_221_538, 5_122),
    "r2plus1d_18": (31_505_325, 0),
    "s3d": (8_320_048, 400),
    "vit_b_16": (86_567_656, 768),
    "transformer_base": (44_140_544, 0),
    "nasnet_a_mobile": (5_289_978, 0),
}
"""Parameters that torchvision, torch and timm state, without auxiliary heads; how many are biases of convolutions."""


@pytest.mark.parametrize("name", PARAMETERS)
def test_parameters_are_those_of_the_published_model(name: str) -> None:
    """Weights are as many as published, apart from the biases that torch's exporter adds to convolutions."""
    net = zoo.build(name)
    published, biases = PARAMETERS[name]
    channels = sum(node.output.shape[1] for node in net.nodes if node.type == "Conv")
    assert net.parameters() - channels + biases == published


ENDS = {
    "darts_imagenet_normal_cell": (2, 1),
    "transformer_base": (2, 1),
    "random_width": (2, 1),
    "matmul": (32, 1),
    "fft": (32, 32),
    "lstm": (30 + 2 * 8, 30),
}
"""Graph inputs and outputs, where there is not one of each."""


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in zoo.names() if not name.startswith("magis_")])
def test_graph_is_one_network(name: str) -> None:
    """Every network has dense ids, the inputs and outputs it should have, no dead op, and its digest is stable.

    Those of MAGIS's code have its numbers and its dead ops (test_magis.py)."""
    graph = zoo.build(name).graph()
    assert [t.id for t in graph.tensors] == list(range(len(graph.tensors)))
    assert [op.id for op in graph.ops] == list(range(len(graph.ops)))
    ends = tuple(sum(t.kind is kind for t in graph.tensors) for kind in (Kind.INPUT, Kind.OUTPUT))
    assert ends == ENDS.get(name, (1, 1))
    unread = [t for t in graph.tensors if t.kind is not Kind.OUTPUT and t.id not in graph.consumers]
    assert not unread
    assert graph.sha256 == zoo.build(name).graph().sha256


@pytest.mark.slow
def test_digests_differ() -> None:
    """No two networks share a digest, not even two seeds of one generator."""
    names = [
        *zoo.names(),
        "randwire_ws:seed=1",
        "randwire_ws:seed=2",
        "nasnet_a_cifar:n=5",
        "transformer:seq=64",
    ]
    assert len({zoo.build(name).graph().sha256 for name in names}) == len(names)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "ops"), [("nasnet_a_cifar:n=440", 50_256), ("transformer:layers=300,seq=32,width=64", 9_901)]
)
def test_large_graphs_are_made_in_seconds(name: str, ops: int) -> None:
    """The scalable networks reach 50,000 and 10,000 ops, and their own order has the peak of one layer."""
    graph = zoo.build(name).graph()
    small = zoo.build(name.replace("n=440", "n=4").replace("layers=300", "layers=4")).graph()
    assert len(graph.ops) == ops
    peak, small_peak = (profile(memory_model(g, BUILT_IN["strict"]), range(len(g.ops))).peak for g in (graph, small))
    assert peak == small_peak


def test_name_keeps_changed_parameters() -> None:
    """Defaults are dropped from the name, and what is set stands in the entry's order."""
    assert zoo.build("transformer:heads=2,layers=6,width=64").name == "transformer:width=64,heads=2"


@pytest.mark.parametrize("name", zoo.names())
def test_network_says_what_it_is(name: str) -> None:
    """Every entry has a paper, a configuration, and parameters whose default is in range."""
    entry = zoo.network(name)
    assert entry.paper
    assert entry.configuration
    assert all(p.least <= p.default <= p.most and p.meaning for p in entry.parameters.values())


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("resnet_9000", ["resnet_9000", "nasnet_a_cifar", "transformer"]),
        ("", ["nasnet_a_cifar"]),
        ("nasnet_a_cifar:layers=3", ["layers", "n (", "filters"]),
        ("nasnet_a_cifar:n=0", ["n is '0'", "1 to"]),
        ("nasnet_a_cifar:n=-3", ["'-3'"]),
        ("nasnet_a_cifar:n=²", ["integer"]),
        ("nasnet_a_cifar:n=99999999999999999999", ["integer"]),
        ("nasnet_a_cifar:n", ["n is ''"]),
        ("nasnet_a_cifar:n=2,n=3", ["twice"]),
        ("nasnet_a_cifar:n=2,", ["''"]),
        ("transformer:heads=3", ["multiple of heads 3"]),
        ("amoebanet_d:layers=4", ["layers is 4", "multiple of 3"]),
        ("amoebanet_d:filters=40", ["multiple of 16"]),
        ("hrnet_w32:side=40", ["multiple of 32"]),
        ("unet:side=40", ["multiple of 16"]),
        ("fft:points=12", ["power of two"]),
        ("swiftnet_cells:n=2", ["'n'", "none"]),
    ],
)
def test_bad_names_are_refused(name: str, words: list[str]) -> None:
    """An unknown network or a bad parameter is one line that says what would do."""
    with pytest.raises(InputError) as caught:
        zoo.build(name)
    assert "\n" not in str(caught.value)
    for word in words:
        assert word in str(caught.value)


def test_merging_can_be_switched_off() -> None:
    """A repeated op is the earlier one, unless the net is told not to merge."""
    for merge, ops in ((True, 2), (False, 3)):
        net = zoo.Net("twice", merge=merge)
        x = net.input("x", (1, 2, 4, 4))
        net.output(net.add(net.relu(x), net.relu(x)))
        assert len(net.graph().ops) == ops


def test_random_graphs_have_the_right_numbers_of_edges() -> None:
    """The generators keep their edge counts and repeat themselves under the same seed."""
    from random import Random

    assert len(watts_strogatz(32, 4, 0.75, Random(3))) == 64
    assert len(barabasi_albert(32, 5, Random(3))) == 27 * 5
    assert len(erdos_renyi(32, 1.0, Random(3))) == 32 * 31 // 2
    assert watts_strogatz(32, 4, 0.0, Random(3)) == {
        (min(a, b), max(a, b)) for i in range(32) for a, b in [(i, (i + 1) % 32), (i, (i + 2) % 32)]
    }
    assert watts_strogatz(32, 4, 0.75, Random(3)) == watts_strogatz(32, 4, 0.75, Random(3))
