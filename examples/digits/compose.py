"""Compose detection scenes from the scanned handwritten digits that ship inside scikit-learn.

    python examples/digits/compose.py build/digits
    python examples/digits/compose.py build/digits/shapes --shapes

The 1,797 scans of 8x8 pixels are composed to JPEG scenes, with COCO JSON beside them. Size, background,
contrast, scale, overlap and clutter vary; some scenes are empty:

    OUT/train.json  OUT/eval.json  OUT/test.json  OUT/images/SPLIT/000000.jpg  OUT/manifest.json

`--shapes` adds masks and keypoints. All digits then have the class `digit`, as keypoints belong to one class.

No network is used, no scan appears in two splits, and the same seed gives the same bytes. The folder appears
whole or not at all; a finished one is not changed.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import fcntl
import hashlib
import io
import json
import os
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

SPLITS = {"train": 0.70, "eval": 0.15, "test": 0.15}
"""Share of the scans that each split draws its digits from."""

EMPTY_SCENES = 0.05
INK = 0.4
"""Opacity from which a pixel counts as ink when the box is drawn around it."""
KEYPOINTS = ("top", "right", "bottom", "left")
EDGE = 0.15
"""Share of the box's rows or columns whose ink a keypoint is the middle of."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class SceneOptions:
    """How many scenes of which kind.

    Attributes:
        train: scenes in the train split.
        eval: scenes in the eval split.
        test: scenes in the test split.
        seed: another seed gives other scenes, and another assignment of scans to splits.
        shapes: write masks and keypoints, of the one class `digit`.
    """

    train: int = 1600
    eval: int = 150
    test: int = 150
    seed: int = 7
    shapes: bool = False


@dataclasses.dataclass(frozen=True)
class Digit:
    """One digit placed in a scene.

    Attributes:
        digit: 0..9.
        box: of the ink in pixels, (x, y, width, height).
        ink: bool [height, width], its pixels inside the box, those under other digits included.
    """

    digit: int
    box: tuple[int, int, int, int]
    ink: np.ndarray


def _luminance(colour: np.ndarray) -> float:
    return float(colour @ np.array([0.299, 0.587, 0.114]))


def _ink_colour(rng: np.random.Generator, background: np.ndarray) -> np.ndarray:
    """Draw a colour that stands out from the background in brightness, darker or lighter."""
    while True:
        colour = rng.uniform(0, 255, 3)
        if abs(_luminance(colour) - _luminance(background)) > 90:
            return colour


def _flat(rng: np.random.Generator, height: int, width: int) -> np.ndarray:
    return np.zeros((height, width))


def _gradient(rng: np.random.Generator, height: int, width: int) -> np.ndarray:
    angle = rng.uniform(0, 2 * np.pi)
    rows, columns = np.mgrid[0:height, 0:width]
    ramp = np.cos(angle) * columns / width + np.sin(angle) * rows / height
    return (ramp - ramp.mean()) * rng.uniform(30, 70)


def _noise(rng: np.random.Generator, height: int, width: int) -> np.ndarray:
    return rng.normal(0, rng.uniform(4, 14), (height, width))


def _clouds(rng: np.random.Generator, height: int, width: int) -> np.ndarray:
    cells = rng.integers(3, 12)
    coarse = Image.fromarray(rng.normal(0, 1, (cells, cells)).astype(np.float32))
    return np.asarray(coarse.resize((width, height), Image.Resampling.BICUBIC)) * rng.uniform(8, 20)


def _stripes(rng: np.random.Generator, height: int, width: int) -> np.ndarray:
    angle, period = rng.uniform(0, np.pi), rng.uniform(6, 30)
    rows, columns = np.mgrid[0:height, 0:width]
    return np.sin((np.cos(angle) * columns + np.sin(angle) * rows) * 2 * np.pi / period) * rng.uniform(5, 14)


BACKGROUNDS = {"flat": _flat, "gradient": _gradient, "noise": _noise, "clouds": _clouds, "stripes": _stripes}


