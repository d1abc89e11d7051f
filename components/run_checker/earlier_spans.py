"""Earlier spans that a run compares its newest span with."""

from __future__ import annotations

import hashlib
import json

from component_specs import RunCheckerJob
from component_specs.example_gen import SPLITS, Spans, span_order
from detection_core.storage import files
from detection_core.validation.span_history import span_digests, span_names

FOLDER = "spans"
"""Folder in the working folder, whose other folders belong to trainings."""


def span_folder(job: RunCheckerJob, spans: Spans) -> str:
    """Return the folder for span statistics of a job with filled placeholders; "" if none can be stored."""
    if not spans.train or not job.work_dir or not job.compared_spans:
        return ""
    # Another data set, or other splits of it, has other spans.
    asked = json.dumps([job.data_path, job.data_format, SPLITS.encode(job.splits), job.label_map])
    return files.join(job.work_dir, FOLDER, hashlib.sha256(asked.encode()).hexdigest()[:16])


def earlier_spans(job: RunCheckerJob, spans: Spans) -> dict[str, str]:
    """Return the last spans before the run's spans, oldest first, each with a digest.

    A repeated run gets the same result, because the span that it added is not earlier.
    """
    folder = span_folder(job, spans)
    if not folder:
        return {}
    first = span_order(spans.train[0])
    kept = sorted((name for name in span_names(folder) if span_order(name)), key=span_order)
    return span_digests(folder, [span for span in kept if span_order(span) < first][-job.compared_spans :])
