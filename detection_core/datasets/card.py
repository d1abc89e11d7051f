"""The dataset card, statistics of the examples, and the quarantine, the list of rejected annotations."""

import dataclasses
import itertools
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from detection_core.artifacts import dataset_card
from detection_core.data.label_map import LabelMap
from detection_core.datasets.annotated_images import Rejection
from detection_core.datasets.counts import BOX_SIDES, Counts
from detection_core.datasets.encoding import DECODINGS, Decoding
from detection_core.errors import DataError
from detection_core.storage import files

_TOTALS = tuple(field.name for field in dataclasses.fields(dataset_card.Totals))


def make_card(
    data_format: str,
    label_map: LabelMap,
    counts: Mapping[str, Counts],
    shards: Mapping[str, int],
    quarantine: "Quarantine",
    decoding: Decoding = DECODINGS["sample"],
    spans: Mapping[str, Sequence[str]] | None = None,
    unannotated: str = "",
) -> dataset_card.DatasetCard:
    """Describe the examples. The result does not depend on time, path or machine.

    `shards` are numbers of files; `spans` is None for data without spans. `unannotated` is the treatment of
    images without annotations.
    """
    described = {
        name: _describe(split, label_map, shards[name], count_reasons(quarantine.get(name, ())))
        for name, split in counts.items()
    }
    total = dataset_card.Totals(
        **{name: sum(getattr(split, name) for split in described.values()) for name in _TOTALS}
    )
    rejected = sum(map(len, quarantine.values()))
    digests = Counter(digest for split in counts.values() for digest in set(split.digests))
    return dataset_card.DatasetCard(
        format=data_format,
        classes=[
            dataset_card.ClassCard(
                id=item, name=name, objects=sum(split.classes[name] for split in described.values())
            )
            for item, name in ((c + 1, label_map.names[c]) for c in label_map.classes)
        ],
        splits=described,
        total=total,
        decoding=dataset_card.DecodingCard(
            images=total.decoded_images,
            fraction=total.decoded_images / total.images,
            decoders=list(decoding.decoders),
        ),
        quarantine=dataset_card.QuarantineCard(
            records=rejected,
            fraction=rejected / (total.images + rejected),
            reasons=count_reasons(itertools.chain.from_iterable(quarantine.values())),
        ),
        images_in_two_splits=sum(count > 1 for count in digests.values()),
        spans={name: list(found) for name, found in (spans or {}).items()},
        unannotated=unannotated if total.unannotated_images else "",
    )


def _describe(
    split: Counts, label_map: LabelMap, shards: int, quarantined: Mapping[str, int]
) -> dataset_card.SplitCard:
    totals: dict[str, Any] = {name: split.counts["total"][name] for name in _TOTALS}
    classes = {item.id: 0 for item in label_map.items}
    for name, count in split.counts["classes"].items():  # annotations may use any name of a class
        classes[label_map.ids_by_text[name]] += count
    ranges: dict[str, Any] = {
        name: dataset_card.Range(min=least, mean=round(total / count, 3), max=most)
        for name, (count, total, least, most) in split.ranges.items()
    }
    return dataset_card.SplitCard(
        shards=shards,
        **totals,
        formats=dict(sorted(split.counts["formats"].items())),
        classes={label_map.names[class_id - 1]: count for class_id, count in classes.items()},
        box_areas_px=dataset_card.BoxAreas(**split.counts["box_areas"]),
        box_sides_of_image=dataset_card.BoxSides(
            up_to=list(BOX_SIDES), objects=[split.counts["box_sides"][str(edge)] for edge in BOX_SIDES]
        ),
        **ranges,
        quarantined=quarantined,
    )


Quarantine = Mapping[str, Collection[Rejection]]
"""Split name to its rejections."""


def write_quarantine(path: str, quarantine: Quarantine) -> None:
    """Write one JSON object per line: split, file, record, reason, detail."""
    entries = (
        dataset_card.QuarantinedEntry(split=split, **rejection._asdict())
        for split, rejections in sorted(quarantine.items())
        for rejection in rejections
    )
    files.write_text(path, dataset_card.QUARANTINE.format(entries))


def count_reasons(rejections: Iterable[Rejection]) -> dict[str, int]:
    """Return reason to count, the most frequent first."""
    counts = Counter(rejection.reason for rejection in rejections)
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def check_limit(
    quarantine: Quarantine,
    annotated: int,
    limit: float,
    list_path: str,
    *,
    remedy: str = "mend the data or raise data.quarantine_limit",
) -> None:
    """Stop the run if more than `limit`, a fraction of the annotated images, is in quarantine.

    The list is then written to `list_path`, outside the output folder, which is not created.

    Raises:
        DataError: with counts, reasons and the path of the list.
    """
    count = sum(map(len, quarantine.values()))
    if count <= limit * annotated:
        return
    write_quarantine(list_path, quarantine)
    rejected = itertools.chain.from_iterable(quarantine.values())
    first = next(rejected)
    by_reason = count_reasons(itertools.chain([first], rejected))
    reasons = ", ".join(f"{reason} {number}" for reason, number in list(by_reason.items())[:5])
    raise DataError(
        f"expected at most {limit:.2%} of the images in quarantine, found {count} of {annotated} "
        f"({count / annotated:.2%}): {reasons}; the first is {first.file} ({first.record}): "
        f"{first.detail}. Every one is in this list; {remedy}",
        where=list_path,
    )