def _clutter(rng: np.random.Generator, canvas: Image.Image, background: np.ndarray) -> None:
    """Draw filled blobs and zigzag strokes: things with edges that are no digits."""
    draw = ImageDraw.Draw(canvas)
    width, height = canvas.size
    for _ in range(rng.integers(1, 6)):
        colour = np.clip(background + rng.uniform(-70, 70, 3), 0, 255).astype(int)
        x, y = rng.uniform(0, width), rng.uniform(0, height)
        if rng.random() < 0.5:
            rx, ry = rng.uniform(3, 0.12 * width), rng.uniform(3, 0.12 * height)
            draw.ellipse((x - rx, y - ry, x + rx, y + ry), fill=tuple(colour))
            continue
        reach = rng.uniform(0.1, 0.4) * min(width, height)
        points = [(x, y)]
        for _ in range(rng.integers(2, 5)):
            points.append(
                (points[-1][0] + rng.uniform(-reach, reach), points[-1][1] + rng.uniform(-reach, reach))
            )
        draw.line(points, fill=tuple(colour), width=int(rng.integers(1, 4)))


def opacity_of(rng: np.random.Generator, scan: np.ndarray, size: int) -> np.ndarray:
    """Enlarge an 8x8 scan to an opacity map of about `size` pixels a side, slightly turned and squeezed."""
    padded = Image.fromarray(np.pad(scan / 16.0, 1).astype(np.float32))
    wide = round(size * 1.25 * rng.uniform(0.85, 1.15))
    large = padded.resize((wide, round(size * 1.25)), Image.Resampling.BICUBIC)
    turned = large.rotate(rng.uniform(-10, 10), Image.Resampling.BILINEAR, expand=True)
    opacity = np.clip((np.asarray(turned) - 0.3) / 0.5, 0, 1)
    rows, columns = np.flatnonzero((opacity > INK).any(1)), np.flatnonzero((opacity > INK).any(0))
    return opacity[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]


def _crowds(box: tuple[int, int, int, int], others: list[Digit], allowed: float) -> bool:
    """Tell whether the box covers, or is covered by, more than `allowed` of the smaller of two boxes."""
    x, y, w, h = box
    for other in others:
        ox, oy, ow, oh = other.box
        across = min(x + w, ox + ow) - max(x, ox)
        down = min(y + h, oy + oh) - max(y, oy)
        if across > 0 and down > 0 and across * down > allowed * min(w * h, ow * oh):
            return True
    return False


def compose_scene(
    rng: np.random.Generator, scans: np.ndarray, labels: np.ndarray
) -> tuple[Image.Image, list[Digit]]:
    """Compose one scene.

    Args:
        rng: the only source of chance.
        scans: float [N, 8, 8], 0..16, the digits to choose from.
        labels: int [N], 0..9.

    Returns:
        The picture, and the digits in it; the list may be empty.
    """
    short = int(rng.integers(160, 289))
    long = min(320, round(short * rng.uniform(1.0, 1.3)))
    width, height = (long, short) if rng.random() < 0.5 else (short, long)
    background = rng.uniform(20, 235, 3)
    relief = BACKGROUNDS[str(rng.choice(list(BACKGROUNDS)))](rng, height, width)
    pixels = np.clip(background + relief[:, :, None] * rng.uniform(0.7, 1.0, 3), 0, 255)
    canvas = Image.fromarray(pixels.astype(np.uint8))
    if rng.random() < 0.6:
        _clutter(rng, canvas, background)
    pixels = np.asarray(canvas).astype(np.float32)
    allowed = 0.15 if rng.random() < 0.25 else 0.0
    count = 0 if rng.random() < EMPTY_SCENES else int(rng.integers(1, 8))
    digits: list[Digit] = []
    for _ in range(count):
        index = int(rng.integers(len(labels)))
        size = int(np.clip(short * np.exp(rng.uniform(np.log(0.18), np.log(0.46))), 28, 100))
        opacity = opacity_of(rng, scans[index], size)
        h, w = opacity.shape
        for _ in range(20):
            x, y = int(rng.integers(0, width - w + 1)), int(rng.integers(0, height - h + 1))
            if not _crowds((x, y, w, h), digits, allowed):
                break
        else:
            continue
        ink = _ink_colour(rng, background)
        strength = opacity[:, :, None] * rng.uniform(0.85, 1.0)
        pixels[y : y + h, x : x + w] = pixels[y : y + h, x : x + w] * (1 - strength) + ink * strength
        digits.append(Digit(int(labels[index]), (x, y, w, h), opacity > INK))
    picture = Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8))
    if rng.random() < 0.2:
        picture = picture.filter(ImageFilter.GaussianBlur(rng.uniform(0.4, 1.0)))
    return picture, digits


