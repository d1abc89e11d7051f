import re

from detection_core.config.check import find_problems
from detection_core.config.messages.extractors import NAMED_EXTRACTORS
from detection_core.detectors.ssd.checkpoint_names.scoped_names import FAMILIES
from tests.support.cases import cases
from tests.support.configs import PYRAMID, TWO_STAGE, assert_fine, assert_problems, changed

TRAIN = "train_config"
TYPE = f"{TRAIN}.fine_tune_checkpoint_type"
VERSION = f"{TRAIN}.fine_tune_checkpoint_version"
HEADS = f"{TRAIN}.load_all_detection_checkpoint_vars"
START = f"{TRAIN}.fine_tune_checkpoint"
ZOO_MODEL = "zoo:ssd_mobilenet_v2_fpnlite_320x320_coco17_tpu-8"
CHECKPOINT = {START: "weights/model.ckpt"}
EXTRACTOR = "model.ssd.feature_extractor.type"
# What an EfficientNet needs in the place of the pyramid's own fields.
LEVELS = {"min_level": 3, "max_level": 6, "num_iterations": 3, "num_filters": 64}
EFFICIENTNET = {
    **{f"model.ssd.feature_extractor.{n}": "unset" for n in ("fpn", "depth_multiplier", "use_depthwise")},
    "model.ssd.feature_extractor.bifpn": LEVELS,
}


B0, B3 = "ssd_efficientnet-b0_bifpn_keras", "ssd_efficientnet-b3_bifpn_keras"


def _named(extractor="ssd_mobilenet_v2_fpn_keras", **fields):
    return {**CHECKPOINT, EXTRACTOR: extractor, VERSION: "V1", **fields}


@cases(
    ({START: "C:\temp", VERSION: "V2"}, {START: r"found 'C:\\temp', with control characters; .* write / or"}),
    ({TYPE: "detections"}, {TYPE: "did you mean detection"}),
    ({TYPE: "fine_tune"}, {TYPE: "no detector of the field supports"}),
    ({**CHECKPOINT, VERSION: "UNKNOWN"}, {VERSION: "expected V1, .* or V2"}),
    ({**CHECKPOINT, VERSION: "V2", HEADS: True}, {HEADS: 'fine_tune_checkpoint_type: "full"'}),
    (_named(B0, **EFFICIENTNET, **{TYPE: "full"}), {VERSION: f"had no {B0}.* set fine_.*_version: V2"}),
    # The default of the field is V1.
    (_named(B3, **{**EFFICIENTNET, VERSION: "unset"}), {VERSION: "expected V2"}),
    (_named(**{TYPE: "full"}), {TYPE: "load_all_detection_checkpoint_vars: true"}),
    (_named(**{TYPE: "classification", HEADS: True}), {HEADS: 'fine_tune_checkpoint_type: "detection"'}),
    (_named(**{TYPE: "unset", HEADS: True}), {HEADS: "classifier has no heads"}),
    ({START: "zoo:ssd_mobilenet_v2_fpnlite"}, {START: "did you mean ssd_mobilenet_v2_fpnlite"}),
    ({START: "zoo:efficientdet_d0_coco17_tpu-32"}, {START: "mobilenet_v2, .* of efficientnet_b0"}),
    ({START: ZOO_MODEL, VERSION: "V1"}, {VERSION: "expected V2 or nothing"}),
    ({START: ZOO_MODEL, TYPE: "classification"}, {TYPE: "expected detection or full with zoo:"}),
    ({START: ZOO_MODEL, HEADS: True}, {HEADS: "expected false with zoo:"}),
    ({START: "imagenet", TYPE: "full"}, {TYPE: "expected classification with imagenet"}),
    ({START: "imagenet:mobilenet_v2"}, {START: "expected imagenet alone"}),
)
def test_a_problem_is_found_where_it_is_with_what_to_do(*, changes, expected):
    assert_problems(PYRAMID, changes, set(expected))
    for problem in find_problems(changed(PYRAMID, changes)):
        assert re.search(expected[problem.path], problem.message)


@cases(
    _named(**{TYPE: "detection", HEADS: True}),
    _named("ssd_mobilenet_v1_fpn_keras", **{TYPE: "classification"}),
    _named(**{TYPE: "unset", f"{TRAIN}.from_detection_checkpoint": True, HEADS: True}),
    {**CHECKPOINT, VERSION: "V2", TYPE: "full"},
    # Without a checkpoint nothing is said about its version.
    {START: "unset", VERSION: "unset", HEADS: True},
)
def test_what_fits_passes(*, changes):
    assert_fine(PYRAMID, changes)


@cases(
    (TWO_STAGE, {}),
    (PYRAMID, {EXTRACTOR: "ssd_spaghettinet"}),
    (PYRAMID, {EXTRACTOR: "ssd_mobilenet_v2_fpn"}),
)
def test_a_model_that_is_not_built_is_a_problem_of_its_own(*, path, changes):
    config = changed(path, {**CHECKPOINT, VERSION: "V1", **changes})
    assert not {VERSION, TYPE, HEADS} & {problem.path for problem in find_problems(config)}
    assert set(NAMED_EXTRACTORS) == set(FAMILIES)
