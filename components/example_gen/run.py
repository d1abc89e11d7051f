"""ExampleGen: converts images and annotations to sharded records, a label map and a dataset card."""

import dataclasses
import functools
import hashlib
import json
import logging
from typing import Any

from component_specs import ExampleGenJob
from component_specs.annotations import encode_parameters
from components.example_gen import shards
from components.example_gen.file_reading import on_workers
from components.example_gen.ingestion import gather, read_dataset
from components.example_gen.sources import InputData, SpanQuery, find_data, fingerprint, resolve_spans
from detection_core.artifacts.box_profile import BOX_PROFILES, BoxProfiles
from detection_core.artifacts.dataset_card import CARD, QUARANTINE
from detection_core.artifacts.detector import LABEL_MAP
from detection_core.config.label_map_file import load_label_map
from detection_core.data.label_map import LabelMap, format_label_map
from detection_core.datasets.card import check_limit, make_card, write_quarantine
from detection_core.datasets.encoding import DECODINGS
from detection_core.datasets.image_files import BACKGROUND, CHOICES, LEAVE_OUT
from detection_core.datasets.layouts import check_splits
from detection_core.datasets.shapes import FRAMES
from detection_core.errors import ConfigError
from detection_core.ops.tile_options import tile_options
from detection_core.storage import files

_logger = logging.getLogger(__name__)

_LEFT_OUT = (
    "ingest | %d images without annotations are left out; data.unannotated_images: background keeps them as"
    " images without objects"
)


def run(job: ExampleGenJob) -> dict[str, Any]:
    """Write the examples folder atomically.

    Returns:
        The content of dataset_card.json.

    Raises:
        ConfigError: for an invalid parameter.
        DataError: if the data cannot be used, or too much of it is in quarantine.
    """
    data, label_map, shard_folder = _plan(job)
    list_path = f"{job.examples.rstrip('/')}.{QUARANTINE.name}"
    with files.atomic_dir(job.examples) as folder:
        spread = functools.partial(on_workers, folder=folder, beam_args=job.beam_args)
        dataset = read_dataset(data, label_map, job.unannotated_images, spread)
        annotated = dataset.annotated
        check_limit(dataset.rejected, annotated, job.quarantine_limit, list_path)
        settings = shards.ShardSettings(
            label_ids=dataset.label_map.ids_by_text,
            compression=job.compression,
            shards=shard_folder,
            decode=job.decode_images,
            keypoint_names=dataset.keypoint_names,
            exif_annotations=job.exif_annotations,
            tiles=job.tiles,
        )
        tasks = {
            name: shards.write_tasks(folder, name, images, job.shard_examples, settings)
            for name, images in dataset.splits.items()
        }
        shards.write_shards({path: n for paths in tasks.values() for path, n in paths.items()}, job.beam_args)
        counts, quarantine = gather(dataset, shards.read_reports(folder)), dataset.rejected
        check_limit(quarantine, annotated, job.quarantine_limit, list_path)
        card = make_card(
            data.format,
            dataset.label_map,
            counts,
            {name: len(paths) for name, paths in tasks.items()},
            quarantine,
            DECODINGS[job.decode_images],
            data.spans_by_split,
            BACKGROUND if dataset.background else LEAVE_OUT,
        )
        write_quarantine(QUARANTINE.path(folder), quarantine)
        files.write_text(files.join(folder, LABEL_MAP), format_label_map(dataset.label_map))
        CARD.write(folder, card)
        profiles = {name: split.boxes.profile() for name, split in counts.items()}
        BOX_PROFILES.write(folder, BoxProfiles(splits=profiles))
        if shard_folder:
            shards.write_manifests(folder, shards.read_reports(folder))
        files.remove_tree(files.join(folder, shards.WORK))
    files.remove_tree(list_path)
    total = card.total
    put_aside = ", ".join(f"{n} {reason}" for reason, n in card.quarantine.reasons.items()) or "nothing"
    _logger.info("ingest | %d images, %d objects | quarantined: %s", total.images, total.objects, put_aside)
    if card.unannotated == LEAVE_OUT:
        _logger.warning(_LEFT_OUT, total.unannotated_images)
    if card.images_in_two_splits:
        _logger.warning("ingest | %d images are in more than one split", card.images_in_two_splits)
    return CARD.encode(card)


def _check_parameters(job: ExampleGenJob) -> None:
    if not 0 <= job.quarantine_limit <= 1:
        raise ConfigError(f"expected 0 to 1, found {job.quarantine_limit}", where="quarantine_limit")
    if job.shard_examples < 1:
        raise ConfigError(f"expected 1 or more, found {job.shard_examples}", where="shard_examples")
    choices = {
        "decode_images": (job.decode_images, DECODINGS),
        "exif_annotations": (job.exif_annotations, FRAMES),
        "unannotated_images": (job.unannotated_images, CHOICES),
        "compression": (job.compression, shards.SUFFIXES),
    }
    for name, (value, known) in choices.items():
        if value not in known:
            raise ConfigError(f"expected one of {list(known)}, found {value!r}", where=name)
    tile_options(job.tiles)


def _plan(job: ExampleGenJob) -> tuple[InputData, LabelMap | None, str]:
    """Check the job; return its data, the given label map, and the folder of shards; "": the artifact's."""
    _check_parameters(job)
    splits = check_splits(job.splits)
    label_map = load_label_map(job.label_map) if job.label_map else None
    # RunChecker has resolved the spans; else take the newest.
    spans = job.spans if job.spans.all() else resolve_spans(job.data_path, splits, SpanQuery())
    data = find_data(job.data_path, job.data_format, splits, spans)
    if data.format != job.data_format:
        _logger.info("ingest | found: %s in %s", data.format, data.path)
    shard_folder = ""
    if job.shards_uri:
        # Named by a hash of everything that the shards are made from.
        known = job.data_fingerprint or fingerprint(data)
        made_from = encode_parameters(dataclasses.replace(job, spans=spans, data_fingerprint=known))
        for name in ("beam_args", "shards_uri"):
            del made_from[name]
        files.exists(job.shards_uri)  # fail early if the store cannot be reached
        digest = hashlib.sha256(json.dumps(made_from, sort_keys=True).encode())
        shard_folder = files.join(job.shards_uri, digest.hexdigest()[:24])
    return data, label_map, shard_folder
