"""Check and builders agree: what passes is built, and what is refused says field, value and remedy."""

import logging
from collections.abc import Callable
from typing import Any

from google.protobuf.message import Message
from hypothesis import strategies as st

from detection_core.builders import detector_parts, input_pipeline
from detection_core.builders.augment import build_augmentation, build_augmentations
from detection_core.builders.detector_parts import build_calibration, build_losses, build_post_processing
from detection_core.builders.heads import build_head, build_hyperparams
from detection_core.builders.optimizer import build_optimizer
from detection_core.config.check import check_message, check_pipeline_config, find_problems, find_refused
from detection_core.errors import ConfigError
from detection_core.families.ssd.build import build_target_assigner
from detection_core.protos.anchor_generator_pb2 import AnchorGenerator
from detection_core.protos.box_coder_pb2 import BoxCoder
from detection_core.protos.box_predictor_pb2 import BoxPredictor
from detection_core.protos.calibration_pb2 import CalibrationConfig
from detection_core.protos.hyperparams_pb2 import Hyperparams
from detection_core.protos.image_resizer_pb2 import ImageResizer
from detection_core.protos.losses_pb2 import Loss
from detection_core.protos.matcher_pb2 import Matcher
from detection_core.protos.optimizer_pb2 import Optimizer
from detection_core.protos.pipeline_pb2 import TrainEvalPipelineConfig
from detection_core.protos.post_processing_pb2 import PostProcessing
from detection_core.protos.preprocessor_pb2 import PreprocessingStep
from detection_core.protos.region_similarity_calculator_pb2 import RegionSimilarityCalculator
from tests.support.cases import config_refused
from tests.support.configs import find_in
from tests.support.random_messages import edge_messages

BUILDERS: dict[type[Message], Callable[[Any], Any]] = {
    AnchorGenerator: detector_parts.build_anchor_generator,
    BoxCoder: detector_parts.build_box_coder,
    BoxPredictor: build_head,
    CalibrationConfig: build_calibration,
    Hyperparams: build_hyperparams,
    ImageResizer: input_pipeline.build_image_resizer,
    Loss: build_losses,
    Matcher: detector_parts.build_matcher,
    Optimizer: build_optimizer,
    PostProcessing: build_post_processing,
    PreprocessingStep: build_augmentation,
    RegionSimilarityCalculator: detector_parts.build_similarity,
}
"""Every public builder that needs one message and no file; inputs and networks are tested elsewhere."""

PARTS: dict[str, Callable[[TrainEvalPipelineConfig], Any]] = {
    "anchors": lambda c: detector_parts.build_anchor_generator(c.model.ssd.anchor_generator),
    "augmentations": lambda c: build_augmentations(c.train_config.data_augmentation_options),
    "decoding": lambda c: input_pipeline.build_decoding(
        c.train_input_reader, input_pipeline.score_columns(c.model)
    ),
    "labels": input_pipeline.build_label_targets,
    "extractor": lambda c: build_hyperparams(c.model.ssd.feature_extractor.conv_hyperparams),
    "head": lambda c: build_head(c.model.ssd.box_predictor),
    "losses": lambda c: build_losses(c.model.ssd.loss),
    "optimizer": lambda c: build_optimizer(c.train_config.optimizer),
    "post-processing": lambda c: build_post_processing(c.model.ssd.post_processing),
    "resizer": lambda c: input_pipeline.model_image_resizer(c.model),
    "targets": lambda c: build_target_assigner(c.model.ssd),
}
"""What is built of a config without its network and its records."""


def messages_to_build(kind: type[Message]) -> st.SearchStrategy[Message]:
    """Messages of a type, with values at which things break."""
    found = edge_messages(kind.DESCRIPTOR, 2)
    if kind is BoxPredictor:  # the second stage's head is built by its family
        return found.filter(lambda message: not message.HasField("mask_rcnn_box_predictor"))
    return found


def assert_agree(message: Message) -> None:
    """The check names the first problem of a message, or its builder builds it."""
    problems = find_in(message, "m")
    for problem in problems:
        assert_says_what_to_do(problem.message)
    if not problems:
        BUILDERS[type(message)](message)
        return
    caught = config_refused("", check_message, message, "m")
    assert caught.where == problems[0].path and caught.message == problems[0].message


def assert_parts_agree(config: TrainEvalPipelineConfig) -> bool:
    """Everything of a config that passes is built; returns whether it passed."""
    for problem in (*find_refused(config), *find_problems(config)):
        assert problem.path
        assert_says_what_to_do(problem.message)
    if not passes(config):
        return False
    for build in PARTS.values():
        build(config)
    return True


def passes(config: TrainEvalPipelineConfig) -> bool:
    """Whether the check accepts a config that a detector can be trained of."""
    logging.disable(logging.WARNING)
    try:
        check_pipeline_config(config)
    except ConfigError:
        return False
    finally:
        logging.disable(logging.NOTSET)
    return config.model.HasField("ssd") and config.HasField("train_config")


def assert_says_what_to_do(text: str) -> None:
    """A message names what is expected, which is the remedy of a number out of range, or says what to do."""
    assert text.startswith("expected ") or "; use " in text or "its name is" in text, text