def split_scans(seed: int) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Assign each scan to exactly one split."""
    from sklearn.datasets import load_digits

    data = load_digits()
    order = np.random.default_rng([seed, 1797]).permutation(len(data.target))
    edges = np.round(np.cumsum(list(SPLITS.values()))[:-1] * len(order)).astype(int)
    return {
        split: (data.images[part], data.target[part])
        for split, part in zip(SPLITS, np.split(order, edges), strict=True)
    }


def visible_inks(digits: list[Digit], height: int, width: int) -> list[np.ndarray]:
    """Return the pixels of each digit that no later digit covers, bool [height, width]."""
    covered = np.zeros((height, width), bool)
    masks = []
    for digit in reversed(digits):
        x, y, w, h = digit.box
        whole = np.zeros_like(covered)
        whole[y : y + h, x : x + w] = digit.ink
        masks.append(whole & ~covered)
        covered |= whole
    return masks[::-1]


def keypoints_of(digit: Digit, visible: np.ndarray) -> list[float]:
    """Return the keypoints of a digit as COCO has them: x, y and visibility of each of `KEYPOINTS`.

    A keypoint is the middle of the ink in the outermost `EDGE` of the box. Its visibility is 2 if at least
    half of this ink is visible in the scene, bool [H, W], and otherwise 1.
    """
    x, y, w, h = digit.box
    rows, columns = max(round(EDGE * h), 1), max(round(EDGE * w), 1)
    edges = {
        "top": np.s_[:rows, :],
        "right": np.s_[:, -columns:],
        "bottom": np.s_[-rows:, :],
        "left": np.s_[:, :columns],
    }
    values: list[float] = []
    for name in KEYPOINTS:
        edge = np.zeros_like(digit.ink)
        edge[edges[name]] = digit.ink[edges[name]]
        row, column = np.argwhere(edge).mean(axis=0) + 0.5
        seen = (edge & visible[y : y + h, x : x + w]).sum() >= 0.5 * edge.sum()
        values += [round(x + column, 2), round(y + row, 2), 2 if seen else 1]
    return values


def _run_lengths(mask: np.ndarray) -> list[int]:
    """Return COCO's uncompressed run lengths, column by column, beginning with a run of zeros."""
    pixels = np.concatenate([[False], mask.T.ravel()])
    changes = np.flatnonzero(pixels[1:] != pixels[:-1])
    return np.diff([0, *changes, mask.size]).tolist()


def _shape(digit: Digit, visible: np.ndarray) -> dict[str, object]:
    """Return the fields of an annotation with a mask and keypoints, instead of those of a box."""
    return {
        "category_id": 1,
        "area": int(visible.sum()),
        "segmentation": {"size": list(visible.shape), "counts": _run_lengths(visible)},
        "keypoints": keypoints_of(digit, visible),
        "num_keypoints": len(KEYPOINTS),
    }


def _annotations(digits: list[Digit], size: tuple[int, int], shapes: bool) -> Iterator[dict[str, object]]:
    masks = visible_inks(digits, *size) if shapes else [np.zeros(0)] * len(digits)
    for digit, mask in zip(digits, masks, strict=True):
        fields = {
            "category_id": digit.digit + 1,
            "bbox": list(digit.box),
            "area": digit.box[2] * digit.box[3],
            "iscrowd": 0,
        }
        yield fields | (_shape(digit, mask) if shapes else {})


