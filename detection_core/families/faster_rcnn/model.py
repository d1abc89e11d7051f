"""Two-stage detectors: region proposals, then the class and box of each, and masks of the detections."""

import contextlib
import dataclasses
from collections.abc import Mapping

import tensorflow as tf
import tf_keras

from detection_core.detectors import base
from detection_core.families.faster_rcnn.losses import (
    FirstStageCriterion,
    SecondStageCriterion,
    masks_of_classes,
)
from detection_core.families.faster_rcnn.pyramid import pad_pixels, region_levels
from detection_core.families.faster_rcnn.stages import (
    FirstStage,
    ProposalOptions,
    Proposals,
    RawDetections,
    RegionPredictions,
    Stages,
    all_stage_outputs,
    clip_anchors,
    crop_regions,
    drop_crossing_anchors,
    lay_anchors,
    propose,
    region_features,
    stage_outputs,
    true_windows,
)
from detection_core.ops import boxes as box_ops
from detection_core.ops.nms import multiclass_nms
from detection_core.ops.post_processing import PostProcessing
from detection_core.ops.update_draws import update_draws
from detection_core.parts.anchor_criterion import AnchorPredictions
from detection_core.parts.layers import layer_hyperparams
from detection_core.parts.layers.keras_layers import PREPROCESSORS
from detection_core.structures import Batch, Detections, Images, box_detections

