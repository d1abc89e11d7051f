"""Verbs on data sets: report, label errors, preview, convert."""

import argparse
import contextlib
import json
import os
from collections import Counter
from collections.abc import Iterator
from typing import Any

from detection_core.artifacts.detector import find_model
from detection_core.errors import ConfigError, DataError
from detection_core.storage import files
from pipeline.cli.base import Group, Result, load_config, quiet_output_folder, verb

_WORK = ".examples"


@contextlib.contextmanager
def examples_of(
    path: str, arguments: argparse.Namespace, output: str, *, divided: bool = True
) -> Iterator[str]:
    """Yield a folder of examples: `path` itself, or one in `output` that is deleted when the block ends.

    A path of "" gives "". `arguments` has `data_source`; `output` has room for the images. If
    not `divided`, a data set without splits is taken as one, so that few images are enough.

    Raises:
        ConfigError: for invalid splits.
        DataError: when there are no data, or no usable data.
    """
    from detection_core.artifacts.detector import LABEL_MAP

    if not path or (files.exists(files.join(path, LABEL_MAP)) and not arguments.format):
        yield path
        return
    folder = os.path.join(output, _WORK)
    try:
        _make_examples(path, arguments.format, _splits(arguments.splits), folder, divided)
        yield folder
    finally:
        files.remove_tree(folder)


def _make_examples(path: str, data_format: str, splits: dict[str, Any], folder: str, divided: bool) -> None:
    from component_specs import ExampleGenJob
    from components.example_gen.run import run

    if not (data_format and splits):
        path, data_format, splits = _found(path, data_format, splits)
    if not divided and all(isinstance(part, float) for part in splits.values()):
        splits = {"train": 1.0}
    # Unusable data are counted and shown; they do not end the verb.
    job = ExampleGenJob(
        examples=folder, data_path=path, data_format=data_format, splits=splits, quarantine_limit=1.0
    )
    run(job)


def _found(path: str, data_format: str, splits: dict[str, Any]) -> tuple[str, str, dict[str, Any]]:
    """Return folder, format and splits of a data set; detect those that are not given."""
    from detection_core.datasets.layout_search import find_layout
    from detection_core.datasets.layouts import RATIOS

    try:
        layout = find_layout(path, data_format)
    except DataError:
        if not data_format:
            raise
        return path, data_format, splits or dict(RATIOS)  # the reader of the given format reports the fault
    return layout.path, layout.format, splits or dict(layout.splits)


def _splits(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text) if text else {}
    except ValueError as e:
        raise ConfigError(f"expected JSON, found {text!r:.80} ({e})", where="--splits") from e
    if not isinstance(value, dict):
        raise ConfigError(f"expected an object, found {text!r:.80}", where="--splits")
    return value


@verb("detflow data report photos -o build/report")
def report(arguments: argparse.Namespace) -> Result:
    """Write a page about a data set: charts, samples, and what is wrong with it."""
    from detection_core.config.load import load_checked_config

    config = load_checked_config(arguments.config) if arguments.config else None
    with (
        quiet_output_folder(arguments.output, keep_unfinished=False) as output,
        examples_of(arguments.data, arguments, output) as examples,
    ):
        from detection_core.artifacts.data_findings import FINDINGS
        from detection_core.artifacts.dataset_card import CARD
        from detection_core.report.data_page import PAGE
        from detection_core.tasks.report_data import report_examples

        made = report_examples(
            examples, output, title=arguments.data.rstrip("/") or arguments.data, config=config
        )
    page = files.join(arguments.output, PAGE)
    total = made.card.total
    lines = [f"{total.images:,} images, {total.objects:,} objects, {len(made.card.classes):,} classes"]
    if made.card.quarantine.records:
        reasons = made.card.quarantine.reasons.items()
        counted = ", ".join(f"{count:,} {reason.replace('_', ' ')}" for reason, count in reasons)
        lines.append(f"{made.card.quarantine.records:,} put aside: {counted}")
    lines += [f"{finding.severity}: {finding.message}" for finding in made.findings.findings]
    data = {"page": page, "card": CARD.encode(made.card), "findings": FINDINGS.encode(made.findings)}
    return Result(text="\n".join([*lines, f"page: {page}"]), data=data)