def _categories(shapes: bool) -> list[dict[str, object]]:
    if not shapes:
        return [{"id": digit + 1, "name": str(digit), "supercategory": "digit"} for digit in range(10)]
    skeleton = [[1, 2], [2, 3], [3, 4], [4, 1]]
    return [{"id": 1, "name": "digit", "keypoints": list(KEYPOINTS), "skeleton": skeleton}]


def _write_split(root: Path, split: str, options: SceneOptions, scans: tuple[np.ndarray, np.ndarray]) -> str:
    """Write the scenes and the COCO JSON of a split; returns the SHA-256 over all of it."""
    folder, digest = root / "images" / split, hashlib.sha256()
    folder.mkdir(parents=True)
    images: list[dict[str, object]] = []
    annotations: list[dict[str, object]] = []
    for number in range(getattr(options, split)):
        rng = np.random.default_rng([options.seed, list(SPLITS).index(split), number])
        picture, digits = compose_scene(rng, *scans)
        name, buffer = f"{number:06d}.jpg", io.BytesIO()
        picture.save(buffer, "JPEG", quality=int(rng.integers(80, 96)))
        digest.update(buffer.getvalue())
        (folder / name).write_bytes(buffer.getvalue())
        images.append({"id": number + 1, "file_name": name, "width": picture.width, "height": picture.height})
        for fields in _annotations(digits, (picture.height, picture.width), options.shapes):
            annotations.append({"id": len(annotations) + 1, "image_id": number + 1, **fields})
    categories = _categories(options.shapes)
    text = json.dumps({"images": images, "annotations": annotations, "categories": categories})
    (root / f"{split}.json").write_text(text)
    digest.update(text.encode())
    return digest.hexdigest()


@contextlib.contextmanager
def _alone(out: Path) -> Iterator[None]:
    """Keep a second composer of the same folder waiting; the lock goes when its holder dies."""
    out.parent.mkdir(parents=True, exist_ok=True)
    with open(out.parent / f".{out.name}.lock", "a") as lock:  # to append, so that nothing is ever emptied
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _recipe(options: SceneOptions) -> dict[str, object]:
    """Return what decides the scenes; a finished folder made from the same recipe need not be made again."""
    code = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()
    return {"options": dataclasses.asdict(options), "code": code}


def compose(out: str | os.PathLike[str], options: SceneOptions) -> bool:
    """Compose all splits into a folder.

    Args:
        out: the folder; replaced when it was made from another recipe.
        options: how many scenes, and the seed.

    Returns:
        Whether anything was written; False when the folder already held exactly these scenes.
    """
    out = Path(out).absolute()
    manifest, partial = out / "manifest.json", out.parent / f".{out.name}.partial"
    with _alone(out):
        if manifest.exists() and json.loads(manifest.read_text())["recipe"] == _recipe(options):
            return False
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir()
        scans = split_scans(options.seed)
        sums = {split: _write_split(partial, split, options, scans[split]) for split in SPLITS}
        text = json.dumps({"recipe": _recipe(options), "sha256": sums}, indent=2)
        (partial / "manifest.json").write_text(text)
        shutil.rmtree(out, ignore_errors=True)
        os.replace(partial, out)
    return True


def main(argv: list[str] | None = None) -> int:
    """Read the command line and compose."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("out", help="folder to fill")
    for field in dataclasses.fields(SceneOptions):
        kind: dict[str, Any] = {"action": "store_true"} if field.name == "shapes" else {"type": int}
        parser.add_argument(f"--{field.name}", default=field.default, **kind)
    arguments = vars(parser.parse_args(argv))
    out, began = arguments.pop("out"), time.monotonic()
    written = compose(out, SceneOptions(**arguments))
    print(f"{out}: " + (f"composed in {time.monotonic() - began:.1f} s" if written else "already there"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
