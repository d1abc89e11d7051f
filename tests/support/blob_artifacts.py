"""Examples and detector folders of the scenes in `blobs`, as ExampleGen and Trainer lay them out."""

import io
import json
from pathlib import Path

from PIL import Image

from detection_core.data.label_map import format_label_map, label_map_from_names
from tests.support.blobs import save
from tests.support.record_files import example, write_records

PER_CATEGORY = "eval_config { include_metrics_per_category: true }"
LABELS = label_map_from_names(["red", "green"])


def write_examples(folder: Path, split: str, images) -> None:
    """Write scenes as PNG, so that pixels stay as they are."""
    (folder / f"Split-{split}").mkdir(parents=True)
    records = []
    for image, truth in images:
        stream = io.BytesIO()
        Image.fromarray(image).save(stream, "PNG")
        fields = {
            "image/encoded": [stream.getvalue()],
            "image/format": [b"png"],
            "image/height": [image.shape[0]],
            "image/width": [image.shape[1]],
            "image/source_id": [truth.source_id.encode()],
            "image/filename": [truth.source_id.encode()],
            "image/object/class/label": [int(c) + 1 for c in truth.classes],
            "image/object/class/text": [LABELS.names[c].encode() for c in truth.classes],
        }
        for i, name in enumerate(("ymin", "xmin", "ymax", "xmax")):
            fields[f"image/object/bbox/{name}"] = truth.boxes[:, i].tolist()
        records.append(example(fields))
    write_records(folder / f"Split-{split}" / "examples-00000-of-00001.tfrecord", records)
    (folder / "label_map.pbtxt").write_text(format_label_map(LABELS))
    (folder / "dataset_card.json").write_text(json.dumps({"splits": {split: {"images": len(images)}}}))


def save_model(detector, folder: Path, names=LABELS.names, config: str = "") -> str:
    """Save a detector with a label map and a config; return its folder."""
    save(detector, folder / "Format-Serving")
    extra = folder / "Format-Serving" / "assets.extra" / "detflow"
    extra.mkdir(parents=True)
    (extra / "label_map.pbtxt").write_text(format_label_map(label_map_from_names(list(names))))
    (extra / "pipeline.config").write_text(config)
    return str(folder)
