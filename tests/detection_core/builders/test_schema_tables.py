"""Each oneof of the schema has one table, and what it refuses says what to use instead."""

import re

from google.protobuf.message_factory import GetMessageClass

from detection_core.builders import (
    anchors,
    augment,
    box_coders,
    calibration,
    heads,
    hyperparams,
    image_resizer,
    input_reader,
    losses,
    matchers,
    optimizer,
    similarity,
)
from detection_core.config.messages.table import RULES
from detection_core.config.refusals import find_refused
from detection_core.detectors.family import FAMILIES
from detection_core.detectors.ssd import feature_maps
from tests.support.cases import cases
from tests.support.schema_messages import MESSAGES

# The extractor's name decides which pyramid it has; one that has none takes no arm.
PYRAMIDS = set(feature_maps.NECKS) - {"extra_layers"}

# Oneof -> arms that a table builds.
TABLES = {
    "AnchorGenerator.anchor_generator_oneof": anchors.ANCHOR_GENERATORS,
    "BoxCoder.box_coder_oneof": box_coders.BOX_CODERS,
    "BoxPredictor.box_predictor_oneof": heads.BOX_PREDICTORS,
    "CalibrationConfig.calibrator": calibration.CALIBRATIONS,
    "ClassificationLoss.classification_loss": losses.CLASSIFICATION_LOSSES,
    "DetectionModel.model": FAMILIES,
    "Hyperparams.normalizer_oneof": hyperparams.NORMALIZERS,
    "ImageResizer.image_resizer_oneof": image_resizer.IMAGE_RESIZERS,
    "Initializer.initializer_oneof": hyperparams.INITIALIZERS,
    "InputReader.input_reader": input_reader.INPUT_READERS,
    "LearningRate.learning_rate": optimizer.LEARNING_RATES,
    "LocalizationLoss.localization_loss": losses.LOCALIZATION_LOSSES,
    "Matcher.matcher_oneof": matchers.MATCHERS,
    "Optimizer.optimizer": optimizer.OPTIMIZERS,
    "PreprocessingStep.preprocessing_step": augment.PREPROCESSING_STEPS,
    "RegionSimilarityCalculator.region_similarity": similarity.SIMILARITIES,
    "Regularizer.regularizer_oneof": hyperparams.REGULARIZERS,
    "SsdFeatureExtractor.feature_pyramid_oneof": PYRAMIDS,
}
# The only oneof of a message that is refused whole, wherever it stands.
REFUSED_WHOLE = {"ParameterizedMetric.parameterized_metric": ("EvalConfig", "parameterized_metric")}


ONEOFS = {f"{name}.{oneof.name}": oneof for name, m in MESSAGES.items() for oneof in m.oneofs}


def test_every_oneof_of_the_schema_has_one_table():
    assert set(ONEOFS) == set(TABLES) | set(REFUSED_WHOLE)
    for message, field in REFUSED_WHOLE.values():
        assert field in RULES[message].refused


@cases(*TABLES)
def test_every_arm_is_built_or_refused_with_a_reason(*, name):
    arms = {field.name for field in ONEOFS[name].fields}
    rules = RULES[name.rpartition(".")[0]]
    refused = set(rules.refused) & arms
    assert set(TABLES[name]) | refused == arms
    assert not set(TABLES[name]) & refused
    message = GetMessageClass(ONEOFS[name].containing_type)
    for arm in refused:
        reason = rules.refused[arm]
        (problem,) = find_refused(message(**{arm: {}}))
        assert problem.path == arm and problem.message.endswith(reason) and len(reason) > 20
        assert re.search("; use |list |remove |write ", reason), reason
