from detection_core.builders.input_reader import ScoreColumns
from detection_core.builders.training_labels import build_label_targets, score_columns
from detection_core.config.load import parse_pipeline_config
from detection_core.data.label_targets import LabelTargets
from detection_core.protos import pipeline_pb2
from tests.support.cases import cases, config_refused

KEYPOINTS = "train_input_reader { num_keypoints: 2 keypoint_type_weight: [1, 0.5] }"
SCORES = "train_input_reader { load_multiclass_scores: true } "


def _config(*texts):
    message = pipeline_pb2.TrainEvalPipelineConfig()
    for text in ("model { ssd { num_classes: 4 } }", *texts):
        message.MergeFrom(parse_pipeline_config(text))
    return message


@cases(
    ("", LabelTargets(classes=4)),
    (SCORES, LabelTargets(classes=4)),
    (SCORES + "train_config { use_multiclass_scores: true }", LabelTargets(classes=4, use_scores=True)),
    ("train_config { merge_multiple_label_boxes: true }", LabelTargets(classes=4, merge_equal_boxes=True)),
    ("model { ssd { explicit_background_class: true } }", LabelTargets(classes=3)),
    (KEYPOINTS, LabelTargets(classes=4, keypoint_weights=(1.0, 0.5))),
)
def test_fields_become_options(*, text, targets):
    assert build_label_targets(_config(text)) == targets


def test_what_is_trained_on_must_be_read():
    scores = _config("train_config { use_multiclass_scores: true }")
    caught = config_refused("load_multiclass_scores: true", build_label_targets, scores)
    assert caught.where == "train_config.use_multiclass_scores"
    coder = "model { ssd { box_coder { keypoint_box_coder { num_keypoints: 3 } } } }"
    build_label_targets(_config(coder, "train_input_reader { num_keypoints: 3 }"))
    message = "expected the 3 keypoints.*set num_keypoints: 3"
    caught = config_refused(message, build_label_targets, _config(coder))
    assert caught.where == "train_input_reader.num_keypoints"
    # An explicit background is one of the columns and no class.
    config = _config("model { ssd { explicit_background_class: true } }")
    assert score_columns(config.model) == ScoreColumns(count=4, background=True)
    assert score_columns(_config("").model) == ScoreColumns(count=4, background=False)
