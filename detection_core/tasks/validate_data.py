"""Validate examples: compute statistics, find problems, and decide whether they may be trained on."""

import dataclasses
import itertools
import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from detection_core.artifacts.box_profile import ANCHOR_MATCHES, BOX_PROFILES, BoxProfiles
from detection_core.artifacts.data_findings import FINDINGS, DataFindings, Finding
from detection_core.artifacts.data_statistics import STATISTICS, DataStatistics, SampleStatistics
from detection_core.artifacts.dataset_card import CARD, QUARANTINE
from detection_core.artifacts.detector import LABEL_MAP, extra_file
from detection_core.artifacts.pictures import FOLDER
from detection_core.builders.detector import configured_model
from detection_core.capabilities import capability, has_capability
from detection_core.config.check import check_detector
from detection_core.config.label_map_file import load_label_map
from detection_core.config.model_fields import with_classes
from detection_core.config.pipeline_config import PipelineConfig
from detection_core.data.label_map import LabelMap
from detection_core.datasets.encoding import Decoding
from detection_core.errors import ContractError
from detection_core.report.data_page import PAGE, SAMPLE_BYTES, data_page
from detection_core.storage import files
from detection_core.storage.shard_cache import RecordFile
from detection_core.tasks.examples import count_split
from detection_core.validation.checks import FindingList, Limits, check_classes
from detection_core.validation.drift import check_differences
from detection_core.validation.duplicates import check_copies, check_duplicates
from detection_core.validation.labelled_images import LabelledImage, read_some, split_names
from detection_core.validation.network_view import NetworkView, check_boxes_at_input, match_anchors
from detection_core.validation.sample_pictures import complete_examples
from detection_core.validation.split_pass import (
    DataPass,
    FolderCounters,
    PassOptions,
    RecordPart,
    SplitPass,
    counted_card,
    read_all,
)

_TFDV, _NEAR_DUPLICATES = "detection_core.optional.tfdv", "detection_core.optional.near_duplicates"
_NOT_INSTALLED = "this installation does not have it"
_logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ValidationOptions:
    """Options of the validation.

    Attributes:
        limits: limits of the checks.
        decoding: which images are decoded.
        near_duplicate_images: largest number of images for the near-duplicate search, which decodes all of
            them.
        schema: text of the schema for the columns of every split; "": inferred from `train`.
        earlier_spans: span to statistics, of earlier spans, oldest first.
        title: title of the page.
        sample_bytes: largest size of the samples on the page.
    """

    limits: Limits
    decoding: Decoding
    near_duplicate_images: int
    schema: str = ""
    earlier_spans: Mapping[str, SampleStatistics] = dataclasses.field(default_factory=dict)
    title: str = ""
    sample_bytes: int = SAMPLE_BYTES


@dataclasses.dataclass(frozen=True, kw_only=True)
class ValidationFolders:
    """Output folders.

    Attributes:
        statistics: folder for box_statistics.json and each split's FeatureStats.pb.
        schema: folder for schema.pbtxt.
        anomalies: folder for the page, index.html, and its sources findings.json, dataset_card.json,
            box_profile.json, anchor_matches.json, quarantine.jsonl and pictures/. Also for each split's
            SchemaDiff.pb.
    """

    statistics: str
    schema: str
    anomalies: str


GatherParts = Callable[[Sequence[RecordPart], PassOptions], DataPass]
"""Passes over all parts, in whatever processes."""


def validate_examples(
    examples_dir: str,
    config: PipelineConfig | None,
    baseline_dir: str,
    options: ValidationOptions,
    folders: ValidationFolders,
    suspected: Sequence[Finding] = (),
    gather: GatherParts = read_all,
) -> DataFindings:
    """Read every example once and report problems.

    Without a training config, checks that depend on the detector are skipped. `baseline_dir` is the deployed
    detector; "" if there is none. `suspected` are findings of others, which get ids and pictures, too.
    `gather` passes over the examples.

    Raises:
        ConfigError: for a config that no detector can be built from.
        DataError: if examples are missing or damaged.
    """
    label_map = load_label_map(files.join(examples_dir, LABEL_MAP))
    counts = {split: count_split(examples_dir, split) for split in split_names(examples_dir)}
    splits = {split: sum(of_files.values()) for split, of_files in counts.items()}
    findings = FindingList(options.limits)
    hashes = _wants_hashes(sum(splits.values()), options, findings)
    gathered = gather(_parts(counts), _wanted(examples_dir, label_map, splits, options, hashes))
    passes = {split: gathered.splits[split] for split in splits}
    statistics = _statistics(passes, gathered.folders, label_map)
    view = _view(config, label_map, findings)
    check_classes(statistics.splits, label_map.names, findings)
    _check_all(passes, view, findings)
    if has_capability(_TFDV):
        features = {split: found.features.statistics() for split, found in passes.items()}
        written_to = (folders.statistics, folders.schema, folders.anomalies)
        capability(_TFDV).check_schema(features, options.schema, label_map.names, written_to, findings)
    else:
        findings.not_made("schema", _NOT_INSTALLED)
    check_differences(statistics, options.earlier_spans, _baseline_statistics(baseline_dir), findings)

    def read(split: str, numbers: Collection[int]) -> Iterator[LabelledImage]:
        return read_some(counts[split], label_map, numbers)

    files.remove_tree(files.join(folders.anomalies, FOLDER))
    found = DataFindings(
        findings=complete_examples(
            [*suspected, *findings.findings()], read, label_map.names, folders.anomalies
        ),
        checks={finding.check: finding.severity for finding in suspected} | findings.outcomes(),
        images=splits,
        decoded=sum(split.files.decoded for split in passes.values()),
    )
    gathered.pictures.write(folders.anomalies, read)
    STATISTICS.write(folders.statistics, statistics)
    FINDINGS.write(folders.anomalies, found)
    _write_page(examples_dir, passes, (label_map, view), options, folders.anomalies)
    for finding in found.findings:
        _logger.warning("validate | %s | %s", finding.severity, finding.message)
    return found


