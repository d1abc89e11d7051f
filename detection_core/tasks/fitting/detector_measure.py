"""Measure a detector during training, on its config's evaluation images."""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from detection_core.artifacts.evaluation import MAP, finite
from detection_core.builders.datasets import eval_reader, sampled_evaluation
from detection_core.builders.detector import configured_model
from detection_core.builders.evaluation_settings import EvaluateOptions, with_eval_config
from detection_core.builders.train_plan import ValidationPlan
from detection_core.config.pipeline_config import CheckedConfig
from detection_core.config.suggestions import did_you_mean
from detection_core.data.label_map import LabelMap
from detection_core.detectors.base import Detector
from detection_core.errors import ConfigError
from detection_core.evaluation.evaluated_split import EvaluatedSplit
from detection_core.evaluation.measure import measure, split_to_measure
from detection_core.evaluation.metric_sets import compute_metrics, known_metrics
from detection_core.evaluation.pictures import draw_both, spread_evenly
from detection_core.evaluation.results import EvaluatedImage
from detection_core.evaluation.signature_runner import SignatureRunner
from detection_core.evaluation.tiled_runner import with_tiles
from detection_core.exporters.signatures import serving_function
from detection_core.structures import Instances
from detection_core.training.distribution import Worker, current_worker, gather_from_workers
from detection_core.training.validation import ValidationPicture

_NAME = "validation"


class DetectorMeasure:
    """Measures the present weights of a detector, as `detflow evaluate` measures the exported one.

    Attributes:
        images: number of images.
        pictures: of the last measurement, always of the same images.
    """

    def __init__(
        self,
        model: Detector,
        config: CheckedConfig,
        label_map: LabelMap,
        plan: ValidationPlan,
        *,
        plain_model: Detector | None = None,
    ) -> None:
        """Check the request; nothing is traced yet.

        Args:
            model: the detector in training.
            config: defines the images by its first eval_input_reader, and the metrics by its `eval_config`.
            label_map: of the examples.
            plan: names the metrics of the objective, and the number of images.
            plain_model: float32 detector of plain variables to measure instead. Needed if the model has
                replicas on several devices, or computes with fewer bits.

        Raises:
            ConfigError: for a metric that the config does not measure; names the nearest.
            DataError: if there are no images.
        """
        self._model, self._plain = model, plain_model
        self._config, self.images = sampled_evaluation(config, plan.max_images, label_map=label_map)
        self._label_map = label_map
        self._options = with_eval_config(EvaluateOptions(), config)
        self._tiles = plan.tiles
        self._drawn = spread_evenly(self.images, plan.pictures)
        self.pictures: list[ValidationPicture] = []
        self._demanded = list(plan.options.objective)
        self._resizer = configured_model(config).build_resizer()
        self._function: Any = None
        _check_metrics(self._demanded, known_metrics(self._options.metrics, label_map.class_names))

    def __call__(self) -> Mapping[str, float | None]:
        """Return metric to value; empty on workers other than the chief.

        Each worker detects in its share of the images, and the chief computes the metrics of all.
        """
        # Reading a replicated variable is a reduction, in which all workers take part.
        values = [variable.numpy() for variable in self._model.variables] if self._plain else []
        worker = current_worker()
        measured = self._plain or self._model
        for variable, value in zip(measured.variables if values else (), values, strict=True):
            variable.assign(value)
        if self._function is None:
            self._function = serving_function(measured, self._resizer)
        runner = with_tiles(SignatureRunner(self._function, "the detector in training"), self._tiles)
        kept: dict[int, np.ndarray] = {}
        reader = eval_reader(self._config, self._label_map).share(worker.index, worker.count)
        truth = self._keeping(reader.truth(), worker, kept)
        total = len(range(worker.index, self.images, worker.count))
        found = measure({_NAME: runner}, truth, self._label_map, job="validate", total=total, partial=True)
        images = _of_all_workers(tuple(found[_NAME].images), kept)
        if not worker.is_chief:
            return {}
        metrics = self._options.metrics
        split = split_to_measure(images, self._label_map, metrics)
        measurement = compute_metrics(split, metrics, self._demanded)
        self.pictures = self._draw(split, kept)
        return finite(measurement)

    def named_pictures(self) -> dict[str, np.ndarray]:
        """Return the pictures by their names in loggers."""
        return {f"validation/{picture.number}": picture.image for picture in self.pictures}

    def _keeping(
        self, truth: Iterable[tuple[np.ndarray, Instances]], worker: Worker, kept: dict[int, np.ndarray]
    ) -> Iterator[tuple[np.ndarray, Instances]]:
        """Yield a worker's images, and keep the pixels of those to draw."""
        for number, (image, image_truth) in zip(itertools.count(worker.index, worker.count), truth):
            if number in self._drawn:
                kept[number] = image
            yield image, image_truth

    def _draw(self, split: EvaluatedSplit, kept: Mapping[int, np.ndarray]) -> list[ValidationPicture]:
        """Draw detections that reach `eval_config`'s score beside ground truth."""
        score = split.best_score if self._options.min_score is None else self._options.min_score
        return [
            ValidationPicture(
                number=number,
                source_id=split.counted[at].truth.source_id,
                image=np.asarray(
                    draw_both(image, split.counted[at], split.class_names, score, self._options.drawing)
                ),
            )
            for number, (at, image) in enumerate(sorted(kept.items()))
        ]


def _of_all_workers(
    images: tuple[EvaluatedImage, ...], kept: dict[int, np.ndarray]
) -> tuple[EvaluatedImage, ...]:
    """Return the images of all workers in the split's order, and add their kept pixels to `kept`."""
    shares = gather_from_workers((images, kept))
    joined: list[Any] = [None] * sum(len(share) for share, _ in shares)
    for part, (share, pixels) in enumerate(shares):
        joined[part :: len(shares)] = share
        kept |= pixels
    return tuple(joined)


def _check_metrics(names: Sequence[str], known: Sequence[str]) -> None:
    for i, name in enumerate(names):
        if name not in known:
            hint = did_you_mean(name, known, f"{MAP} is always measured")
            raise ConfigError(
                f"expected a metric that the config measures, found {name!r}; {hint}",
                where=f"train_config.validation.metric[{i}].name",
            )
