"""Build resizers, readers, label targets and the training stream, from records to the network's input."""

import dataclasses
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from detection_core.augment.augmentation import Augmentations
from detection_core.augment.mixing import MixedAugmentations, Pool
from detection_core.builders.augment import build_augmentations
from detection_core.builders.oneof import from_fields, oneof_builder, same_fields
from detection_core.config.messages.pipeline import model_resizer
from detection_core.config.model_fields import ModelMessage, foreground_classes
from detection_core.config.pipeline_config import CheckedConfig
from detection_core.data import resize
from detection_core.data.batch import LabelTargets, network_input
from detection_core.data.decode import DecodeOptions, MaskType, class_text_table
from detection_core.data.label_map import LabelMap
from detection_core.data.reader import Reader
from detection_core.data.records import expand_patterns
from detection_core.data.sequence import SequenceOptions, element_at, with_following
from detection_core.detectors.family import model_message
from detection_core.protos import input_reader_pb2 as pb
from detection_core.protos import model_pb2
from detection_core.structures import Batch, Sample

IMAGE_RESIZERS: dict[str, Callable[[Any], resize.Resizer]] = {
    "keep_aspect_ratio_resizer": same_fields(resize.KeepAspectRatioResizer),
    "fixed_shape_resizer": same_fields(resize.FixedShapeResizer),
    "identity_resizer": same_fields(resize.IdentityResizer),
    "conditional_shape_resizer": same_fields(resize.ConditionalShapeResizer),
    "pad_to_multiple_resizer": same_fields(resize.PadToMultipleResizer),
    "automl_resizer": same_fields(resize.AutomlResizer),
}
build_image_resizer = oneof_builder("image_resizer_oneof", IMAGE_RESIZERS)


def resizer_name(model: model_pb2.DetectionModel) -> str:
    """Return the type of a model's image resizer; "none" without one."""
    message, _ = model_resizer(model)
    return message.WhichOneof("image_resizer_oneof") or "none"


def model_image_resizer(model: model_pb2.DetectionModel) -> resize.Resizer:
    """Build the image resizer of a model of any family."""
    return build_image_resizer(model_resizer(model)[0])


_MASKS: dict[int, MaskType] = {
    pb.DEFAULT: "NUMERICAL_MASKS",
    pb.NUMERICAL_MASKS: "NUMERICAL_MASKS",
    pb.PNG_MASKS: "PNG_MASKS",
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class ScoreColumns:
    """The number of class scores in a record, and whether the first is the background's."""

    count: int
    background: bool


def build_input_reader(
    message: pb.InputReader,
    label_map: LabelMap,
    where: str = "input_reader",
    *,
    scores: ScoreColumns | None = None,
) -> Reader:
    """Build the reader of a checked message, whose path in the configuration is `where`, for errors.

    Without a layout of class scores they are ignored, as only training uses them.

    Raises:
        DataError: when a pattern matches no file.
    """
    patterns = tuple(message.tf_record_input_reader.input_path)
    paths = expand_patterns(patterns, where=f"{where}.tf_record_input_reader.input_path")
    weights = tuple(message.sample_from_datasets_weights)
    ahead = message.num_prefetch_batches
    return Reader(
        paths=tuple(paths),
        groups=tuple(tuple(expand_patterns([pattern])) for pattern in patterns) if weights else (),
        weights=weights,
        decoding=build_decoding(message, scores),
        table=class_text_table(label_map),
        sequence=from_fields(SequenceOptions, message),
        max_boxes=message.max_number_of_boxes,
        prefetched_batches=ahead if ahead > 0 else tf.data.AUTOTUNE,
    )


def build_decoding(message: pb.InputReader, scores: ScoreColumns | None) -> DecodeOptions:
    """Build the decoding options of a record; see `build_input_reader`."""
    options = DecodeOptions(
        masks=_MASKS[message.mask_type] if message.load_instance_masks else "",
        keypoints=message.num_keypoints,
        keypoint_depths=message.load_keypoint_depth_features,
        additional_channels=message.num_additional_channels,
    )
    if scores is None or not message.load_multiclass_scores:
        return options
    return dataclasses.replace(options, score_columns=scores.count, background_column=scores.background)


def score_columns(model: model_pb2.DetectionModel) -> ScoreColumns:
    """Return the layout of recorded class scores for a model: num_classes entries."""
    message: ModelMessage | None = model_message(model)[0]
    return ScoreColumns(
        count=getattr(message, "num_classes", 0),
        background=getattr(message, "explicit_background_class", False),
    )


def build_label_targets(config: CheckedConfig, class_weights: tuple[float, ...] = ()) -> LabelTargets:
    """Build the selection of training labels from the train_config and the train_input_reader."""
    train, reader = config.train_config, config.train_input_reader
    message: ModelMessage | None = model_message(config.model)[0]
    return LabelTargets(
        classes=foreground_classes(message) if message is not None else 0,
        use_scores=train.use_multiclass_scores,
        merge_equal_boxes=train.merge_multiple_label_boxes,
        keypoint_weights=tuple(reader.keypoint_type_weight),
        class_weights=class_weights,
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainingStream:
    """Converts samples to elements of batches.

    Attributes:
        augment: the augmentations.
        targets: selects the training labels.
        resizer: resizes to the network's input size.
        max_boxes: G.
        pool: number of following samples with which one may be mixed.
        mixed: number of samples, from the training's first, that are mixed; later ones are not.
    """

    augment: Augmentations | MixedAugmentations
    targets: LabelTargets
    resizer: resize.Resizer
    max_boxes: int
    pool: int
    mixed: int

    def drawn(self, samples: tf.data.Dataset, start: int) -> tf.data.Dataset:
        """Return the inputs of `pair` for `SeededElement`s; the first is number `start` in the training."""
        if isinstance(self.augment, Augmentations):
            return samples
        return with_following(samples, self.pool).enumerate(start)

    @tf.autograph.experimental.do_not_convert
    def pair(self, *drawn: Any) -> tuple[Sample, Batch]:
        """Return a sample from `drawn` as decoded, and as an element of a batch without the leading B."""
        if isinstance(self.augment, Augmentations):
            sample, seed = drawn[0]
            return sample, self._finished(sample, self.augment(sample, seed))
        position, window = drawn
        sample, seed = element_at(window, tf.constant(0, tf.int64))
        pool = Pool(size=window.cardinality(), read=lambda number: element_at(window, number)[0])
        return sample, self._finished(sample, self.augment(pool, seed, mixes=position < self.mixed))

    @tf.autograph.experimental.do_not_convert
    def element(self, *drawn: Any) -> Batch:
        """Return the second result of `pair`."""
        return self.pair(*drawn)[1]

    def _finished(self, decoded: Sample, augmented: Sample) -> Batch:
        augmented = augmented._replace(truth=self.targets(augmented.truth))
        return network_input(
            augmented,
            resizer=self.resizer,
            max_boxes=self.max_boxes,
            original_size=tf.shape(decoded.image)[:2],
        )


def build_training_stream(
    config: CheckedConfig, *, batch_size: int, class_weights: tuple[float, ...] = ()
) -> TrainingStream:
    """Build the conversion of training samples to elements of batches; the size is over all replicas."""
    train = config.train_config
    closed = train.close_mosaic_steps
    return TrainingStream(
        augment=build_augmentations(train.data_augmentation_options),
        targets=build_label_targets(config, class_weights),
        resizer=model_image_resizer(config.model),
        max_boxes=train.max_number_of_boxes,
        pool=train.mixing_pool_size,
        mixed=(train.num_steps - closed) * batch_size if closed else tf.int64.max,
    )
