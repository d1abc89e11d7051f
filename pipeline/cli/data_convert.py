"""The verb that converts a data set."""

from __future__ import annotations

import argparse

from pipeline.cli.base import Result, Verb, argument
from pipeline.cli.data_source import format_argument


def convert(arguments: argparse.Namespace) -> Result:
    """Write a data set in another format."""
    from detection_core.artifacts.dataset_card import QUARANTINE
    from detection_core.config.label_map_file import find_label_map
    from detection_core.datasets.dataset_conversion import convert_to_coco
    from detection_core.storage import files

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


CONVERT = Verb(
    name="convert",
    summary="Write a data set of any format as COCO JSON with its images.",
    example="detflow data convert photos -o build/coco",
    arguments=(
        argument("data", metavar="DATA", help="folder of a data set, or its address on an object store"),
        argument("-o", "--output", required=True, metavar="DIR", help="folder to make"),
        argument("--to", default="coco", choices=("coco",), help="format to write (default: coco)"),
        format_argument,
        argument("--copy", action="store_true", help="copy image files that could be linked (default: link)"),
    ),
    command=convert,
)
