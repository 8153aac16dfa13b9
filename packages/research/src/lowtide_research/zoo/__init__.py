"""The zoo: seeded generators of the papers' networks, as `Graph` and as runnable ONNX.

>>> from lowtide_research import zoo
>>> net = zoo.build("nasnet_a_cifar")
>>> len(net.graph().ops)
780
>>> zoo.build("transformer:layers=2,width=64").graph().name
'transformer:layers=2,width=64'
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lowtide.errors import InputError
from lowtide.names import did_you_mean
from lowtide.schedule.foreign import Foreign
from lowtide_research.zoo.builder import Net
from lowtide_research.zoo.network import Network, networks

if TYPE_CHECKING:
    from lowtide.schedule.method import Method
    from lowtide_research.zoo.published import Figure

__all__ = ["Net", "Network", "build", "names", "network", "printed_figures"]


def names() -> list[str]:
    """Names of the networks there are."""
    return list(networks())


def network(name: str) -> Network:
    """Entry of the zoo: paper, configuration, parameters. What follows a colon in `name` is ignored. Raises
    `InputError`: no network of that name."""
    base = name.partition(":")[0]
    if base not in networks():
        hint = did_you_mean(base[:80], networks())
        raise InputError(f"the zoo has no network {base[:80]!r}; use one of {', '.join(networks())}{hint}")
    return networks()[base]


def build(name: str) -> Net:
    """Build a network, for example ``"nasnet_a_cifar"`` or ``"nasnet_a_cifar:n=400,filters=16"``. Returns:
    `.graph()` gives the `Graph`, `.onnx(seed)` the model with random weights. Its name is `name` with the parameters
    that differ from the default, in the order in which the entry lists them. Raises `InputError`: no network of that
    name, an unknown parameter, or a value out of range."""
    entry = network(name)
    settings = entry.settings(name.partition(":")[2])
    changed = ",".join(f"{k}={v}" for k, v in settings.items() if v != entry.parameters[k].default)
    return entry.make(f"{entry.name}:{changed}" if changed else entry.name, **settings)


def printed_figures(network: str, target: str, method: Method) -> tuple[Figure, ...]:
    """What a paper prints of a scheduling method that it ran with these options, on this network under this target."""
    from lowtide_research.zoo.published import printed
    from lowtide_research.zoo.published.cases import case_of

    case = case_of(network)
    configured = method.method if isinstance(method, Foreign) else method
    if case is None or (case.target, case.form) != (target, "as is"):
        return ()
    if configured != (case.serenity if configured.name == "serenity" else type(configured)()):
        return ()
    return printed(case.network, case.target, configured.name)
