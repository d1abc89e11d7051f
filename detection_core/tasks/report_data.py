"""A page about a folder of examples: the data in numbers and charts, samples, and what is wrong with them."""

from __future__ import annotations

import dataclasses

from detection_core.artifacts.data_findings import DataFindings
from detection_core.artifacts.dataset_card import CARD, DatasetCard
from detection_core.config.pipeline_config import CheckedConfig
from detection_core.datasets.encoding import find_decoding
from detection_core.report.data_page import PAGE
from detection_core.storage import files
from detection_core.tasks.validate_data import ValidationFolders, ValidationOptions, validate_examples
from detection_core.validation.checks import make_limits

_SAMPLE_BYTES = 12_000_000
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
    examples_dir: str, folder: str, *, title: str = "", config: CheckedConfig | None = None
) -> DataReport:
    """Write a page about examples, with the artifacts that it is made from, as DataValidator writes them.

    Args:
        examples_dir: what ExampleGen wrote, of any version.
        folder: gets index.html, dataset_card.json, box_profile.json, quarantine.jsonl, findings.json,
            box_statistics.json, pictures/, and schema and statistics of columns; what an earlier report has
            written is replaced.
        title: of the page, such as the path of the data.
        config: that a detector is to be trained by: its network's size and its anchors are held against the
            boxes; None: they are not.

    Raises:
        DataError: when examples are missing or damaged.
    """
    folders = ValidationFolders(statistics=folder, schema=folder, anomalies=folder)
    options = ValidationOptions(
        limits=make_limits({}),
        decoding=find_decoding("sample"),
        near_duplicate_images=_NEAR_DUPLICATE_IMAGES,
        title=title,
        sample_bytes=_SAMPLE_BYTES,
    )
    findings = validate_examples(examples_dir, config, "", options, folders)
    return DataReport(page=files.join(folder, PAGE), card=CARD.read(folder), findings=findings)
