"""Provenance of a TensorFlow Lite file: detflow.json in the archive at its end, beside the labels.

It is the archive of TensorFlow Lite's metadata for associated files, so every reader still loads the file. It
contains no time and no path: the same checkpoint gives the same bytes.
"""

import dataclasses
import io
import zipfile
from collections.abc import Mapping
from typing import Any

from detection_core.artifacts.json_file import JsonFile
from detection_core.artifacts.json_values import OMIT_DEFAULT
from detection_core.artifacts.tflite_file import verify_tflite
from detection_core.artifacts.tflite_metadata import (
    archived_text,
    find_description,
    open_archive,
    with_score_threshold,
)

ZIP_TIME = (1980, 1, 1, 0, 0, 0)
"""A zip entry has a time; a fixed one keeps equal models byte-identical."""
METRIC_DIGITS = 4


@dataclasses.dataclass(frozen=True, kw_only=True)
class Provenance:
    """The content of detflow.json.

    Attributes:
        written_by: program and version that wrote the file.
        model: name of the detector.
        format: format of the file, such as `int8`.
        quantization: `none`, `aware` (quantization-aware training) or `post_training`.
        made_from: source network: `float` or `quantization_aware`, in any file format.
        float_layers: layers deliberately kept in float32.
        config_hash: hash of the training's pipeline.config, independent of paths in it.
        data_fingerprint: fingerprint of the training examples' content.
        trained_as: name of the training, derived from config, data and initial weights.
        split: split of the metrics.
        metrics: COCO metrics of this file in LiteRT, to four digits; None for no value.
    """

    written_by: str = ""
    model: str = ""
    format: str = ""
    quantization: str = ""
    made_from: str = ""
    float_layers: tuple[str, ...] = dataclasses.field(default=(), metadata=OMIT_DEFAULT)
    config_hash: str = ""
    data_fingerprint: str = ""
    trained_as: str = ""
    split: str = ""
    metrics: Mapping[str, float | None] = dataclasses.field(default_factory=dict)


def provenance_of_training(extra: Mapping[str, Any]) -> Provenance:
    """Return the provenance in a detector's `DetectorInfo.extra`; early detectors have fewer entries."""
    return Provenance(
        config_hash=str(extra.get("config_hash", "")),
        data_fingerprint=str(extra.get("data_fingerprint", "")),
        trained_as=str(extra.get("trained_as", "")),
    )


PROVENANCE = JsonFile(
    name="detflow.json",
    content=Provenance,
    writer="TFLiteExporter",
    remedy="export the file again",
    sort_keys=True,
)


def with_provenance(content: bytes, provenance: Provenance) -> bytes:
    """Return the file with its provenance in the archive at its end, replacing an existing one.

    Raises:
        ModelError: when it is not a TensorFlow Lite file, or its archive is damaged.
    """
    rounded = {
        name: None if value is None else round(value, METRIC_DIGITS)
        for name, value in provenance.metrics.items()
    }
    text = PROVENANCE.format(dataclasses.replace(provenance, metrics=rounded))
    model, entries = _parts(content)
    return model + archive(entries | {PROVENANCE.name: text.encode()})


def unmeasured(content: bytes) -> bytes:
    """Return the file as before it was measured: without provenance, and with score threshold 0.

    The model, other metadata and labels stay. A file without provenance is returned unchanged. Errors are
    those of `with_provenance`.
    """
    if PROVENANCE.name.encode() not in content:
        return content
    model, entries = _parts(content)
    if PROVENANCE.name not in entries:
        return content
    del entries[PROVENANCE.name]
    described = find_description(content)
    if described and described.score_threshold:
        model = with_score_threshold(model, 0.0)
    return model + (archive(entries) if entries else b"")


def read_provenance(content: bytes, *, where: str = "") -> Provenance | None:
    """Read the provenance; None if there is none, as in files of other programs.

    Raises:
        ModelError: when it is not a TensorFlow Lite file, or its archive is damaged.
        ContractError: when the provenance is invalid or of a newer version.
    """
    verify_tflite(content, where=where)
    text = archived_text(content, PROVENANCE.name, where=where)
    return None if text is None else PROVENANCE.parse(text, where)


def _parts(content: bytes) -> tuple[bytes, dict[str, bytes]]:
    """Split a file into the model and the entries of its archive."""
    verify_tflite(content)
    if not zipfile.is_zipfile(io.BytesIO(content)):
        return content, {}
    with open_archive(content) as found:
        infos = found.infolist()
        start = min((info.header_offset for info in infos), default=found.start_dir)
        return content[:start], {info.filename: found.read(info) for info in infos}


def archive(entries: Mapping[str, bytes]) -> bytes:
    """Return an archive for a file's end with this content of each name."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as written:
        for name, data in entries.items():
            written.writestr(zipfile.ZipInfo(name, ZIP_TIME), data)
    return stream.getvalue()
