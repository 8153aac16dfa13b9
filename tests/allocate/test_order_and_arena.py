from random import Random

import pytest

from lowtide.allocate import order_and_arena
from lowtide.allocate.arena import ENGINES
from lowtide.allocate.buffers import arena_buffers, load_bound
from lowtide.allocate.cp_sat import CpSat
from lowtide.allocate.order_and_arena import QUICK, best_layout, place
from lowtide.analyse.liveness import profile
from lowtide.analyse.storage import memory_model
from lowtide.schedule.registry import make
from lowtide.stop import Limits
from lowtide.target import BUILT_IN
from lowtide_research import zoo
from support.random_graphs import random_graph

NETWORKS = (
    "nasnet_a_cifar", "nasnet_a_imagenet", "amoebanet_a_cifar", "darts_imagenet", "pnasnet_5_cifar",
    "hrnet_w18_small_v1", "swiftnet", "randwire_ws", "unet_plus_plus", "transformer:layers=4",
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("target", ["strict", "generic"])
@pytest.mark.parametrize("name", NETWORKS)
def test_no_byte_is_lost_on_networks(name: str, target: str) -> None:
    """The arena of real networks is the peak of the rounded sizes: nobody can do better for an order of that peak."""
    model = memory_model(zoo.build(name).graph(), BUILT_IN[target])
    schedule = make("exact").schedule(model, Limits())
    layout = best_layout(model, schedule.order, Limits())
    assert layout.profile.peak == schedule.lower_bound
    assert layout.allocation.optimal
    if target == "strict":
        assert layout.allocation.arena_bytes == schedule.lower_bound


@pytest.mark.slow
def test_a_network_of_a_hundred_cells() -> None:
    """Seven thousand buffers, and no byte lost."""
    model = memory_model(zoo.build("nasnet_a_cifar:n=60").graph(), BUILT_IN["strict"])
    schedule = make("exact").schedule(model, Limits())
    assert best_layout(model, schedule.order, Limits()).allocation.arena_bytes == schedule.lower_bound


@pytest.mark.slow
def test_the_best_of_the_orders_is_kept() -> None:
    """Never above the arena of the order itself, of no higher peak, and the same again."""
    rng = Random(4)
    for _ in range(150):
        model = memory_model(random_graph(rng, rng.randint(1, 14)), BUILT_IN["strict"])
        order = tuple(range(len(model.graph.ops)))
        layout = best_layout(model, order, Limits())
        assert layout.profile.peak <= profile(model, order).peak
        assert layout.allocation.arena_bytes <= place(model, order, Limits()).allocation.arena_bytes
        assert layout == best_layout(model, order, Limits())


def test_an_arena_that_is_small_enough_ends_the_search() -> None:
    """With a limit that anything meets, one order is tried and the first engine alone."""
    model = memory_model(zoo.build("nasnet_a_cifar").graph(), BUILT_IN["strict"])
    order = make("exact").schedule(model, Limits()).order
    layout = best_layout(model, order, Limits(enough_bytes=2**40))
    assert layout.tried == 1
    assert layout.allocation.method not in {e.name for e in ENGINES}
    bound = load_bound(arena_buffers(model, layout.order, (), 1).problem)
    assert layout.allocation.lower_bound_bytes == bound < layout.allocation.arena_bytes


@pytest.mark.slow
def test_at_least_two_orders_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many ops there are: the restored order and the one found; more of them where there are few ops."""
    monkeypatch.setattr(order_and_arena, "WORK", 1000)
    monkeypatch.setattr(CpSat, "supports", lambda *_: "left out")
    monkeypatch.setattr(order_and_arena, "OPS_TO_ANNEAL", 500)
    model = memory_model(zoo.build("random_width:n=100").graph(), BUILT_IN["strict"])
    order = tuple(range(len(model.graph.ops)))
    many = best_layout(model, order, Limits())
    monkeypatch.setattr(order_and_arena, "OPS_TO_PLACE", 1)
    monkeypatch.setattr(order_and_arena, "OPS_TO_ANNEAL", 1)
    few = best_layout(model, order, Limits())
    assert not few.allocation.optimal
    assert few.tried == 2 < many.tried <= 18 + 3
    assert many.allocation.arena_bytes <= few.allocation.arena_bytes


@pytest.mark.parametrize("name", ["random_width:n=24,width=8", "grid:side=8"])
def test_annealed_orders_and_the_exact_engine_lose_no_byte(name: str) -> None:
    """Random sizes that no greedy packs: with the order chosen for it the arena is the peak, and the same again."""
    model = memory_model(zoo.build(name).graph(), BUILT_IN["strict"])
    schedule = make("exact").schedule(model, Limits())
    layout = best_layout(model, schedule.order, Limits(1e6))
    assert layout.profile.peak == schedule.lower_bound
    assert layout.allocation.arena_bytes == layout.profile.peak
    assert layout == best_layout(model, schedule.order, Limits(1e6))


@pytest.mark.slow
def test_an_interrupt_keeps_the_best_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C while an order is annealed, and before any is placed."""
    model = memory_model(zoo.build("random_width:n=100").graph(), BUILT_IN["strict"])
    order = tuple(range(len(model.graph.ops)))

    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(order_and_arena, "WORK", 1000)
    monkeypatch.setattr(CpSat, "supports", lambda *_: "left out")
    monkeypatch.setattr(order_and_arena, "anneal_load", stop)
    layout = best_layout(model, order, Limits())
    assert layout.interrupted
    assert layout.allocation.arena_bytes <= place(model, order, Limits(), QUICK).allocation.arena_bytes
    monkeypatch.setattr(order_and_arena, "equal_orders", stop)
    assert best_layout(model, order, Limits()).order == order
