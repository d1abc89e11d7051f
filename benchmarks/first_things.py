"""How long the ten things take that people do first, each with the command of docs/first-things.md.

    python -m benchmarks.first_things DATA_SET --work FOLDER --keep first_things

The data set is a folder that `detflow init` reads. Every command runs in a separate process, one after the
other, as it stands on the page. The video is made of the data set's images.
"""

from __future__ import annotations

import argparse
import dataclasses
import glob
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from benchmarks.results import add_keep, keep
from detection_core.optional.video.video_writer import video_writer

ROOT = Path(__file__).resolve().parents[1]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Thing:
    """A thing that people do first.

    Attributes:
        to: the purpose.
        ultralytics: command or Python of Ultralytics' documentation.
        model_maker: Python of TFLite Model Maker's or the Task Library's documentation; "-": not there.
        detflow: our command.
    """

    to: str
    ultralytics: str
    model_maker: str
    detflow: str


THINGS = (
    Thing(
        to="look at a data set and get a config",
        ultralytics="data.yaml, by hand",
        model_maker="DataLoader.from_pascal_voc('images', 'annotations', label_map)",
        detflow="detflow init photos -o mine",
    ),
    Thing(
        to="train, quantize, convert to TensorFlow Lite and check the files",
        ultralytics="yolo train data=data.yaml model=yolo11n.pt epochs=100",
        model_maker="object_detector.create(train_data, spec, val_data, epochs=50)",
        detflow="detflow run mine/settings.yaml",
    ),
    Thing(
        to="resume after an interruption (here nothing is left to do)",
        ultralytics="yolo train resume model=last.pt",
        model_maker="-",
        detflow="detflow run mine/settings.yaml",
    ),
    Thing(
        to="measure the detector on the evaluation images",
        ultralytics="yolo val model=best.pt data=data.yaml",
        model_maker="model.evaluate(val_data)",
        detflow="detflow evaluate --model mine/workspace/pushed --examples mine/workspace --output tested",
    ),
    Thing(
        to="detect in a folder of images",
        ultralytics="yolo predict model=best.pt source=new_photos",
        model_maker="ObjectDetector.create_from_file('model.tflite').detect(image), for each image",
        detflow="detflow predict --model mine/workspace/pushed new_photos --output found",
    ),
    Thing(
        to="follow objects through a video",
        ultralytics="yolo track model=best.pt source=clip.mp4",
        model_maker="-",
        detflow="detflow predict --model mine/workspace/pushed clip.mp4 --track --output tracked",
    ),
    Thing(
        to="write other files for devices",
        ultralytics="yolo export model=best.pt format=tflite half=True",
        model_maker="model.export('.', quantization_config=QuantizationConfig.for_float16())",
        detflow="detflow run mine/settings.yaml --set export.formats=[float32,int8,float16]",
    ),
    Thing(
        to="measure a converted file",
        ultralytics="yolo val model=best_int8.tflite data=data.yaml",
        model_maker="model.evaluate_tflite('model.tflite', val_data)",
        detflow="detflow evaluate --model mine/workspace/pushed/tflite/*/model_int8.tflite"
        " --examples mine/workspace --output tested_int8",
    ),
    Thing(
        to="time the files",
        ultralytics="yolo benchmark model=best.pt data=data.yaml",
        model_maker="-",
        detflow="detflow bench mine/workspace/pushed/tflite/*",
    ),
    Thing(
        to="label new images with the detector, to correct them in CVAT",
        ultralytics="auto_annotate(data='new_photos', det_model='best.pt')",
        model_maker="-",
        detflow="detflow predict --model mine/workspace/pushed new_photos --format cvat --output labels",
    ),
)


def words_of(thing: Thing, folder: str) -> list[str]:
    """Return the words of a command after `detflow`; a pattern becomes its newest match in the folder."""

    def expanded(word: str) -> str:
        return max(glob.glob(word, root_dir=folder)) if "*" in word else word

    return [expanded(word) for word in shlex.split(thing.detflow)[1:]]


def lay_out(data_set: str, folder: str, *, images: int = 72, frames: int = 100) -> None:
    """Make photos, new_photos (its last images) and clip.mp4, a pan over one of them.

    Args:
        data_set: a folder with JPEG or PNG images anywhere below it.
        folder: where to make them.
        images: number of images in new_photos.
        frames: number of frames of the video, at 25 a second.
    """
    os.symlink(os.path.abspath(data_set), os.path.join(folder, "photos"))
    new_photos = Path(folder, "new_photos")
    new_photos.mkdir()
    found = sorted(path for path in Path(data_set).rglob("*") if path.suffix in {".jpg", ".png"})
    for path in found[-images:]:
        (new_photos / path.name).symlink_to(path.resolve())
    with Image.open(found[-1]) as image, video_writer(os.path.join(folder, "clip.mp4"), rate=25) as video:
        picture = np.asarray(image.convert("RGB"))
        width = picture.shape[1] * 3 // 4
        for frame in range(frames):
            left = (picture.shape[1] - width) * frame // frames
            video.write(picture[:, left : left + width], frame / 25)


def run_in_turn(folder: str, run: Callable[[Sequence[str]], object]) -> list[dict[str, str]]:
    """Call `run` with the words of each command, and return the rows of the table."""
    rows = []
    for thing in THINGS:
        start = time.monotonic()
        run(words_of(thing, folder))
        took = time.monotonic() - start
        rows.append(
            {
                "to": thing.to,
                "Ultralytics": _code(thing.ultralytics),
                "Model Maker": _code(thing.model_maker),
                "detflow": _code(thing.detflow),
                "our time": f"{took / 60:.0f} min" if took > 100 else f"{took:.0f} s",
            }
        )
        print(f"{rows[-1]['our time']:>8}  {thing.detflow}", flush=True)
    return rows


def _code(text: str) -> str:
    return text if text == "-" else f"`{text}`"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data_set")
    parser.add_argument("--work", required=True, help="folder to make")
    add_keep(parser)
    arguments = parser.parse_args()
    os.makedirs(arguments.work)
    lay_out(arguments.data_set, arguments.work)
    path = os.pathsep.join((str(ROOT), str(ROOT / "pipeline" / "api")))
    environment = {**os.environ, "PYTHONPATH": path, "TF_CPP_MIN_LOG_LEVEL": "3"}

    def run(words: Sequence[str]) -> None:
        command = [sys.executable, "-P", "-m", "pipeline.cli", *words]
        with open(os.path.join(arguments.work, "log.txt"), "a", encoding="utf-8") as log:
            subprocess.run(
                command, cwd=arguments.work, env=environment, check=True, stdout=log, stderr=subprocess.STDOUT
            )

    keep(arguments.keep, run_in_turn(arguments.work, run))
    return 0


if __name__ == "__main__":
    sys.exit(main())
