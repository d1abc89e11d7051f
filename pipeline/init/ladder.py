"""The detectors that a first workflow may have, from fast to accurate."""

from __future__ import annotations

import difflib

from detection_core.errors import ConfigError, shorten
from detection_core.zoo.networks import SPEEDS, Network, PublishedModel, list_all


def list_networks() -> tuple[Network, ...]:
    """Return all, from fast to accurate, the fewest operations first; of equal ones the model zoo's."""

    def place(network: Network) -> tuple[int, int, bool]:
        rung = SPEEDS.index(network.speed)
        return rung, network.multiply_adds, not isinstance(network, PublishedModel)

    return tuple(sorted(list_all(), key=place))


def find_network(name: str) -> Network:
    """Return a network by its name.

    Raises:
        ConfigError: where there is none of that name, with the names that look like it.
    """
    known = {network.name: network for network in list_networks()}
    if name in known:
        return known[name]
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.4)
    hint = f"did you mean {' or '.join(near)}?" if near else "`detflow init --list-models` shows them"
    raise ConfigError(
        f"expected a detector that is built here, found {shorten(name)}; {hint}", where="--model"
    )
