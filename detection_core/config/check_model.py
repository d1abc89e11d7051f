"""Contradictions inside the model message."""

from __future__ import annotations

from collections.abc import Iterator

from google.protobuf.message import Message

from detection_core.config.problems import Problem, missing_arm
from detection_core.config.tensorflow_1 import (
    COUNTERPARTS,
    WITHOUT_COUNTERPART,
    with_counterpart,
    without_counterpart,
)
from detection_core.protos.anchor_generator_pb2 import AnchorGenerator
from detection_core.protos.center_net_pb2 import CenterNet
from detection_core.protos.faster_rcnn_pb2 import FasterRcnn
from detection_core.protos.losses_pb2 import Loss
from detection_core.protos.matcher_pb2 import Matcher
from detection_core.protos.pipeline_pb2 import TrainEvalPipelineConfig
from detection_core.protos.post_processing_pb2 import PostProcessing
from detection_core.protos.ssd_anchor_generator_pb2 import SsdAnchorGenerator
from detection_core.protos.ssd_pb2 import Ssd

# Parts of an SSD model that have no default: path below the model, and the oneof that must be chosen.
_SSD_CHOICES = (
    ("box_coder", "box_coder_oneof"),
    ("matcher", "matcher_oneof"),
    ("similarity_calculator", "region_similarity"),
    ("box_predictor", "box_predictor_oneof"),
    ("anchor_generator", "anchor_generator_oneof"),
    ("loss.localization_loss", "localization_loss"),
    ("loss.classification_loss", "classification_loss"),
)


def check_model(config: TrainEvalPipelineConfig) -> Iterator[Problem]:
    """Find what is missing in the model, and parts of it that do not fit together."""
    arm = config.model.WhichOneof("model")
    if arm is None:
        yield from missing_arm(config.model, "model", "model")
    elif arm == "ssd":
        yield from _common(config.model.ssd, "model.ssd")
        yield from _ssd(config.model.ssd)
    elif arm == "faster_rcnn":
        yield from _common(config.model.faster_rcnn, "model.faster_rcnn")
        yield from _post_processing(
            config.model.faster_rcnn.second_stage_post_processing,
            "model.faster_rcnn.second_stage_post_processing",
        )
    elif arm == "center_net":
        yield from _common(config.model.center_net, "model.center_net")


def _common(model: Ssd | FasterRcnn | CenterNet, path: str) -> Iterator[Problem]:
    """Check what every family has."""
    if model.num_classes < 1:
        message = f"expected the number of classes without background, found {model.num_classes}"
        yield Problem(path=f"{path}.num_classes", message=message)
    if not model.feature_extractor.type:
        message = "expected the name of a feature extractor, found none; a name is ssd_mobilenet_v2_fpn_keras"
        yield Problem(path=f"{path}.feature_extractor.type", message=message)
    yield from _tensorflow_1(model.feature_extractor.type, f"{path}.feature_extractor.type")
    resizer, path = model.image_resizer, f"{path}.image_resizer"
    yield from missing_arm(resizer, "image_resizer_oneof", path)
    conditional = resizer.conditional_shape_resizer
    if conditional.condition == conditional.INVALID:
        message = "expected GREATER or SMALLER, found INVALID"
        yield Problem(path=f"{path}.conditional_shape_resizer.condition", message=message)


def _tensorflow_1(extractor: str, path: str) -> Iterator[Problem]:
    if extractor in COUNTERPARTS:
        yield Problem(path=path, message=with_counterpart(extractor))
    elif extractor in WITHOUT_COUNTERPART:
        yield Problem(path=path, message=without_counterpart(extractor))


def _ssd(ssd: Ssd) -> Iterator[Problem]:
    for relative, oneof in _SSD_CHOICES:
        part: Message = ssd
        for name in relative.split("."):
            part = getattr(part, name)
        yield from missing_arm(part, oneof, f"model.ssd.{relative}")
    yield from _matcher(ssd.matcher, "model.ssd.matcher")
    yield from _ssd_anchors(ssd.anchor_generator.ssd_anchor_generator)
    yield from _levels(ssd)
    yield from _loss(ssd.loss, "model.ssd.loss")
    yield from _post_processing(ssd.post_processing, "model.ssd.post_processing")


def _loss(loss: Loss, path: str) -> Iterator[Problem]:
    if loss.HasField("hard_example_miner") and loss.classification_loss.HasField("weighted_sigmoid_focal"):
        message = "expected none beside weighted_sigmoid_focal, which weighs examples itself; remove one"
        yield Problem(path=f"{path}.hard_example_miner", message=message)


