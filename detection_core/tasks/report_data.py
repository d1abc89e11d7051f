"""A page about a folder of examples: the data in numbers and charts, samples, and what is wrong with them."""

from __future__ import annotations

import dataclasses
import logging
from collections import Counter
from collections.abc import Iterator, Mapping

from detection_core.artifacts.anchor_matches import ANCHOR_MATCHES, AnchorMatches
from detection_core.artifacts.box_profile import BOX_PROFILES, BoxProfiles
from detection_core.artifacts.data_findings import FINDINGS, DataFindings
from detection_core.artifacts.dataset_card import CARD, ClassCard, DatasetCard, SplitCard, Totals
from detection_core.artifacts.message_files import LABEL_MAP
from detection_core.artifacts.pictures import FOLDER
from detection_core.artifacts.quarantine import QUARANTINE
from detection_core.builders.configured_model import configured_model
from detection_core.config.input_paths import split_pattern
from detection_core.config.label_map_file import load_label_map
from detection_core.config.num_classes import with_classes
from detection_core.config.pipeline_config import PipelineConfig
from detection_core.data.label_map import LabelMap
from detection_core.datasets.box_counter import BoxCounter
from detection_core.datasets.decoding import find_decoding
from detection_core.progress import Progress
from detection_core.report.data_findings import FindingsSummary
from detection_core.report.dataset import DatasetSummary, embed_samples
from detection_core.report.figures import anchor_charts, anchor_maps
from detection_core.report.page import render
from detection_core.report.pictures import PictureBudget
from detection_core.storage import files
from detection_core.tasks.examples import check_split
from detection_core.tasks.validate_data import ValidationFolders, ValidationOptions, validate_examples
from detection_core.validation.anchor_comparison import SAMPLED, match_anchors
from detection_core.validation.checks import make_limits
from detection_core.validation.labelled_images import LabelledImage, read_split, split_names
from detection_core.validation.network_view import BoxSample, NetworkView, SampledBoxes

_logger = logging.getLogger(__name__)

PAGE = "index.html"
_PICTURE_BYTES = 12_000_000
_NEAR_DUPLICATE_IMAGES = 1_000_000


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
    examples_dir: str, folder: str, *, title: str = "", config: PipelineConfig | None = None
) -> DataReport:
    """Write a page about examples, with the artifacts that it is made from.

    Args:
        examples_dir: what ExampleGen wrote, of any version.
        folder: gets index.html, dataset_card.json, box_profile.json, quarantine.jsonl, findings.json,
            box_statistics.json and pictures/; pictures of an earlier report are removed.
        title: of the page, such as the path of the data.
        config: that a detector is to be trained by: its network's size and its anchors are held against the
            boxes; None: they are not.

    Raises:
        DataError: when examples are missing or damaged.
    """
    for path in (files.join(folder, FOLDER), ANCHOR_MATCHES.path(folder)):
        files.remove_tree(path)
    folders = ValidationFolders(statistics=folder, schema=folder, anomalies=folder)
    options = ValidationOptions(
        limits=make_limits({}),
        decoding=find_decoding("sample"),
        near_duplicate_images=_NEAR_DUPLICATE_IMAGES,
    )
    label_map = load_label_map(files.join(examples_dir, LABEL_MAP))
    if config is not None:
        config = with_classes(config, label_map.num_classes)
    findings = validate_examples(examples_dir, config, "", options, folders)
    card, profiles, boxes = _survey(examples_dir, label_map)
    anchors = _match_anchors(config, boxes, folder) if config is not None else None
    CARD.write(folder, card)
    BOX_PROFILES.write(folder, profiles)
    quarantined = QUARANTINE.read_whole_lines(examples_dir)
    QUARANTINE.write(folder, quarantined)
    samples, smallest = embed_samples(folder, PictureBudget(_PICTURE_BYTES))
    summary = DatasetSummary(
        card=card,
        quarantined=quarantined,
        folder=folder,
        profiles=profiles,
        samples=samples,
        smallest=smallest,
    )
    validation = FindingsSummary(found=FINDINGS.read(folder), folder=folder)
    page = files.join(folder, PAGE)
    context = {
        "title": title,
        "dataset": summary,
        "validation": validation,
        "anchors": anchors,
        "anchor_charts": anchor_charts(anchors) if anchors else [],
        "anchor_maps": anchor_maps(anchors) if anchors else [],
    }
    files.write_text(page, render("data_report_page.html", context))
    return DataReport(page=page, card=card, findings=findings)


def _match_anchors(
    config: PipelineConfig, boxes: Mapping[str, SampledBoxes], folder: str
) -> AnchorMatches | None:
    """Write how well the anchors of a config fit boxes; None for a family without anchors."""
    model = configured_model(config)
    anchors = model.anchors()
    if anchors is None:
        return None
    matches = match_anchors(boxes, NetworkView(resizer=model.build_resizer(), anchors=anchors))
    if matches is not None:
        ANCHOR_MATCHES.write(folder, matches)
    return matches


def _survey(
    examples_dir: str, label_map: LabelMap
) -> tuple[DatasetCard, BoxProfiles, dict[str, SampledBoxes]]:
    """Read every example once, and count what the examples' own files may lack."""
    splits = {split: check_split(examples_dir, split) for split in split_names(examples_dir)}
    boxes = {split: BoxCounter() for split in splits}
    counts = {split: _ClassCounter() for split in splits}
    drawn = {split: BoxSample(SAMPLED) for split in splits}
    with Progress("survey", total=sum(splits.values()), unit="image") as progress:
        for split in splits:
            for image in read_split(split_pattern(examples_dir, split), label_map):
                boxes[split].add(list(_pixel_boxes(image)), image.width, image.height)
                counts[split].add(image)
                drawn[split].add(image)
                progress.advance()
    profiles = BoxProfiles(splits={split: counter.profile() for split, counter in boxes.items()})
    card = CARD.find(examples_dir)
    sampled = {split: sample.drawn() for split, sample in drawn.items()}
    return card or _counted_card(label_map, counts), profiles, sampled


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
