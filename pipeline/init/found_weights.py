"""Find published weights for a first training."""

from __future__ import annotations

import dataclasses

from detection_core.errors import ModelError, StorageError
from detection_core.zoo.cache import fetch_model, find_model_files
from detection_core.zoo.networks import Network, PublishedModel

# Checkpoints that are not fetched: origin -> name, and how to start from them.
_NOT_FETCHED = {
    "automl": ("google/automl's", 'the checkpoint\'s prefix and fine_tune_checkpoint_type to "full"'),
    "tensorflow_1": (
        "TensorFlow 1's",
        "the prefix model.ckpt in it, fine_tune_checkpoint_version to V1 and fine_tune_checkpoint_type to"
        ' "detection"',
    ),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class StartingWeights:
    """The result of looking for initial weights.

    Attributes:
        found: whether they are on this machine.
        remedy: the problem and how to solve it; "" without a problem.
    """

    found: bool
    reason: str
    remedy: str = ""


def find_weights(network: Network, *, wanted: bool) -> StartingWeights:
    """Find a network's published weights, if wanted; fetch them if they are not cached."""
    if network.kind.weights:
        owner, values = _NOT_FETCHED[network.kind.weights]
        remedy = (
            f"where its archive lies unpacked, set train_config.fine_tune_checkpoint to {values}, and take a"
            " tenth of the steps and of the learning rate"
        )
        return StartingWeights(found=False, reason=f"{owner} checkpoints are not fetched", remedy=remedy)
    if not isinstance(network, PublishedModel):
        return StartingWeights(found=False, reason="nobody publishes weights of this network")
    if not wanted:
        return StartingWeights(found=False, reason="--from-scratch is given")
    here = find_model_files(network) is not None
    try:
        fetched = fetch_model(network)
    except (ModelError, StorageError) as error:
        return StartingWeights(
            found=False,
            reason=f"the weights of {network.name} cannot be had here",
            remedy=f"{error.where}: {error.message}. Once they are here, run `detflow init` again",
        )
    how = "lie" if here else "were fetched"
    return StartingWeights(found=True, reason=f"the published weights {how} in {fetched.folder}")
