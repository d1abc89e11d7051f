"""Whether DataValidator's memory stays flat, and how fast it reads: simulated images with many boxes.

    python -m benchmarks.data_validation [--images 100000] [--boxes 100] [--part 1000]

Files of records are made, read as by a worker of Beam, merged with those before, and removed. After each
tenth, a line has the memory of the process, the bytes that a worker sends, and images per second of processor
time. The digests and hashes of 49 bytes an image are the only part that grows.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import pickle
import tempfile
import time
from pathlib import Path

import numpy as np
from PIL import Image

from benchmarks.results import add_keep, keep
from detection_core.data.encode import EncodedImage, encode_example, serialise
from detection_core.data.label_map import label_map_from_names
from detection_core.data.record_format import write_record
from detection_core.datasets.encoding import find_decoding
from detection_core.training.memory import peak_host_memory
from detection_core.validation.split_pass import DataPass, PassOptions, RecordPart

CLASSES = [f"class {number}" for number in range(80)]


def make_record(number: int, boxes: int, random: np.random.Generator) -> bytes:
    """Return the record of an image of 64 x 48 pixels with random boxes."""
    stream = io.BytesIO()
    blobs = random.integers(0, 255, (6, 8, 3), dtype=np.uint8)
    Image.fromarray(blobs).resize((64, 48), Image.Resampling.BICUBIC).save(stream, "JPEG")
    digest = hashlib.sha256(stream.getvalue()).hexdigest()
    first, sides = random.uniform(0, 0.8, (2, boxes)), random.uniform(0.01, 0.2, (2, boxes))
    labels = random.geometric(0.1, boxes) % len(CLASSES)
    corners = {"ymin": first[0], "xmin": first[1], "ymax": first[0] + sides[0], "xmax": first[1] + sides[1]}
    columns = {f"image/object/bbox/{name}": values.tolist() for name, values in corners.items()}
    columns["image/object/class/label"] = (labels + 1).tolist()
    columns["image/object/class/text"] = [CLASSES[label] for label in labels]
    image = EncodedImage(
        data=stream.getvalue(),
        sha256=digest,
        format="jpeg",
        height=48,
        width=64,
        filename=f"folder {number % 9}/{number}.jpg",
        source_id=f"image {number}",
    )
    return serialise(encode_example(image, columns))


def main() -> None:
    """Simulate and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--images", type=int, default=100_000)
    parser.add_argument("--boxes", type=int, default=100, help="of an image")
    parser.add_argument("--part", type=int, default=1_000, help="images of a file")
    add_keep(parser)
    given = parser.parse_args()
    random, seconds, rows = np.random.default_rng(0), 0.0, []
    labels, decoding = label_map_from_names(CLASSES), find_decoding("sample")
    images = {"train": given.images}
    options = PassOptions(label_map=labels, images=images, spans=(), decoding=decoding, hashes=True)
    whole = DataPass(options)
    with tempfile.TemporaryDirectory() as folder:
        for start in range(0, given.images, given.part):
            path = Path(folder) / f"{start}.tfrecord"
            with path.open("wb") as file:
                for number in range(start, start + given.part):
                    write_record(file, make_record(number, given.boxes, random))
            part = RecordPart("train", str(path), start)
            began = time.process_time()
            sent = pickle.dumps(DataPass(options).merge(DataPass(options).read(part)))
            whole.merge(pickle.loads(sent))
            seconds += time.process_time() - began
            path.unlink()
            end = start + given.part
            if end % max(given.part, given.images // 10) == 0:
                row = {
                    "boxes": f"{end * given.boxes:,}",
                    "peak memory, MB": round(peak_host_memory() / 1e6),
                    "one part, MB": round(len(sent) / 1e6, 1),
                    "all parts, MB": round(len(pickle.dumps(whole)) / 1e6, 1),
                    "images a second of processor time": round(end / seconds),
                }
                print(", ".join(f"{name}: {value}" for name, value in row.items()), flush=True)
                rows.append(row)
    keep(given.keep, rows)


if __name__ == "__main__":
    main()
