"""The dataset card: what is in the examples, in numbers."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

from component_specs.example_gen import Spans
from components.example_gen.decoding import DECODINGS, Decoding
from components.example_gen.quarantine import Quarantine, count_reasons
from components.example_gen.spans import NO_SPANS
from components.example_gen.tally import BOX_SIDES, Tally
from detection_core.data.label_map import LabelMap

_TOTALS = (
    "images",
    "empty_images",
    "objects",
    "crowd",
    "difficult",
    "truncated",
    "clipped_boxes",
    "converted_images",
    "decoded_images",
    "image_bytes",
)


def make_card(
    data_format: str,
    label_map: LabelMap,
    tallies: Mapping[str, Tally],
    shards: Mapping[str, int],
    quarantine: Quarantine,
    spans: Spans = NO_SPANS,
    decoding: Decoding = DECODINGS["sample"],
) -> dict[str, Any]:
    """Describe the examples. Nothing in it depends on time, place or machine.

    Args:
        data_format: of the source.
        label_map: of the examples.
        tallies: split name to counts.
        shards: split name to number of files.
        quarantine: split name to the records that were put aside.
        spans: that the examples are made of; a card of data without spans does not speak of them.
        decoding: how many images were decoded, and by what.
    """
    every = Tally()
    for tally in tallies.values():
        every.merge(tally)
    rejected = [rejection for rejections in quarantine.values() for rejection in rejections]
    images = every.counts["total"]["images"]
    records = images + len(rejected)
    return {
        "format": data_format,
        "classes": [
            {"id": class_id, "name": label_map.names[class_id - 1], "objects": count}
            for class_id, count in _count_classes(every, label_map).items()
        ],
        "splits": {
            name: {
                "shards": shards[name],
                **_describe(tally, label_map),
                "quarantined": count_reasons(quarantine.get(name, ())),
            }
            for name, tally in tallies.items()
        },
        "total": {name: every.counts["total"][name] for name in _TOTALS},
        "decoding": {
            "images": every.counts["total"]["decoded_images"],
            "fraction": every.counts["total"]["decoded_images"] / images,
            "decoders": list(decoding.decoders),
        },
        "quarantine": {
            "records": len(rejected),
            "fraction": len(rejected) / records,
            "reasons": count_reasons(rejected),
        },
        "images_in_two_splits": _shared_images(tallies),
        **({"spans": {name: list(spans.of(name)) for name in tallies}} if spans.all() else {}),
    }


def _describe(tally: Tally, label_map: LabelMap) -> dict[str, Any]:
    return {
        **{name: tally.counts["total"][name] for name in _TOTALS},
        "formats": dict(sorted(tally.counts["formats"].items())),
        "classes": {
            label_map.names[class_id - 1]: count
            for class_id, count in _count_classes(tally, label_map).items()
        },
        "box_areas_px": {size: tally.counts["box_areas"][size] for size in ("small", "medium", "large")},
        "box_sides_of_image": {
            "up_to": BOX_SIDES,
            "objects": [tally.counts["box_sides"][str(edge)] for edge in BOX_SIDES],
        },
        **{
            name: {"min": least, "mean": round(total / count, 3), "max": most}
            for name, (count, total, least, most) in sorted(tally.ranges.items())
        },
    }


def _count_classes(tally: Tally, label_map: LabelMap) -> dict[int, int]:
    """Return class id to objects; annotations may call a class by any of its names."""
    counts = {item.id: 0 for item in label_map.items}
    for name, count in tally.counts["classes"].items():
        counts[label_map.ids_by_text[name]] += count
    return counts


def _shared_images(tallies: Mapping[str, Tally]) -> int:
    """Count the images whose bytes occur in more than one split: what is learnt there is measured there."""
    seen = Counter(digest for tally in tallies.values() for digest in set(tally.digests))
    return sum(1 for count in seen.values() if count > 1)


def format_card(card: Mapping[str, Any]) -> str:
    """Return the text of dataset_card.json."""
    return json.dumps(card, indent=1, allow_nan=False) + "\n"
