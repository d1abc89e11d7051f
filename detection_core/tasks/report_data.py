"""A page about a folder of examples: the data in numbers and charts, samples, and what is wrong with them."""

from __future__ import annotations

import dataclasses
import logging
from collections import Counter
from collections.abc import Iterator

from detection_core.artifacts.box_profile import BOX_PROFILES, BoxProfiles
from detection_core.artifacts.data_findings import FINDINGS, DataFindings
from detection_core.artifacts.dataset_card import CARD, ClassCard, DatasetCard, SplitCard, Totals
from detection_core.artifacts.message_files import LABEL_MAP
from detection_core.artifacts.pictures import FOLDER, list_pictures
from detection_core.artifacts.quarantine import QUARANTINE
from detection_core.config.input_paths import split_pattern
from detection_core.config.label_map_file import load_label_map
from detection_core.data.label_map import LabelMap
from detection_core.datasets.box_counter import BoxCounter
from detection_core.progress import Progress
from detection_core.report.data_findings import FindingsSummary
from detection_core.report.dataset import DatasetSummary
from detection_core.report.page import render
from detection_core.report.pictures import Picture, PictureBudget
from detection_core.storage import files
from detection_core.tasks.examples import check_split
from detection_core.tasks.validate_data import ValidationFolders, validate_examples
from detection_core.validation.checks import Limits, make_limits
from detection_core.validation.labelled_images import LabelledImage, read_split, split_names
from detection_core.validation.sample_pictures import SAMPLE, SMALLEST, SamplePictures

_logger = logging.getLogger(__name__)

PAGE = "index.html"
_PICTURE_BYTES = 12_000_000


@dataclasses.dataclass(frozen=True, kw_only=True)
class DataReport:
    """What was written.

    Attributes:
        page: the HTML file.
        card: the data in numbers.
        findings: what is wrong with them.
    """

    page: str
    card: DatasetCard
    findings: DataFindings


def report_examples(
    examples_dir: str, folder: str, *, title: str = "", limits: Limits | None = None
) -> DataReport:
    """Write a page about examples, with the artifacts that it is made from.

    Args:
        examples_dir: what ExampleGen wrote, of any version.
        folder: gets index.html, dataset_card.json, box_profile.json, quarantine.jsonl, findings.json,
            box_statistics.json and pictures/; pictures of an earlier report are removed.
        title: of the page, such as the path of the data.
        limits: of the checks; None: as they are without settings.

    Raises:
        DataError: when examples are missing or damaged.
    """
    files.remove_tree(files.join(folder, FOLDER))
    folders = ValidationFolders(statistics=folder, anomalies=folder)
    findings = validate_examples(examples_dir, limits or make_limits({}), folders)
    label_map = load_label_map(files.join(examples_dir, LABEL_MAP))
    card, profiles = _survey(examples_dir, label_map, folder)
    CARD.write(folder, card)
    BOX_PROFILES.write(folder, profiles)
    quarantined = QUARANTINE.read_whole_lines(examples_dir)
    QUARANTINE.write(folder, quarantined)
    pictures = _embedded(folder)
    summary = DatasetSummary(
        card=card,
        quarantined=quarantined,
        folder=folder,
        profiles=profiles,
        samples={name: pictures[SAMPLE, name] for name in label_map.names if (SAMPLE, name) in pictures},
        smallest=[picture for (kind, _), shown in pictures.items() if kind == SMALLEST for picture in shown],
    )
    validation = FindingsSummary(found=FINDINGS.read(folder), folder=folder)
    page = files.join(folder, PAGE)
    files.write_text(
        page, render("data_report_page.html", {"title": title, "dataset": summary, "validation": validation})
    )
    return DataReport(page=page, card=card, findings=findings)


def _survey(examples_dir: str, label_map: LabelMap, folder: str) -> tuple[DatasetCard, BoxProfiles]:
    """Read every example once, draw samples, and count what the examples' own files lack."""
    splits = {split: check_split(examples_dir, split) for split in split_names(examples_dir)}
    boxes = {split: BoxCounter() for split in splits}
    counts = {split: _ClassCounter() for split in splits}
    samples = SamplePictures(label_map.names)
    with Progress("survey", total=sum(splits.values()), unit="image") as progress:
        for split in splits:
            for image in read_split(split_pattern(examples_dir, split), label_map):
                boxes[split].add(list(_pixel_boxes(image)), image.width, image.height)
                counts[split].add(image)
                samples.add(split, image)
                progress.advance()
    samples.write(folder)
    profiles = BoxProfiles(splits={split: counter.profile() for split, counter in boxes.items()})
    card = CARD.find(examples_dir)
    return card or _counted_card(label_map, counts), profiles


def _pixel_boxes(image: LabelledImage) -> Iterator[tuple[float, float, float, float]]:
    for (ymin, xmin, ymax, xmax), crowd in zip(image.boxes.tolist(), image.is_crowd, strict=True):
        if not crowd:
            yield xmin * image.width, ymin * image.height, xmax * image.width, ymax * image.height


class _ClassCounter:
    """Counts what a card says at least, for examples that have none."""

    def __init__(self) -> None:
        self.images = self.empty = 0
        self.classes: Counter[int] = Counter()

    def add(self, image: LabelledImage) -> None:
        self.images += 1
        self.empty += not len(image.classes)
        self.classes.update(image.classes.tolist())

    def card(self, label_map: LabelMap) -> SplitCard:
        classes = {name: self.classes[label] for label, name in enumerate(label_map.names)}
        return SplitCard(
            images=self.images, empty_images=self.empty, objects=self.classes.total(), classes=classes
        )


def _counted_card(label_map: LabelMap, counts: dict[str, _ClassCounter]) -> DatasetCard:
    total: Counter[int] = sum((counter.classes for counter in counts.values()), Counter())
    return DatasetCard(
        format="TFRecord",
        classes=[
            ClassCard(id=label + 1, name=name, objects=total[label])
            for label, name in enumerate(label_map.names)
        ],
        splits={split: counter.card(label_map) for split, counter in counts.items()},
        total=Totals(
            images=sum(c.images for c in counts.values()),
            empty_images=sum(c.empty for c in counts.values()),
            objects=total.total(),
        ),
    )


def _embedded(folder: str) -> dict[tuple[str, str], list[Picture]]:
    """Return (kind, caption) to pictures, as many as the page has room for."""
    budget = PictureBudget(_PICTURE_BYTES)
    found: dict[tuple[str, str], list[Picture]] = {}
    for entry in list_pictures(folder):
        picture = budget.embed_one(entry)
        if picture is not None:
            found.setdefault((entry.kind, entry.caption), []).append(picture)
    return found
