"""Raw heads of a TensorFlow Lite file against the network that it was made from."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from detection_core.artifacts.parity import LayerNoise, NetworkParity
from detection_core.exporters.tflite_formats import Tolerance
from detection_core.exporters.tflite_layers import ReferenceNetwork, compare_layers, first_apart
from detection_core.storage import files


def compare_network(
    path: str, reference: ReferenceNetwork, inputs: Sequence[np.ndarray], tolerance: Tolerance
) -> NetworkParity:
    """Run a file and the network that it was made from on the same inputs.

    Args:
        path: of the file.
        reference: what was converted.
        inputs: what the file's input takes, [1, H, W, 3] of its own dtype.
        tolerance: of the file's format.

    Raises:
        ModelError: when there is no input, or LiteRT does not run the file.
    """
    found = compare_layers(files.read_bytes(path), reference, inputs)
    heads: dict[str, float] = {}
    for layer in found.layers:
        if layer.is_head:
            heads[layer.layer] = min(round(layer.db, 2), heads.get(layer.layer, math.inf))
    apart = first_apart(found.layers, tolerance.heads_db)
    return NetworkParity(
        images=len(inputs),
        least_db=tolerance.heads_db,
        heads=heads,
        unmatched=list(found.unmatched_heads),
        layer=apart.layer if apart else "",
        operation=apart.operation if apart else "",
        layer_db=round(apart.db, 2) if apart else None,
        layers=[
            LayerNoise(layer=one.layer, operation=one.operation, db=round(one.db, 2)) for one in found.layers
        ],
    )


def network_clauses(parity: NetworkParity | None) -> Iterator[str]:
    """Yield a clause where a head is beyond its bound, with the layer where they part, or is not known."""
    if parity is None:
        return
    if parity.unmatched:
        yield (
            f"raw heads {' and '.join(parity.unmatched)} are not of the network that it was made from:"
            " nothing is known of what the conversion made of them"
        )
    beyond = {name: db for name, db in parity.heads.items() if db < parity.least_db}
    if beyond:
        heads = " and ".join(f"{name} {db:.1f} dB" for name, db in beyond.items())
        yield (
            f"raw heads {heads} from the network that it was made from, less than {parity.least_db:g} dB;"
            f" they part first at {parity.layer} ({parity.operation}, {parity.layer_db:.1f} dB)"
        )
