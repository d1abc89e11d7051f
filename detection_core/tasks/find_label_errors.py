"""Find label errors: compare labels with out-of-sample detections, and write a ranking, a page and tasks."""

import dataclasses
from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np

from detection_core.artifacts.data_findings import WARN, Finding, FoundExample
from detection_core.artifacts.detector import LABEL_MAP
from detection_core.artifacts.label_errors import KINDS, LABEL_ERRORS, ImageScore, LabelError, LabelErrors
from detection_core.builders.evaluation_settings import EvaluateOptions
from detection_core.config.label_map_file import load_label_map
from detection_core.config.pipeline_config import PipelineConfig
from detection_core.data.label_map import LabelMap
from detection_core.datasets.annotated_images import AnnotatedImage, AnnotatedObject
from detection_core.datasets.annotation_writers import WRITERS
from detection_core.errors import ConfigError, DataError
from detection_core.evaluation.label_scores import LabelErrorOptions, ScoredBox, rank, score_labels
from detection_core.evaluation.results import EvaluatedImage, to_px
from detection_core.structures import Instances
from detection_core.tasks.cross_validation import train_without
from detection_core.tasks.evaluate import is_results, plan_evaluation
from detection_core.tasks.examples import count_split
from detection_core.tasks.report_data import report_examples
from detection_core.validation.checks import EXAMPLES_LISTED, TRAIN
from detection_core.validation.labelled_images import read_split, split_names, stored_box

_MESSAGES = {
    "overlooked": "objects may have no label; a confident detection has no label like it",
    "badly_located": "labels may have a wrong box; the detection of their class lies elsewhere",
    "swapped": "labels may have a wrong class; a confident detection of another class lies there",
}
TASK_FORMATS = ("cvat", "label_studio")
_DECIMALS = 5


@dataclasses.dataclass(frozen=True, kw_only=True)
class LabelSearch:
    """Where detections come from, and what is listed.

    Attributes:
        model_path: detector, or detections as COCO results (.json); "" to cross-validate.
        config: of the trainings of the cross-validation, whose folds are the splits of the examples.
        work_dir: durable folder of these trainings.
        splits: of the examples; empty for all, but with a detector for all except `train`.
        options: parameters of the scores.
        count: most suspects of a kind.
        below: suspects have a score below it.
        trust: run a model whose graph may do more than compute.
        title: of the page.
    """

    model_path: str = ""
    config: PipelineConfig | None = None
    work_dir: str = ""
    splits: Sequence[str] = ()
    options: LabelErrorOptions = dataclasses.field(default_factory=LabelErrorOptions)
    count: int = 100
    below: float = 0.5
    trust: bool = False
    title: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Compared:
    """An image with its split and its record."""

    split: str
    image: EvaluatedImage
    record: int
    file: str


def find_label_errors(examples_dir: str, folder: str, search: LabelSearch) -> LabelErrors:
    """Rank suspected label errors of examples, and write them into a folder.

    Args:
        examples_dir: output of ExampleGen.
        folder: gets `label_errors.json`, the files of `report_examples` with pictures of the suspects, and
            `cvat.xml` and `label_studio.json` with the images to correct.
        search: how to detect objects, and what to list.

    Raises:
        ConfigError: for an unknown split, or neither detections nor a config to train.
        DataError: if the examples are damaged, or no object is detected.
        ModelError: if a detector cannot be run.
    """
    label_map = load_label_map(f"{examples_dir.rstrip('/')}/{LABEL_MAP}")
    splits, folds = _chosen_splits(examples_dir, search), split_names(examples_dir)
    compared = [each for split in splits for each in _compare(examples_dir, split, folds, search, label_map)]
    images = [each.image for each in compared]
    if not any(image.detections.classes.size for image in images):
        raise DataError(
            "expected detections of the images, found none; train longer, or compare the image_id of the"
            " detections with the ids of the images",
            where=search.model_path or examples_dir,
        )
    options = search.options.with_thresholds(images)
    boxes, qualities = score_labels(images, options)
    suspects = rank(boxes, options, search.count, search.below)
    errors = [_error(box, compared[box.image], label_map) for kind in KINDS for box in suspects[kind]]
    found = LabelErrors(
        errors=errors,
        images=[
            ImageScore(
                split=compared[place].split,
                source_id=images[place].truth.source_id,
                score=round(float(qualities[place]), _DECIMALS),
            )
            for place in np.argsort(qualities, kind="stable")
        ],
        low_score=options.low_score or 0.0,
        high_score=options.high_score or 0.0,
        folds=0 if search.model_path else len(folds),
    )
    report_examples(examples_dir, folder, title=search.title, suspected=_findings(errors, search.below))
    LABEL_ERRORS.write(folder, found)
    tasks = _tasks(errors, {(each.split, each.record): each for each in compared}, label_map)
    for name in TASK_FORMATS:
        WRITERS[name](folder, tasks, label_map, "suspected label errors")
    return found


