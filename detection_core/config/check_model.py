"""Contradictions inside the model message."""

from __future__ import annotations

from collections.abc import Iterator

from google.protobuf.message import Message

from detection_core.config.legacy.tensorflow_1 import (
    COUNTERPARTS,
    WITHOUT_COUNTERPART,
    with_counterpart,
    without_counterpart,
)
from detection_core.config.messages.anchors import anchor_problems, fitting_problems
from detection_core.config.messages.box_predictors import box_predictor_problems
from detection_core.config.messages.extractors import EXTRACTORS, extractor_problems
from detection_core.config.messages.image_resizers import one_size_problems, resizer_problems
from detection_core.config.messages.post_processing import post_processing_problems
from detection_core.config.messages.targets import target_problems
from detection_core.config.problems import Problem, missing_arm
from detection_core.protos.center_net_pb2 import CenterNet
from detection_core.protos.faster_rcnn_pb2 import FasterRcnn
from detection_core.protos.matcher_pb2 import Matcher
from detection_core.protos.pipeline_pb2 import TrainEvalPipelineConfig
from detection_core.protos.ssd_pb2 import Ssd, SsdFeatureExtractor

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
        yield from post_processing_problems(
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
    yield from missing_arm(model.image_resizer, "image_resizer_oneof", f"{path}.image_resizer")
    yield from resizer_problems(model.image_resizer, f"{path}.image_resizer")


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
    path = "model.ssd"
    yield from _matcher(ssd.matcher, f"{path}.matcher")
    yield from one_size_problems(ssd.image_resizer, f"{path}.image_resizer")
    of_maps = [
        *extractor_problems(ssd.feature_extractor, f"{path}.feature_extractor"),
        *_pyramid(ssd.feature_extractor, f"{path}.feature_extractor"),
    ]
    yield from of_maps
    yield from anchor_problems(ssd.anchor_generator, f"{path}.anchor_generator")
    if not of_maps:
        yield from fitting_problems(ssd, path)
    yield from box_predictor_problems(ssd, path)
    yield from target_problems(ssd, path)
    yield from post_processing_problems(ssd.post_processing, f"{path}.post_processing")


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


def _pyramid(extractor: SsdFeatureExtractor, path: str) -> Iterator[Problem]:
    """An extractor's name says which pyramid it has; settings of another one would change nothing."""
    entry, pyramid = EXTRACTORS.get(extractor.type), extractor.WhichOneof("feature_pyramid_oneof")
    if entry is None or pyramid is None or pyramid == entry.neck:
        return
    own = "no pyramid" if entry.neck == "extra_layers" else entry.neck
    text = f"expected {own}, as {extractor.type} has, found {pyramid}; change the type or remove it"
    yield Problem(path=f"{path}.{pyramid}", message=text)
