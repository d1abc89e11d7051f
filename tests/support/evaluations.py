"""Evaluations of a detector on scenes in memory."""

from detection_core.structures import FIRST_CLASS
from detection_core.tasks.evaluate import plan_for_truth


def evaluate(*, model_path, truth, label_map, evaluation_dir, options, baseline_path=""):
    """Measure a detector on the images and truth that `truth` yields; write and return the report."""
    categories = {c + FIRST_CLASS: c for c in label_map.classes}
    return plan_for_truth(
        model_path, baseline_path, categories, truth, label_map, evaluation_dir, options
    ).run()
