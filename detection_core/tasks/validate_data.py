"""Validate examples: statistics of them, what is wrong with them, and whether they may be trained on."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterator

from detection_core.artifacts.data_findings import FINDINGS, DataFindings
from detection_core.artifacts.data_statistics import STATISTICS, DataStatistics
from detection_core.artifacts.message_files import LABEL_MAP
from detection_core.config.input_paths import split_pattern
from detection_core.config.label_map_file import load_label_map
from detection_core.progress import Progress
from detection_core.storage import files
from detection_core.tasks.examples import check_split
from detection_core.validation.box_statistics import SampleCounter
from detection_core.validation.checks import FindingList, Limits
from detection_core.validation.class_balance import check_classes
from detection_core.validation.duplicates import DigestList, check_duplicates
from detection_core.validation.found_examples import complete_examples
from detection_core.validation.labelled_images import LabelledImage, read_split, split_names

_logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ValidationFolders:
    """Where the results go.

    Attributes:
        statistics: folder for box_statistics.json.
        anomalies: folder for findings.json and pictures.
    """

    statistics: str
    anomalies: str


def validate_examples(examples_dir: str, limits: Limits, folders: ValidationFolders) -> DataFindings:
    """Look at every example once, without decoding its pixels, and say what is wrong.

    Args:
        examples_dir: what ExampleGen wrote.
        limits: the checks as they are to be made.
        folders: to fill.

    Raises:
        DataError: when examples are missing or damaged.
    """
    label_map = load_label_map(files.join(examples_dir, LABEL_MAP))
    splits = {split: check_split(examples_dir, split) for split in split_names(examples_dir)}

    def read(split: str) -> Iterator[LabelledImage]:
        return read_split(split_pattern(examples_dir, split), label_map)

    findings = FindingList(limits)
    counters = {split: SampleCounter(label_map.names) for split in splits}
    digests = {split: DigestList() for split in splits}
    with Progress("validate", total=sum(splits.values()), unit="image") as progress:
        for split in splits:
            for image in read(split):
                counters[split].add(image)
                digests[split].add(image.sha256)
                progress.advance()
    statistics = DataStatistics(
        classes=label_map.names, splits={split: counter.statistics() for split, counter in counters.items()}
    )
    check_classes(statistics.splits, label_map.names, findings)
    check_duplicates(digests, findings)
    found = DataFindings(
        findings=complete_examples(findings.findings(), read, label_map.names, folders.anomalies),
        checks=findings.outcomes(),
        images=splits,
    )
    STATISTICS.write(folders.statistics, statistics)
    FINDINGS.write(folders.anomalies, found)
    for finding in found.findings:
        _logger.warning("validate | %s | %s", finding.severity, finding.message)
    return found
