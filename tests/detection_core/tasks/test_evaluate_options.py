"""Which fields of a config say how to evaluate."""

from detection_core.config.load import parse_pipeline_config
from detection_core.evaluation.metric_sets import MetricOptions
from detection_core.evaluation.pictures import PictureOptions
from detection_core.tasks.evaluate_options import AS_CONFIGURED, EvaluateOptions, with_eval_config


def _read(text, **options):
    config = parse_pipeline_config(f"eval_config {{ {text} }}")
    return with_eval_config(EvaluateOptions(**options), config)


def test_every_setting_reaches_the_evaluation():
    found = _read(
        """
        num_visualizations: 3 min_score_threshold: 0.25 max_num_boxes_to_visualize: 7
        skip_scores: true skip_labels: true
        visualize_groundtruth_boxes: true groundtruth_box_visualization_color: "#ff8000"
        metrics_set: "coco_detection_metrics" metrics_set: "precision_at_recall_detection_metrics"
        include_metrics_per_category: true all_metrics_per_category: true
        super_categories { key: "pets" value: "cat, dog" }
        skip_predictions_for_unlabeled_class: true recall_lower_bound: 0.25 recall_upper_bound: 0.75
        """,
        split="test",
        pictures=AS_CONFIGURED,
    )
    assert found == EvaluateOptions(
        split="test",
        pictures=3,
        min_score=0.25,
        drawing=PictureOptions(most_boxes=7, names=False, scores=False, truth_colour=(255, 128, 0)),
        metrics=MetricOptions(
            sets=("coco_detection_metrics", "precision_at_recall_detection_metrics"),
            per_category=True,
            all_per_category=True,
            groups={"pets": ("cat", "dog")},
            only_labelled=True,
            recall_bounds=(0.25, 0.75),
        ),
    )


def test_what_is_not_said_is_the_schema_s_default_and_what_was_asked_for_goes_first():
    found = _read("", pictures=AS_CONFIGURED)
    assert (found.pictures, found.min_score) == (10, None)
    assert (found.drawing, found.metrics) == (PictureOptions(), MetricOptions())
    assert _read("num_visualizations: 3", pictures=0).pictures == 0
    assert _read("num_visualizations: 3", pictures=5).pictures == 5
