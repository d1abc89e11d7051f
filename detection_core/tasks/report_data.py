"""Write a page about a folder of examples: statistics, charts, samples and findings."""

import dataclasses
from collections.abc import Sequence

from detection_core.artifacts.data_findings import DataFindings, Finding
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
    """The report's HTML page, the statistics of the data and its problems."""

    page: str
    card: DatasetCard
    findings: DataFindings


def report_examples(
    examples_dir: str,
    folder: str,
    *,
    title: str = "",
    config: CheckedConfig | None = None,
    suspected: Sequence[Finding] = (),
) -> DataReport:
    """Write a page about examples and the artifacts behind it, as DataValidator does.

    Args:
        examples_dir: output of ExampleGen, of any version.
        folder: gets index.html, dataset_card.json, box_profile.json, quarantine.jsonl, findings.json,
            box_statistics.json, pictures/, and schema and statistics of columns. An earlier report is
            replaced.
        title: title of the page, such as the path of the data.
        config: training config whose network size and anchors are compared with the boxes; None: no
            comparison.
        suspected: findings of other programs to list and draw first.

    Raises:
        DataError: if examples are missing or damaged.
    """
    folders = ValidationFolders(statistics=folder, schema=folder, anomalies=folder)
    options = ValidationOptions(
        limits=make_limits({}),
        decoding=find_decoding("sample"),
        near_duplicate_images=_NEAR_DUPLICATE_IMAGES,
        title=title,
        sample_bytes=_SAMPLE_BYTES,
    )
    findings = validate_examples(examples_dir, config, "", options, folders, suspected)
    return DataReport(page=files.join(folder, PAGE), card=CARD.read(folder), findings=findings)
