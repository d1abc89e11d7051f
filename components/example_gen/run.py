"""ExampleGen: converts images and annotations to sharded records, a label map and a dataset card."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import logging
from typing import Any

from component_specs import ExampleGenJob
from component_specs.annotations import encode_parameters
from component_specs.example_gen import SPANS, Spans
from components.example_gen.data_search import find_data, fingerprint
from components.example_gen.ingestion import Dataset, gather, read_dataset
from components.example_gen.shards import WORK, read_reports, shard_settings, write_manifests, write_tasks
from components.example_gen.spans import SpanQuery, resolve_spans
from components.example_gen.transforms import write_shards
from detection_core.artifacts.box_profile import BOX_PROFILES, BoxProfiles
from detection_core.artifacts.dataset_card import CARD, QUARANTINE
from detection_core.artifacts.detector import LABEL_MAP
from detection_core.config.label_map_file import load_label_map
from detection_core.data.label_map import format_label_map
from detection_core.datasets.annotation_frame import check_exif_annotations
from detection_core.datasets.card import make_card
from detection_core.datasets.classes import similar_names
from detection_core.datasets.encoding import Decoding, find_decoding
from detection_core.datasets.image_files import BACKGROUND, LEAVE_OUT, check_unannotated_images
from detection_core.datasets.quarantine import check_limit, write_quarantine
from detection_core.errors import ConfigError
from detection_core.storage import files

_logger = logging.getLogger(__name__)


def run(job: ExampleGenJob) -> dict[str, Any]:
    """Write the examples folder atomically.

    Returns:
        The content of dataset_card.json.

    Raises:
        ConfigError: for an invalid parameter.
        DataError: if the data cannot be used, or too much of it is in quarantine.
    """
    decoding = _check_parameters(job)
    label_map = load_label_map(job.label_map) if job.label_map else None
    spans = _spans(job)
    shard_folder = _shard_folder(job, spans)
    job = _with_format(job, spans)
    dataset = read_dataset(
        job.data_path, job.data_format, job.splits, label_map, spans, job.unannotated_images
    )
    list_path = f"{job.examples.rstrip('/')}.{QUARANTINE.name}"
    annotated = dataset.annotated
    check_limit(dataset.rejected, annotated, job.quarantine_limit, list_path)
    with files.atomic_dir(job.examples) as folder:
        tasks = _write_tasks(job, dataset, folder, shard_folder)
        write_shards(
            {path: count for paths in tasks.values() for path, count in paths.items()}, job.beam_args
        )
        counts, quarantine = gather(dataset, read_reports(folder)), dataset.rejected
        check_limit(quarantine, annotated, job.quarantine_limit, list_path)
        shards = {name: len(paths) for name, paths in tasks.items()}
        of_splits = {name: spans.of(name) for name in counts} if spans.all() else None
        card = make_card(job.data_format, dataset.label_map, counts, shards, quarantine, decoding, of_splits)
        if card.total.unannotated_images:
            unannotated = BACKGROUND if dataset.background else LEAVE_OUT
            card = dataclasses.replace(card, unannotated=unannotated)
        write_quarantine(QUARANTINE.path(folder), quarantine)
        files.write_text(files.join(folder, LABEL_MAP), format_label_map(dataset.label_map))
        CARD.write(folder, card)
        profiles = {name: split.boxes.profile() for name, split in counts.items()}
        BOX_PROFILES.write(folder, BoxProfiles(splits=profiles))
        if shard_folder:
            write_manifests(folder, read_reports(folder))
        files.remove_tree(files.join(folder, WORK))
    files.remove_tree(list_path)
    total = card.total
    put_aside = ", ".join(f"{n} {reason}" for reason, n in card.quarantine.reasons.items()) or "nothing"
    _logger.info("ingest | %d images, %d objects | quarantined: %s", total.images, total.objects, put_aside)
    for names in similar_names(item.name for item in dataset.label_map.items):
        _logger.warning("ingest | classes whose names differ only in case or blanks: %s", str(names)[1:-1])
    if card.unannotated == LEAVE_OUT:
        _logger.warning(
            "ingest | %d images without annotations are left out; data.unannotated_images: background keeps"
            " them as images without objects",
            total.unannotated_images,
        )
    if card.images_in_two_splits:
        _logger.warning("ingest | %d images are in more than one split", card.images_in_two_splits)
    return CARD.encode(card)


def _with_format(job: ExampleGenJob, spans: Spans) -> ExampleGenJob:
    """Return the job with the detected format and folder, if the settings leave them open."""
    path, data_format = find_data(job.data_path, job.data_format, job.splits, spans)
    if data_format != job.data_format:
        _logger.info("ingest | found: %s in %s", data_format, path)
    return dataclasses.replace(job, data_path=path, data_format=data_format)


def _spans(job: ExampleGenJob) -> Spans:
    """Return the spans that RunChecker resolved, or the newest ones."""
    if job.spans.all():
        return job.spans
    return resolve_spans(job.data_path, job.splits, SpanQuery())


def _check_parameters(job: ExampleGenJob) -> Decoding:
    """Check the ranges of values; return how images are decoded."""
    if not 0 <= job.quarantine_limit <= 1:
        raise ConfigError(f"expected 0 to 1, found {job.quarantine_limit}", where="quarantine_limit")
    decoding = find_decoding(job.decode_images)
    check_exif_annotations(job.exif_annotations)
    check_unannotated_images(job.unannotated_images)
    if job.shard_examples < 1:
        raise ConfigError(f"expected 1 or more, found {job.shard_examples}", where="shard_examples")
    return decoding


def _shard_folder(job: ExampleGenJob, spans: Spans) -> str:
    """Return the folder of shards outside the artifact, named by a hash of their inputs."""
    if not job.shards_uri:
        return ""
    made_from = encode_parameters(job)
    for name in ("beam_args", "shards_uri"):
        del made_from[name]
    if not job.data_fingerprint:
        made_from["data_fingerprint"] = fingerprint(job.data_path, job.data_format, job.splits, spans)
    made_from["spans"] = SPANS.encode(spans)
    files.exists(job.shards_uri)  # fail early if the store cannot be reached
    name = hashlib.sha256(json.dumps(made_from, sort_keys=True).encode()).hexdigest()[:24]
    return files.join(job.shards_uri, name)


def _write_tasks(
    job: ExampleGenJob, dataset: Dataset, folder: str, shard_folder: str
) -> dict[str, dict[str, int]]:
    """Write the tasks; return, by split, task path to number of records."""
    settings = shard_settings(
        dataset.label_map.ids_by_text,
        job.compression,
        shard_folder,
        job.decode_images,
        dataset.keypoint_names,
        job.exif_annotations,
    )
    return {
        name: write_tasks(folder, name, records, job.shard_examples, settings)
        for name, records in dataset.splits.items()
    }