def _chosen_splits(examples_dir: str, search: LabelSearch) -> list[str]:
    known = split_names(examples_dir)
    for split in search.splits:
        if split not in known:
            raise ConfigError(f"expected one of {', '.join(known)}, found {split!r}", where="splits")
    if not search.model_path and search.config is None:
        raise ConfigError("expected a model, detections or a config to train, found none of them")
    unseen = [
        split for split in known if split != TRAIN or not search.model_path or is_results(search.model_path)
    ]
    return list(search.splits) or unseen or known


def _compare(
    examples_dir: str, split: str, folds: Sequence[str], search: LabelSearch, label_map: LabelMap
) -> list[_Compared]:
    """Return a split's images with detections of a detector that was not trained on it."""
    model = search.model_path or train_without(
        split, search.config or PipelineConfig(), examples_dir, folds, search.work_dir
    )
    options = EvaluateOptions(split=split, trust=search.trust)
    planned = plan_evaluation(model_path=model, evaluation_dir="", examples_dir=examples_dir, options=options)
    [measured] = planned.measure(planned.load(), planned.truth).values()
    records = {
        image.source_id or image.filename: (image.record, image.filename or image.source_id)
        for image in read_split(count_split(examples_dir, split), label_map)
    }
    found = [(image, *records[image.truth.source_id]) for image in measured.images]
    return [_Compared(split=split, image=image, record=record, file=file) for image, record, file in found]


def _error(box: ScoredBox, compared: _Compared, label_map: LabelMap) -> LabelError:
    truth, found, names = compared.image.truth, compared.image.detections, label_map.class_names
    labelled = box.kind != "overlooked"
    return LabelError(
        kind=box.kind,
        score=round(box.score, _DECIMALS),
        split=compared.split,
        source_id=truth.source_id,
        record=compared.record,
        file=compared.file,
        detected=names[int(found.classes[box.detection])],
        detected_score=round(float(found.scores[box.detection]), _DECIMALS),
        detected_box=stored_box(found.boxes[box.detection]),
        label=names[int(truth.classes[box.label])] if labelled else "",
        label_box=stored_box(truth.boxes[box.label]) if labelled else None,
    )


def _findings(errors: Sequence[LabelError], below: float) -> list[Finding]:
    """Return a finding for each kind that has suspects."""
    return [
        Finding(
            id=f"{kind}:labels",
            check=f"{kind}_labels",
            severity=WARN,
            message=f"{len(own):,} {_MESSAGES[kind]}; correct them with cvat.xml or label_studio.json",
            measured=own[0].score,
            threshold=below,
            count=len(own),
            examples=[
                FoundExample(
                    split=error.split,
                    source_id=error.source_id,
                    record=error.record,
                    note=error.note,
                    box=error.label_box or error.detected_box,
                    detected=error.detected_box,
                )
                for error in own[:EXAMPLES_LISTED]
            ],
        )
        for kind in KINDS
        if (own := [error for error in errors if error.kind == kind])
    ]


def _tasks(
    errors: Sequence[LabelError], compared: Mapping[tuple[str, int], _Compared], label_map: LabelMap
) -> list[AnnotatedImage]:
    """Return the images with suspects, worst first: labels, notes on suspects, overlooked objects."""
    by_image: dict[tuple[str, int], list[LabelError]] = defaultdict(list)
    for error in sorted(errors, key=lambda error: error.score):
        by_image[error.split, error.record].append(error)
    return [_task(compared[key], own, label_map) for key, own in by_image.items()]


def _task(compared: _Compared, errors: Sequence[LabelError], label_map: LabelMap) -> AnnotatedImage:
    truth = compared.image.truth
    notes: dict[tuple[str, tuple[float, ...]], list[str]] = defaultdict(list)
    for error in errors:
        if error.label_box:
            notes[error.label, tuple(error.label_box)].append(error.note)
    # A detection at a wrong label is no further object.
    explained = [error.detected_box for error in errors if error.label_box]
    objects = []
    for row, label in enumerate(truth.classes.tolist()):
        name = label_map.class_names[label]
        marked = "; ".join(notes[name, tuple(stored_box(truth.boxes[row]))])
        objects.append(AnnotatedObject(name, _pixels(truth.boxes[row], truth), note=marked))
    objects += [
        AnnotatedObject(
            error.detected,
            _pixels(np.array(error.detected_box), truth),
            confidence=error.detected_score,
            note=error.note,
        )
        for error in errors
        if error.label_box is None and error.detected_box not in explained
    ]
    return AnnotatedImage(truth.source_id, compared.file, compared.file, truth.width, truth.height, objects)


def _pixels(box: np.ndarray, truth: Instances) -> tuple[float, float, float, float]:
    """Return a normalised box as xmin, ymin, xmax, ymax in pixels."""
    ymin, xmin, ymax, xmax = map(float, to_px(box, truth)[0])
    return xmin, ymin, xmax, ymax