FIRST_STAGE_LOSSES = ("Loss/RPNLoss/localization_loss", "Loss/RPNLoss/objectness_loss")
SECOND_STAGE_LOSSES = {
    "localization": "Loss/BoxClassifierLoss/localization_loss",
    "classification": "Loss/BoxClassifierLoss/classification_loss",
    "mask": "Loss/BoxClassifierLoss/mask_loss",
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class FasterRcnnParts:
    """The parts of a two-stage detector besides its networks.

    Attributes:
        num_classes: C, without the background.
        stages: 1 for proposals only, 2 for boxes, 3 for masks too.
        input_shape: allowed rows and columns of images.
        preprocessing: name in `parts.layers.keras_layers.PREPROCESSORS`.
        crop_size: rows and columns of a region before pooling.
        input_multiple: images are padded to a multiple of it before the network.
        proposing: how anchors become proposals.
        post_processing: converts the second stage's logits to scores, and suppresses duplicates.
        first_criterion: the losses of the first stage.
        second_criterion: the losses of the later stages.
        regularizers: name of a network -> "layer/weight" -> regularizer.
    """

    num_classes: int
    stages: int
    input_shape: base.InputShape
    preprocessing: str
    crop_size: int
    input_multiple: int = 1
    proposing: ProposalOptions
    post_processing: PostProcessing
    first_criterion: FirstStageCriterion
    second_criterion: SecondStageCriterion
    regularizers: Mapping[str, Mapping[str, layer_hyperparams.Regularizer]]


class FasterRcnnModel(base.Detector):
    """A detector that proposes regions, classifies and refines them, and may find their masks.

    Ren et al., Faster R-CNN, 2015, https://arxiv.org/abs/1506.01497; He et al., Mask R-CNN, 2017,
    https://arxiv.org/abs/1703.06870. A region is cropped from the features and resized bilinearly.

    Attributes:
        proposal_network: images -> (feature maps, box codes, objectness logits).
        region_network: crops -> features of regions; None with one stage, as the next.
        box_network: features of regions -> (box codes, class logits).
        mask_network: features of regions -> mask logits; None without masks.
        num_classes: C, without the background.
        parts: its parts besides the networks.
    """

    def __init__(self, networks: Mapping[str, tf_keras.Model], parts: FasterRcnnParts) -> None:
        super().__init__(name="faster_rcnn")
        # Separate attributes, because checkpoints of unfinished trainings track them as objects.
        self.proposal_network = networks["proposals"]
        self.region_network = networks.get("regions")
        self.box_network = networks.get("boxes")
        self.mask_network = networks.get("masks")
        self.num_classes = parts.num_classes
        self.parts = parts

    @property
    def networks(self) -> Mapping[str, tf_keras.Model]:
        """Return the networks of the configured stages, in the order of their use."""
        all_networks = {
            "proposals": self.proposal_network,
            "regions": self.region_network,
            "boxes": self.box_network,
            "masks": self.mask_network,
        }
        return {name: network for name, network in all_networks.items() if network is not None}

    def runs_per_image(self, name: str) -> int:
        """Return 1 for the proposals; the other networks see each proposal, and masks each detection."""
        proposals = self.parts.proposing.nms.max_total_detections
        detections = self.parts.post_processing.nms.max_total_detections
        masked = 0 if self.mask_network is None else detections
        return {"regions": proposals + masked, "boxes": proposals, "masks": masked}.get(name, 1)

    @property
    def input_shape(self) -> base.InputShape:
        """Return the allowed sizes of images; see `Detector.input_shape`."""
        return self.parts.input_shape

    def preprocess(self, pixels: tf.Tensor) -> tf.Tensor:
        """Normalise resized and padded pixels, float32 [B, H, W, 3], RGB, 0..255, as the backbone expects."""
        return PREPROCESSORS[self.parts.preprocessing](pixels)

    def first_stage(self, images: Images, training: bool) -> FirstStage:
        """Run the region proposal network."""
        pixels = self.preprocess(images.pixels)
        size = _sides(pixels)
        pixels = pad_pixels(pixels, self.parts.input_multiple)
        *maps, codes, logits = self.proposal_network(pixels, training=training)
        codes, logits = base.in_float32((codes, logits))
        anchors = lay_anchors(self.parts.proposing.generator, [_sides(features) for features in maps], size)
        predictions = AnchorPredictions(box_codes=codes, class_logits=logits, anchors=anchors)
        return FirstStage(maps=maps, predictions=predictions, size=size)

    def propose(self, first: FirstStage, true_sizes: tf.Tensor) -> Proposals:
        """Return the proposals, without a gradient; `true_sizes` are those of `Images`."""
        found = propose(first.predictions, self.parts.proposing, true_windows(true_sizes, first.size))
        return found._replace(boxes=tf.stop_gradient(found.boxes), scores=tf.stop_gradient(found.scores))

    def region_features(self, first: FirstStage, boxes: tf.Tensor, training: bool) -> tf.Tensor:
        """Crop boxes, float32 [B, P, 4] in the frame of the input, and return their features [B * P, ...]."""
        assert self.region_network is not None
        number, size = len(first.maps), self.parts.crop_size
        levels = region_levels(boxes, first.size, number) if number > 1 else None
        if training:
            return self.region_network(crop_regions(first.maps, boxes, size, levels), training=True)
        return region_features(first.maps, boxes, levels, size, self.region_network)

    def second_stage(self, regions: tf.Tensor, proposals: Proposals, training: bool) -> RegionPredictions:
        """Classify and refine proposals from the features of their regions; without masks."""
        assert self.box_network is not None
        codes, logits = base.in_float32(self.box_network(regions, training=training))
        leading = tf.shape(proposals.boxes)[:2]
        batch, number = proposals.boxes.shape[:2]
        codes = tf.reshape(codes, tf.concat([leading, codes.shape[1:]], axis=0))
        logits = tf.reshape(logits, tf.concat([leading, logits.shape[1:]], axis=0))
        return RegionPredictions(
            proposals=proposals,
            box_codes=tf.ensure_shape(codes, [batch, number, *codes.shape[2:]]),
            class_logits=tf.ensure_shape(logits, [batch, number, *logits.shape[2:]]),
            mask_logits=tf.zeros([*tf.unstack(leading), 0, 0, 1]),
        )

    def mask_logits(self, regions: tf.Tensor, leading: tf.Tensor, training: bool) -> tf.Tensor:
        """Predict masks from features of regions; `leading` is int32 [2], B and N.

        Returns:
            float32 [B, N, h, w, M].
        """
        assert self.mask_network is not None
        (logits,) = base.in_float32([self.mask_network(regions, training=training)])
        return tf.reshape(logits, tf.concat([leading, logits.shape[1:]], axis=0))

    def losses(self, batch: Batch, training: bool) -> dict[str, tf.Tensor]:
        """Compare predictions with ground truth; see `Detector.losses`.

        Outside of training all proposals are compared, and the first stage's sample is always the same.
        """
        with contextlib.nullcontext() if training else update_draws(0):
            return self._losses(batch, training)

    def _losses(self, batch: Batch, training: bool) -> dict[str, tf.Tensor]:
        first = self.first_stage(batch.images, training)
        if training and not self.parts.proposing.clip_anchors:
            kept = drop_crossing_anchors(first.predictions, first.size)
        else:
            kept = clip_anchors(first.predictions)
        first = first._replace(predictions=kept)
        losses = dict(zip(FIRST_STAGE_LOSSES, self.parts.first_criterion(kept, batch.truth), strict=True))
        if self.parts.stages > 1:
            losses |= self._later_losses(first, batch, training)
        return base.with_total(losses | {base.REGULARIZATION_LOSS: self._regularization()})

    def _later_losses(self, first: FirstStage, batch: Batch, training: bool) -> dict[str, tf.Tensor]:
        criterion, proposals = self.parts.second_criterion, self.propose(first, batch.images.true_sizes)
        if training and criterion.miner is None:
            proposals = criterion.sample(proposals, batch.truth)
        regions = self.region_features(first, proposals.boxes, training)
        predictions = self.second_stage(regions, proposals, training)
        if self.mask_network is not None:
            leading = tf.shape(proposals.boxes)[:2]
            predictions = predictions._replace(mask_logits=self.mask_logits(regions, leading, training))
        found = criterion(predictions, batch.truth)
        return {SECOND_STAGE_LOSSES[name]: value for name, value in found.items()}

    def _regularization(self) -> tf.Tensor:
        found = [
            pair
            for name, network in self.networks.items()
            for pair in layer_hyperparams.regularized_variables(network, self.parts.regularizers[name])
        ]
        return layer_hyperparams.regularization_loss(found)

    def predict(self, images: Images) -> Stages:
        """Run the first two stages in inference mode."""
        first = self.first_stage(images, training=False)
        first = first._replace(predictions=clip_anchors(first.predictions))
        proposals = self.propose(first, images.true_sizes)
        if self.parts.stages == 1:
            return Stages(first=first, proposals=proposals, region_features=None, regions=None)
        features = self.region_features(first, proposals.boxes, training=False)
        regions = self.second_stage(features, proposals, training=False)
        return Stages(first=first, proposals=proposals, region_features=features, regions=regions)

    def raw_detections(self, regions: RegionPredictions) -> RawDetections:
        """Decode the boxes and convert the logits of every proposal."""
        proposals = regions.proposals.boxes[:, :, tf.newaxis, :]
        boxes = self.parts.proposing.box_coder.decode(regions.box_codes, proposals)
        return RawDetections(
            boxes=boxes, scores=self.parts.post_processing.score_converter(regions.class_logits)
        )

    def suppress(self, found: Stages, true_sizes: tf.Tensor) -> tuple[Detections, tf.Tensor]:
        """Return detections without masks, normalised to the true image, and their proposals, int32 [B, D].

        `true_sizes` is int32 [B, 2], rows and columns of the input that hold the image.
        """
        window = true_windows(true_sizes, found.first.size)
        if found.regions is None:
            scores, count = found.proposals.scores, found.proposals.count
            boxes = box_ops.change_frame(found.proposals.boxes, window[:, tf.newaxis])
            rows = tf.zeros_like(scores, tf.int32) + tf.range(tf.shape(scores)[1])
            return box_detections(boxes, scores, tf.zeros_like(rows), count), rows
        raw = self.raw_detections(found.regions)
        scores = tf.where(found.proposals.filled[..., tf.newaxis], raw.scores[:, :, 1:], 0.0)
        options = dataclasses.replace(self.parts.post_processing.nms, change_coordinate_frame=True)
        kept = multiclass_nms(raw.boxes, scores, options, window)
        return box_detections(kept.boxes, kept.scores, kept.classes, kept.count), kept.anchor_indices

    def all_masks(self, found: Stages, detections: Detections, true_sizes: tf.Tensor) -> tf.Tensor:
        """Predict the mask logits of detections, float32 [B, D, h, w, M]."""
        window = true_windows(true_sizes, found.first.size)
        shown = tf.concat([window[:, 2:], window[:, 2:]], axis=-1)[:, tf.newaxis]
        boxes = detections.boxes * shown
        regions = self.region_features(found.first, boxes, training=False)
        return self.mask_logits(regions, tf.shape(boxes)[:2], training=False)

    def detect(self, images: Images) -> Detections:
        """Detect objects; see `Detector.detect`."""
        found = self.predict(images)
        detections, _ = self.suppress(found, images.true_sizes)
        if self.mask_network is None:
            return detections
        return with_masks(detections, self.all_masks(found, detections, images.true_sizes))

    def serving_outputs(self, images: Images) -> dict[str, tf.Tensor]:
        """Return the outputs of a SavedModel's signature, with what the stages predicted.

        Returns:
            As `named_detections` and `outputs.stage_outputs`. With masks also `outputs.all_stage_outputs`
            and mask_predictions [B * D, M, h, w], the logits of all masks.
        """
        found = self.predict(images)
        detections, indices = self.suppress(found, images.true_sizes)
        further = {}
        if found.regions is not None:
            raw = self.raw_detections(found.regions)
            further = stage_outputs(
                raw, detections, indices, true_windows(images.true_sizes, found.first.size)
            )
        if self.mask_network is not None:
            logits = self.all_masks(found, detections, images.true_sizes)
            detections = with_masks(detections, logits)
            further |= all_stage_outputs(found)
            further["mask_predictions"] = tf.reshape(
                tf.transpose(logits, [0, 1, 4, 2, 3]), [-1, logits.shape[4], *logits.shape[2:4]]
            )
        return base.named_detections(detections) | further


def with_masks(detections: Detections, logits: tf.Tensor) -> Detections:
    """Add the masks of the detections' classes; `logits` are float32 [B, D, h, w, M]."""
    return detections._replace(masks=tf.sigmoid(masks_of_classes(logits, detections.classes)))


def _sides(features: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Return rows and columns of [B, H, W, K]: numbers where they are known, else int32 scalars."""
    dynamic = tf.shape(features)
    rows, columns = (
        dynamic[axis] if features.shape[axis] is None else features.shape[axis] for axis in (1, 2)
    )
    return rows, columns
