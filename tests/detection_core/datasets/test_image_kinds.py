"""The table of image files in docs/own-data.md, row by row."""

import io
import re
from pathlib import Path

import numpy as np
from PIL import Image

from detection_core.data.decode import decode_pixels
from detection_core.datasets.annotated_images import AnnotatedImage, Rejected
from detection_core.datasets.encoding import make_example
from detection_core.errors import DataError
from detection_core.tasks.predict import read_image
from tests.support.cases import cases, refused
from tests.support.dataset_files import exif, png_that_claims

PAGE = (Path(__file__).parents[3] / "docs" / "own-data.md").read_text()
_SECTION = PAGE.split("## Images of every kind")[1].split("\n## ")[0]
ROWS = dict(re.findall(r"^\| ([^|]+?) \| ([^|]+?) \|$", _SECTION, re.M)[1:])
PIXELS = np.random.default_rng(1).integers(0, 256, (4, 5, 3), dtype=np.uint8)
SMOOTH = Image.fromarray(PIXELS).resize((40, 30), Image.Resampling.BICUBIC)
FRAMES = {"save_all": True, "append_images": [Image.new("RGB", (40, 30), "blue")]}


def stored(image=SMOOTH, kind="JPEG", **options):
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


DEEP = Image.fromarray(np.arange(1200, dtype=np.uint16).reshape(30, 40) * 50)
READ = {
    "turned by EXIF": [stored(exif=exif(6), quality=95, subsampling=0), stored(kind="PNG", exif=exif(3))],
    "progressive JPEG": [stored(progressive=True)], "CMYK JPEG": [stored(SMOOTH.convert("CMYK"))],
    "grey JPEG or PNG": [stored(SMOOTH.convert("L")), stored(SMOOTH.convert("L"), "PNG")],
    "several pictures in one JPEG (MPO)": [stored(kind="MPO", **FRAMES)], "16-bit PNG": [stored(DEEP, "PNG")],
    "PNG with transparency": [stored(SMOOTH.convert("RGBA"), "PNG"), stored(SMOOTH.convert("LA"), "PNG")],
    "PNG with a palette": [stored(SMOOTH.convert("P"), "PNG", transparency=0)],
    "animated GIF or WebP": [stored(kind="GIF", **FRAMES), stored(kind="WEBP", lossless=True, **FRAMES)],
    "WebP, TIFF, BMP": [stored(kind=kind) for kind in ("WEBP", "TIFF", "BMP")],
    "another ending than its content": [stored(kind="PNG"), stored(kind="BMP")],
}  # fmt: skip
REFUSED = {
    "HEIC, AVIF, JPEG XL, PDF": [
        b"\0\0\0\x24ftypheic\0\0\0\0mif1heic" + bytes(40), b"\0\0\0\x0cJXL \r\n\x87\n" + bytes(40),
        stored(kind="AVIF"), b"%PDF-1.7\n",
    ],
    "16-bit TIFF": [stored(DEEP, "TIFF")], "truncated": [stored()[:-40], stored(kind="PNG")[:-40]],
    "empty": [b""], "no image": [b"<html>not found</html>", bytes(100)],
    "more than 134 million pixels": [png_that_claims(20_000, 20_000)],
}  # fmt: skip


def record(tmp_path, data):
    (tmp_path / "picture.jpg").write_bytes(data)
    return AnnotatedImage("1", "picture.jpg", str(tmp_path / "picture.jpg"), 0, 0, [])


@cases(*[(row, data) for row, files in READ.items() for data in files])
def test_what_is_stored_shows_what_prediction_sees(tmp_path, *, row, data):
    assert ROWS.keys() == {*READ, *REFUSED}, "every row is tried"
    example = make_example(record(tmp_path, data), {})
    kept = ROWS[row].startswith("stored as it is") or (data[:4] == b"\x89PNG" and not example.turned)
    assert (example.image.data == data) == kept
    seen = read_image(str(tmp_path / "picture.jpg"))
    decoded = decode_pixels(example.image.data, channels=3).numpy()
    assert decoded.shape == seen.shape == (example.image.height, example.image.width, 3)
    assert np.abs(decoded.astype(int) - seen).mean() < 2


@cases(*[(row, data) for row, files in REFUSED.items() for data in files])
def test_what_cannot_be_used_is_put_aside_with_its_reason_and_refused_by_prediction(tmp_path, *, row, data):
    caught = refused(Rejected, "", lambda: make_example(record(tmp_path, data), {}))
    assert f"`{caught.reason}`" in ROWS[row]
    assert "way out" not in ROWS[row] or "export it as JPEG or PNG" in caught.detail
    if row != "16-bit TIFF":
        refused(DataError, r"picture\.jpg", read_image, str(tmp_path / "picture.jpg"))
