from detection_core.config.load import parse_pipeline_config
from detection_core.config.messages.pipeline import clip_range_problems, tflite_problems
from tests.support.cases import cases

FIXED = "image_resizer { fixed_shape_resizer {} }"
NMS = "batch_non_max_suppression"
NMS_PATH = f"model.ssd.post_processing.{NMS}"
CLIP = "box_encodings_clip_range { min: -5 max: 5 }"


def config_of(model):
    return parse_pipeline_config(f"model {{ {model} }}")


def test_a_clip_range_is_found_in_either_head_and_keypoints_are_refused():
    assert not list(tflite_problems(config_of("efficientdet {}")))
    for head in ("convolutional_box_predictor", "weight_shared_convolutional_box_predictor"):
        text = f"ssd {{ {FIXED} box_predictor {{ {head} {{ %s }} }} }}"
        plain, clipped = (config_of(text % clip) for clip in ("", CLIP))
        assert not list(tflite_problems(plain))
        path = f"model.ssd.box_predictor.{head}.box_encodings_clip_range"
        for problems in (tflite_problems, clip_range_problems):
            assert [problem.path for problem in problems(clipped)] == [path]
    coder = "box_coder { keypoint_box_coder { num_keypoints: 2 } }"
    (problem,) = tflite_problems(config_of(f"ssd {{ {FIXED} {coder} }}"))
    assert problem.path == "model.ssd.box_coder"
    assert "give boxes without keypoints: serve the SavedModel" in problem.message


@cases(
    ("faster_rcnn {}", "model"),
    ("ssd { image_resizer { identity_resizer {} } }", "model.ssd.image_resizer"),
    ("efficientdet { image_resizer { identity_resizer {} } }", "model.efficientdet.image_resizer"),
    (f"ssd {{ {FIXED} box_coder {{ square_box_coder {{}} }} }}", "model.ssd.box_coder"),
    (f"ssd {{ {FIXED} post_processing {{ {NMS} {{ iou_threshold: 0 }} }} }}", f"{NMS_PATH}.iou_threshold"),
)
def test_what_a_file_cannot_hold_is_found(*, model, path):
    assert [p.path for p in tflite_problems(config_of(model))] == [path]