def _post_processing(post_processing: PostProcessing, path: str) -> Iterator[Problem]:
    nms, path = post_processing.batch_non_max_suppression, f"{path}.batch_non_max_suppression"
    if nms.max_detections_per_class > nms.max_total_detections:
        total, found = nms.max_total_detections, nms.max_detections_per_class
        message = f"expected at most max_total_detections, which is {total}, found {found}"
        yield Problem(path=f"{path}.max_detections_per_class", message=message)
    for name in ("use_class_agnostic_nms", "soft_nms_sigma"):
        if nms.use_combined_nms and getattr(nms, name):
            yield Problem(path=f"{path}.{name}", message="expected none beside use_combined_nms; remove one")


def _matcher(matcher: Matcher, path: str) -> Iterator[Problem]:
    argmax, path = matcher.argmax_matcher, f"{path}.argmax_matcher"
    if not matcher.HasField("argmax_matcher") or argmax.ignore_thresholds:
        return
    unmatched, matched = argmax.unmatched_threshold, argmax.matched_threshold
    if unmatched > matched:
        message = f"expected at most matched_threshold, which is {matched:g}, found {unmatched:g}"
        yield Problem(path=f"{path}.unmatched_threshold", message=message)
    if unmatched == matched and not argmax.negatives_lower_than_unmatched:
        message = "expected true, as unmatched_threshold equals matched_threshold, found false"
        yield Problem(path=f"{path}.negatives_lower_than_unmatched", message=message)


def _ssd_anchors(anchors: SsdAnchorGenerator) -> Iterator[Problem]:
    """Per-layer lists must be empty or have one entry per layer."""
    path, layers = "model.ssd.anchor_generator.ssd_anchor_generator", _num_anchor_layers(anchors)
    for name in ("height_stride", "width_stride", "height_offset", "width_offset"):
        count = len(getattr(anchors, name))
        if count not in (0, layers):
            message = f"expected none or one for each of {layers} layers, found {count}"
            yield Problem(path=f"{path}.{name}", message=message)
    if len(anchors.height_stride) != len(anchors.width_stride):
        yield Problem(path=f"{path}.width_stride", message="expected as many as height_stride; give both")
    if len(anchors.height_offset) != len(anchors.width_offset):
        yield Problem(path=f"{path}.width_offset", message="expected as many as height_offset; give both")


def _num_anchor_layers(anchors: SsdAnchorGenerator) -> int:
    return len(anchors.scales) or anchors.num_layers


def _levels(ssd: Ssd) -> Iterator[Problem]:
    """Anchors must be made for exactly the feature maps that the extractor gives."""
    extractor, generator = ssd.feature_extractor, ssd.anchor_generator
    pyramid = extractor.WhichOneof("feature_pyramid_oneof")
    path = "model.ssd.anchor_generator"
    yield from _pyramid(extractor.type, pyramid)
    if pyramid is None:
        if generator.HasField("ssd_anchor_generator") and not _has_own_levels(extractor.type):
            yield from _layer_count(generator, extractor.num_layers, "feature_extractor.num_layers", path)
        return
    low, high = getattr(extractor, pyramid).min_level, getattr(extractor, pyramid).max_level
    if generator.HasField("multiscale_anchor_generator"):
        anchors = generator.multiscale_anchor_generator
        if not anchors.aspect_ratios:
            message = "expected at least one ratio of width to height, found none; add aspect_ratios: 1.0"
            yield Problem(path=f"{path}.multiscale_anchor_generator.aspect_ratios", message=message)
        if (anchors.min_level, anchors.max_level) != (low, high):
            found = f"{anchors.min_level} to {anchors.max_level}"
            message = f"expected levels {low} to {high} as feature_extractor.{pyramid} has, found {found}"
            yield Problem(path=f"{path}.multiscale_anchor_generator", message=message)
    elif generator.HasField("ssd_anchor_generator"):
        yield from _layer_count(generator, high - low + 1, f"feature_extractor.{pyramid}", path)


def _pyramid(extractor_type: str, pyramid: str | None) -> Iterator[Problem]:
    """An extractor's name says which pyramid it has; settings of another one would change nothing."""
    own = next((kind for kind in ("bifpn", "fpn") if kind in extractor_type), "no pyramid")
    if pyramid is not None and extractor_type.endswith("_keras") and pyramid != own:
        message = f"expected {own}, as {extractor_type} has, found {pyramid}; change the type or remove it"
        yield Problem(path=f"model.ssd.feature_extractor.{pyramid}", message=message)


def _has_own_levels(extractor_type: str) -> bool:
    """Tell whether an extractor's name fixes its feature maps, whatever `num_layers` says."""
    return "fpn" in extractor_type or extractor_type.startswith("embedded_")


def _layer_count(generator: AnchorGenerator, expected: int, source: str, path: str) -> Iterator[Problem]:
    anchors = generator.ssd_anchor_generator
    if _num_anchor_layers(anchors) != expected:
        field = "scales" if anchors.scales else "num_layers"
        found = _num_anchor_layers(anchors)
        message = f"expected {expected} layers as {source} gives, found {found}; make the two equal"
        yield Problem(path=f"{path}.ssd_anchor_generator.{field}", message=message)
