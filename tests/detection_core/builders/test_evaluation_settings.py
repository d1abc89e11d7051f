"""Settings of an evaluation."""

from detection_core.builders.evaluation_settings import build_evaluation_settings
from detection_core.config.load import parse_pipeline_config


def test_settings_are_those_of_the_message_and_of_the_first_reader():
    readers = "".join(f'eval_input_reader {{ label_map_path: "{name}" }}' for name in ("first", "second"))
    assert build_evaluation_settings(parse_pipeline_config(readers)).label_map_path == "first"
    assert build_evaluation_settings(parse_pipeline_config("")).label_map_path == ""
    text = "eval_config { num_visualizations: 3 min_score_threshold: 0.25 skip_labels: true }"
    found = build_evaluation_settings(parse_pipeline_config(text))
    assert (found.pictures, found.min_score, found.drawing.names) == (3, 0.25, False)
    assert build_evaluation_settings(parse_pipeline_config("")).min_score is None
