"""What a config makes of the samples of a training: augmented, alone or mixed, and ready for a batch."""

from __future__ import annotations

import dataclasses
from typing import Any

import tensorflow as tf

from detection_core.augment.augmentation import Augmentations
from detection_core.augment.mixing import MixedAugmentations, Pool
from detection_core.builders.augment import build_augmentations
from detection_core.builders.image_resizer import model_image_resizer
from detection_core.builders.training_labels import build_label_targets
from detection_core.config.pipeline_config import CheckedConfig
from detection_core.data.batch import network_input
from detection_core.data.label_targets import LabelTargets
from detection_core.data.resize import Resizer
from detection_core.data.sequence import element_at, window_size, with_following
from detection_core.structures import Batch, Sample


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainingStream:
    """Samples to elements of batches.

    Attributes:
        augment: the augmentations.
        targets: labels to what is trained on.
        resizer: gives the network's input size.
        max_boxes: G.
        pool: how many following samples one may be mixed with.
        mixed: samples of the training, from its first on, that are mixed; those after it are not.
    """

    augment: Augmentations | MixedAugmentations
    targets: LabelTargets
    resizer: Resizer
    max_boxes: int
    pool: int
    mixed: int

    def drawn(self, samples: tf.data.Dataset, start: int) -> tf.data.Dataset:
        """Return what `pair` takes, for each of the samples.

        Args:
            samples: `SeededElement`s of samples.
            start: number of the first of them in the training.
        """
        if isinstance(self.augment, Augmentations):
            return samples
        return with_following(samples, self.pool).enumerate(start)

    @tf.autograph.experimental.do_not_convert
    def pair(self, *drawn: Any) -> tuple[Sample, Batch]:
        """Return a sample as decoded, and as an element of a batch without the leading B.

        Args:
            drawn: an element of `drawn`.
        """
        if isinstance(self.augment, Augmentations):
            sample, seed = drawn[0]
            return sample, self._finished(sample, self.augment(sample, seed))
        position, window = drawn
        sample, seed = element_at(window, tf.constant(0, tf.int64))
        pool = Pool(size=window_size(window), read=lambda number: element_at(window, number)[0])
        return sample, self._finished(sample, self.augment(pool, seed, mixes=position < self.mixed))

    @tf.autograph.experimental.do_not_convert
    def element(self, *drawn: Any) -> Batch:
        """Return the second of `pair`."""
        return self.pair(*drawn)[1]

    def _finished(self, decoded: Sample, augmented: Sample) -> Batch:
        augmented = augmented._replace(truth=self.targets(augmented.truth))
        return network_input(
            augmented,
            resizer=self.resizer,
            max_boxes=self.max_boxes,
            original_size=tf.shape(decoded.image)[:2],
        )


def build_training_stream(config: CheckedConfig, *, batch_size: int) -> TrainingStream:
    """Build what turns the samples of a training into elements of batches.

    Args:
        config: its train_config has the augmentations, its model the resizer.
        batch_size: images an update, over all replicas.
    """
    train = config.train_config
    closed = train.close_mosaic_steps
    return TrainingStream(
        augment=build_augmentations(train.data_augmentation_options),
        targets=build_label_targets(config),
        resizer=model_image_resizer(config.model),
        max_boxes=train.max_number_of_boxes,
        pool=train.mixing_pool_size,
        mixed=(train.num_steps - closed) * batch_size if closed else tf.int64.max,
    )