def _parts(counts: Mapping[str, Mapping[RecordFile, int]]) -> list[RecordPart]:
    return [
        RecordPart(split, file, start)
        for split, of_files in counts.items()
        for file, start in zip(of_files, itertools.accumulate(of_files.values(), initial=0), strict=False)
    ]


def _statistics(
    passes: Mapping[str, SplitPass], folders: FolderCounters, label_map: LabelMap
) -> DataStatistics:
    spans = passes["train"].spans if "train" in passes else {}
    return DataStatistics(
        classes=label_map.names,
        splits={split: found.images.statistics() for split, found in passes.items()},
        spans={span: counter.statistics() for span, counter in spans.items()},
        folders=folders.statistics(),
    )


def _write_page(
    examples_dir: str,
    passes: Mapping[str, SplitPass],
    known: tuple[LabelMap, NetworkView | None],
    options: ValidationOptions,
    folder: str,
) -> None:
    label_map, view = known
    splits = {split: found.card() for split, found in passes.items()}
    CARD.write(folder, CARD.find(examples_dir) or counted_card(label_map, splits))
    profiles = {split: found.profile.profile() for split, found in passes.items()}
    BOX_PROFILES.write(folder, BoxProfiles(splits=profiles))
    QUARANTINE.write(folder, QUARANTINE.read_whole_lines(examples_dir))
    boxes = {split: found.boxes.drawn() for split, found in passes.items()}
    matches = match_anchors(boxes, view) if view else None
    if matches is None:
        files.remove_tree(ANCHOR_MATCHES.path(folder))
    else:
        ANCHOR_MATCHES.write(folder, matches)
    page = data_page(folder, title=options.title, sample_bytes=options.sample_bytes)
    files.write_text(files.join(folder, PAGE), page)


def _wanted(
    examples_dir: str,
    label_map: LabelMap,
    images: Mapping[str, int],
    options: ValidationOptions,
    hashes: bool,
) -> PassOptions:
    card = CARD.find(examples_dir)
    return PassOptions(
        label_map=label_map,
        images=images,
        spans=tuple(card.spans.get("train", ())) if card else (),
        decoding=options.decoding,
        hashes=hashes,
    )


def _wants_hashes(images: int, options: ValidationOptions, findings: FindingList) -> bool:
    checks = [check for check in ("near_leakage", "near_duplicates") if findings.is_on(check)]
    reason, most = "" if has_capability(_NEAR_DUPLICATES) else _NOT_INSTALLED, options.near_duplicate_images
    if not reason and images > most:
        reason = f"{images:,} images are more than validation.near_duplicate_images, {most:,}"
    for check in checks if reason else ():
        findings.not_made(check, reason)
    return bool(checks) and not reason


def _view(config: PipelineConfig | None, label_map: LabelMap, findings: FindingList) -> NetworkView | None:
    """Return how the network sees images; None if no check needs it, or it is unknown."""
    if config is None:
        for check in ("tiny_boxes", "unmatched_boxes"):
            findings.not_made(check, "no pipeline.config was given")
        return None
    if not findings.is_on("tiny_boxes") and not findings.is_on("unmatched_boxes"):
        return None
    model = configured_model(check_detector(with_classes(config, label_map.num_classes)))
    anchors = model.anchors() if findings.is_on("unmatched_boxes") else None
    return NetworkView(resizer=model.build_resizer(), anchors=anchors)


def _check_all(passes: Mapping[str, SplitPass], view: NetworkView | None, findings: FindingList) -> None:
    by_record = {split: found.by_record() for split, found in passes.items()}
    digests, objects, hashes = ({split: row[n] for split, row in by_record.items()} for n in range(3))
    copies = check_duplicates(digests, findings)
    check_copies([pair for pairs in copies.values() for pair in pairs], objects, findings)
    if any(hashes.values()):
        capability(_NEAR_DUPLICATES).check_near_copies(hashes, copies, findings)
    for split, found in passes.items():
        found.annotations.report(split, findings)
        found.files.report(split, findings)
        if view:
            check_boxes_at_input(split, found.boxes.drawn(), view, findings)


def _baseline_statistics(baseline_dir: str) -> DataStatistics | None:
    """Return the statistics of a detector's training data; None if not recorded."""
    if not baseline_dir:
        return None
    path = extra_file(baseline_dir, STATISTICS.name)
    try:
        return STATISTICS.parse(files.read_text(path), path) if files.exists(path) else None
    except ContractError as error:
        _logger.warning("validate | the deployed model's statistics are left out: %s", error)
        return None
