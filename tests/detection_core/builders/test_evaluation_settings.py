from detection_core.builders.evaluation_settings import build_evaluation_settings
from detection_core.config.load import parse_pipeline_config
from detection_core.evaluation.metric_sets import MetricOptions
from detection_core.evaluation.pictures import PictureOptions


def test_settings_are_as_the_message_says_and_classes_those_of_the_first_reader():
    readers = "".join(f'eval_input_reader {{ label_map_path: "{name}" }}' for name in ("first", "second"))
    assert build_evaluation_settings(parse_pipeline_config(readers)).label_map_path == "first"
    assert build_evaluation_settings(parse_pipeline_config("")).label_map_path == ""
    assert build_evaluation_settings(parse_pipeline_config("")).min_score is None

    text = """eval_config {
      num_visualizations: 3 min_score_threshold: 0.25 skip_labels: true max_num_boxes_to_visualize: 7
      visualize_groundtruth_boxes: true groundtruth_box_visualization_color: "AliceBlue"
      metrics_set: "coco_detection_metrics" include_metrics_per_category: true
      skip_predictions_for_unlabeled_class: true recall_lower_bound: 0.25 recall_upper_bound: 0.75
      super_categories { key: "pets" value: "cat, dog" }
    }"""
    found = build_evaluation_settings(parse_pipeline_config(text))
    assert (found.pictures, found.min_score) == (3, 0.25)
    assert found.drawing == PictureOptions(
        most_boxes=7, names=False, scores=True, truth_colour=(240, 248, 255)
    )
    assert found.metrics == MetricOptions(
        sets=("coco_detection_metrics",), per_category=True, all_per_category=False,
        groups={"pets": ("cat", "dog")}, only_labelled=True, recall_bounds=(0.25, 0.75),
    )  # fmt: skip
    plain = build_evaluation_settings(parse_pipeline_config("eval_config { skip_scores: true }"))
    assert not plain.drawing.scores and plain.drawing.truth_colour is None
