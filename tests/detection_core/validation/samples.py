"""Examples as the checks read them, what a check finds, and pictures that look alike."""

import numpy as np
from PIL import Image, ImageDraw, ImageEnhance

from detection_core.data.label_map import label_map_from_names
from detection_core.validation.checks import FindingList, make_limits
from detection_core.validation.labelled_images import parse_record
from tests.support.dataset_files import encoded
from tests.support.made_examples import CLASSES, Made, encode

LABELS = label_map_from_names(list(CLASSES))


def labelled(number=0, made=None, **fields):
    """An image as it is read from its record."""
    return parse_record(encode(made or Made(**fields), number), number, LABELS)


def findings_of(check, *arguments, **limits):
    """Call a check, which adds to a list of findings, and return the list."""
    findings = FindingList(make_limits(limits))
    check(*arguments, findings)
    return findings


def found_by(check, *arguments, **limits):
    """What a check finds: id to finding."""
    return {found.id: found for found in findings_of(check, *arguments, **limits).findings()}


def natural(rng: np.random.Generator, side: int = 128) -> Image.Image:
    """Return noise whose amplitude falls with its frequency, as that of photos does (Field, 1987)."""
    rows, columns = np.meshgrid(np.fft.fftfreq(side), np.fft.rfftfreq(side), indexing="ij")
    frequency = np.hypot(rows, columns)
    frequency[0, 0] = 1.0
    noise = np.fft.irfft2(np.fft.rfft2(rng.normal(size=(side, side))) / frequency, s=(side, side))
    noise = (noise - noise.mean()) / noise.std()
    return Image.fromarray(np.clip(128 + 50 * noise, 0, 255).astype(np.uint8)).convert("RGB")


def drawing(rng: np.random.Generator, side: int = 256) -> Image.Image:
    """Return two to five shapes on white, where most of the picture says nothing."""
    picture = Image.new("RGB", (side, side), (250, 250, 250))
    draw = ImageDraw.Draw(picture)
    for _ in range(rng.integers(2, 6)):
        centre, radius = rng.uniform(0.25, 0.75, 2) * side, rng.uniform(0.05, 0.3, 2) * side
        colour = tuple(int(c) for c in rng.integers(0, 220, 3))
        corners = [float(x) for x in (*(centre - radius), *(centre + radius))]
        (draw.ellipse if rng.random() < 0.5 else draw.rectangle)(corners, fill=colour)
    return picture


def jpeg(picture: Image.Image, quality: int = 90, **options: object) -> bytes:
    """Return a JPEG file."""
    return encoded(picture, "JPEG", quality=quality, **options)


def scaled(picture: Image.Image, factor: float) -> Image.Image:
    """Return the picture in another size."""
    return picture.resize((round(picture.width * factor), round(picture.height * factor)))


ALIKE = {
    "compressed": lambda p: jpeg(p, 50),
    "compressed hard": lambda p: jpeg(p, 20),
    "half the size": lambda p: jpeg(scaled(p, 0.5)),
    "double the size": lambda p: jpeg(scaled(p, 2.0)),
    "brighter": lambda p: jpeg(ImageEnhance.Brightness(p).enhance(1.15)),
    "less contrast": lambda p: jpeg(ImageEnhance.Contrast(p).enhance(0.8)),
    "all of it": lambda p: jpeg(ImageEnhance.Brightness(scaled(p, 0.7)).enhance(0.9), 60),
}
"""Changes that leave a picture what it is."""
