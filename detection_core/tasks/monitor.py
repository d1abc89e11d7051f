"""The verb `monitor`: compare what a served detector finds with what it found when it was evaluated."""

import hashlib

from detection_core.artifacts.detection_statistics import (
    DETECTION_STATISTICS,
    MONITORING,
    DetectionStatistics,
    Monitoring,
)
from detection_core.artifacts.detector import find_extra, find_model
from detection_core.errors import ConfigError, ContractError
from detection_core.report.page import MONITORING_PAGE, monitoring_page
from detection_core.storage import files
from detection_core.tasks.monitoring.served_log import ServedLog
from detection_core.validation.detection_drift import compare_detections, describe_detections, from_score
from detection_core.validation.drift import LEAST_IMAGES


def monitor(
    model_path: str, log_path: str, folder: str, *, min_score: float | None = None, false_alarms: float = 0.01
) -> Monitoring:
    """Compare served detections with the statistics that were published beside a model.

    Args:
        model_path: a push destination, or a published model.
        log_path: file or folder, see `monitoring.served_log`.
        folder: gets monitoring.json and index.html. It may have those of an earlier comparison.
        min_score: only detections from this score on are compared; None: as the statistics count them.
        false_alarms: share of comparisons without drift that may report drift.

    Raises:
        ConfigError: for a minimum score that the statistics do not count, or a share out of range.
        ContractError: if there are no statistics beside the model.
        DataError: if there is no log.
    """
    if not 0 < false_alarms < 1:
        raise ConfigError(f"expected a share between 0 and 1, found {false_alarms:g}", where="false_alarms")
    statistics, digest = _read_statistics(model_path)
    if min_score is not None:
        statistics = from_score(statistics, min_score)
    classes = statistics.of_detections["class"].bins
    log = ServedLog(len(classes))
    log.read(log_path)
    images = log.images()
    fewest = min(len(images), len(statistics.detections))
    compared = []
    if fewest >= LEAST_IMAGES:
        served = describe_detections(images, classes, min_score=statistics.min_score)
        compared = compare_detections(served, statistics, false_alarms=false_alarms)
    earlier = MONITORING.find_usable(folder)
    found = Monitoring(
        model=model_path,
        statistics=digest,
        images=len(images),
        left_out=dict(log.left_out),
        compared=compared,
        not_judged="" if compared else f"{fewest:,} images; log and split need {LEAST_IMAGES}",
        triggered=bool(earlier and earlier.statistics == digest and earlier.triggered),
    )
    files.make_dirs(folder)
    MONITORING.write(folder, found)
    files.write_text(files.join(folder, MONITORING_PAGE), monitoring_page(found))
    return found


def _read_statistics(model_path: str) -> tuple[DetectionStatistics, str]:
    """Return a model's statistics, and a digest of them."""
    path = find_extra(find_model(model_path), DETECTION_STATISTICS.name)
    if path is None:
        raise ContractError(
            f"expected {DETECTION_STATISTICS.name} beside the model, found none;"
            f" {DETECTION_STATISTICS.remedy}",
            where=model_path,
        )
    text = files.read_text(path)
    return DETECTION_STATISTICS.parse(text, path), hashlib.sha256(text.encode()).hexdigest()[:16]