@verb("detflow data labels photos --folds 3 --config pipeline.config -o build/labels", resumes=True)
def labels(arguments: argparse.Namespace) -> Result:
    """Rank labels that are likely wrong, by detections of other detectors than those trained on them."""
    given = [name for name in ("model", "detections", "folds") if getattr(arguments, name)]
    if len(given) != 1:
        found = " and ".join(f"--{name}" for name in given) or "none"
        raise ConfigError(f"expected one of --model, --detections and --folds, found {found}")
    config = None
    if arguments.folds:
        from detection_core.artifacts.detector import LABEL_MAP
        from detection_core.tasks.cross_validation import fold_splits

        arguments.splits = json.dumps(fold_splits(arguments.folds))
        if files.exists(files.join(arguments.data, LABEL_MAP)):
            arguments.format = arguments.format or "tfrecord"  # examples, to divide again
        config = load_config(arguments.config, arguments)
    with (
        quiet_output_folder(arguments.output) as output,
        examples_of(arguments.data, arguments, output) as examples,
    ):
        from detection_core.artifacts.label_errors import KINDS, LABEL_ERRORS
        from detection_core.evaluation.label_scores import LabelErrorOptions
        from detection_core.report.data_page import PAGE
        from detection_core.tasks.find_label_errors import LabelSearch, find_label_errors

        search = LabelSearch(
            model_path=find_model(arguments.model) or arguments.detections,
            config=config,
            work_dir=os.path.join(arguments.output, "folds"),
            splits=[name for name in arguments.split.split(",") if name],
            options=LabelErrorOptions(low_score=arguments.low_score, high_score=arguments.high_score),
            count=arguments.count,
            trust=arguments.trust,
            title=arguments.data.rstrip("/") or arguments.data,
        )
        made = find_label_errors(examples, output, search)
    page = files.join(arguments.output, PAGE)
    counts = Counter(error.kind for error in made.errors)
    lines = [f"{counts[kind]:,} suspected: {kind.replace('_', ' ')}" for kind in KINDS]
    return Result(text="\n".join([*lines, f"page: {page}"]), data={"page": page} | LABEL_ERRORS.encode(made))


@verb("detflow data preview pipeline.config --data photos -o build/preview")
def preview(arguments: argparse.Namespace) -> Result:
    """Draw what augmentation really feeds the network: images before and after."""
    if arguments.examples and arguments.data:
        raise ConfigError("expected one of --examples and --data, found both; leave one out")
    config = load_config(arguments.config, arguments)
    with (
        quiet_output_folder(arguments.output, keep_unfinished=False) as output,
        examples_of(arguments.examples or arguments.data, arguments, output) as examples,
    ):
        from detection_core.config.input_paths import point_at_examples
        from detection_core.tasks.preview import PAGE, SHEET, preview_training_input

        made = preview_training_input(
            point_at_examples(config, examples) if examples else config,
            output,
            seed=arguments.seed,
            count=arguments.count,
            title=arguments.config,
        )
    page, sheet = (files.join(arguments.output, name) for name in (PAGE, SHEET))
    steps = ", ".join(text.partition(" ")[0] for text in made.augmentations) or "none"
    lines = [f"seed {made.seed}, {len(made.source_ids)} images", f"augmentations: {steps}"]
    data = {
        "page": page,
        "sheet": sheet,
        "seed": made.seed,
        "source_ids": list(made.source_ids),
        "augmentations": list(made.augmentations),
    }
    return Result(text="\n".join([*lines, f"sheet: {sheet}", f"page: {page}"]), data=data)


@verb("detflow data convert photos -o build/coco")
def convert(arguments: argparse.Namespace) -> Result:
    """Write a data set of any format as COCO JSON with its images."""
    from detection_core.artifacts.dataset_card import QUARANTINE
    from detection_core.config.label_map_file import find_label_map
    from detection_core.datasets.dataset_conversion import convert_to_coco

    label_map = find_label_map(arguments.data)
    made = convert_to_coco(
        arguments.data,
        arguments.output,
        arguments.format,
        copy=arguments.copy,
        class_names=label_map.texts_by_id if label_map else None,
    )
    aside = sum(map(len, made.rejected.values()))
    written = ", ".join(made.files.values())
    lines = [
        f"found: {made.layout.format}: {made.layout.evidence}",
        f"{made.images:,} images, {made.objects:,} objects in {arguments.output}: {written}",
    ]
    if aside:
        lines.append(f"{aside:,} put aside, listed in {QUARANTINE.path(arguments.output)}")
    data = {
        "format": made.layout.format,
        "images": made.images,
        "objects": made.objects,
        "annotations": {split: files.join(arguments.output, name) for split, name in made.files.items()},
        "quarantined": aside,
    }
    return Result(text="\n".join(lines), data=data)


GROUP = Group(
    name="data", summary="Look at data sets and convert them.", verbs=(report, labels, preview, convert)
)
