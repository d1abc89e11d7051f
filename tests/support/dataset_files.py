"""Small data sets for the tests, written to a folder, and those with one fault."""

import dataclasses
import functools
import io
import json
import os
import struct
import zlib

import numpy as np
from PIL import Image

from detection_core.data.encode import EncodedImage
from detection_core.datasets.shapes import place_objects

CATEGORIES = [{"id": 3, "name": "cat"}, {"id": 1, "name": "dog"}]


@functools.cache
def picture(image_format="JPEG", width=40, height=30, seed=0, **options):
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return encoded(Image.fromarray(pixels), image_format, **options)


def encoded(image, image_format, **options):
    """The file that Pillow makes of an image."""
    buffer = io.BytesIO()
    image.save(buffer, image_format, **options)
    return buffer.getvalue()


def png_that_claims(width, height):
    """A whole, small PNG whose header promises any size."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")


def exif(orientation):
    """Notes of a camera that say how an image is to be turned."""
    notes = Image.Exif()
    notes[0x0112] = orientation
    return notes.tobytes()


def write_files(root, files):
    """Write files below a folder; their folders are made."""
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())


def stored_image(data, width=40, height=30, name="a.jpg", source_id="a", **fields):
    """An image as a record holds it."""
    fields = {"sha256": "", "format": "jpeg", "filename": name, "source_id": source_id, **fields}
    return EncodedImage(data=data, width=width, height=height, **fields)


def subfolder(root, name):
    """Return a new folder below another, for the next part of a test."""
    folder = root / f"part-{name}"
    folder.mkdir()
    return folder


def in_pixels(image, width=40, height=30):
    """An annotated image with its objects where they lie in a picture of this size."""
    return image._replace(objects=place_objects(image, width, height), in_fractions=False)


def ids(found):
    """Ids of the images that were read, in their order."""
    return [image.source_id for image in found.images]


def reasons(found):
    """Why records were put aside, in their order."""
    return [rejection.reason for rejection in found.rejected]


def whole(annotations):
    """Return what a reader found with the images as a list, when all else is complete, too."""
    return dataclasses.replace(annotations, images=list(annotations.images))


def reading(reader):
    """The `read` of a format, which gives all images at once."""
    return lambda root, location=None: whole(reader.read(str(root), location))


class Coco:
    """A COCO data set in the making: change the lists, then write."""

    def __init__(self, root, images=6, first_id=1):
        self.root = root
        self.images, self.annotations, self.categories = [], [], list(CATEGORIES)
        (root / "images").mkdir(parents=True, exist_ok=True)
        for number in range(first_id, first_id + images):
            self.add_image(number, boxes=[[2, 3, 10, 20]] if number % 3 else [])

    def add_image(self, image_id, name=None, data=None, boxes=((2, 3, 10, 20),), **fields):
        name = name or f"{image_id}.jpg"
        data = picture(seed=image_id) if data is None else data
        if data:
            (self.root / "images" / name).write_bytes(data)
        entry = {"id": image_id, "file_name": name, "width": 40, "height": 30}
        self.images.append({**entry, **fields})
        for box in boxes:
            self.add_box(image_id, box)

    def add_box(self, image_id, box, **fields):
        entry = {"id": len(self.annotations), "image_id": image_id, "bbox": list(box), "category_id": 3}
        self.annotations.append({**entry, "iscrowd": 0, "area": 123.5, **fields})

    def annotate_shapes(self):
        """Outline each object as a triangle, whose corners are the keypoints of a cat."""
        self.categories = [
            {**entry, "keypoints": ["left_foot", "right_foot", "head"]} if entry["name"] == "cat" else entry
            for entry in self.categories
        ]
        for entry in self.annotations:
            x, y, width, height = entry["bbox"]
            corners = [(x, y + height), (x + width, y + height), (x + width / 2, y)]
            entry["segmentation"] = [[value for corner in corners for value in corner]]
            entry["keypoints"] = [value for corner in corners for value in (*corner, 2)]

    def write(self, name="annotations.json"):
        content = {"images": self.images, "annotations": self.annotations, "categories": self.categories}
        (self.root / name).write_text(json.dumps(content))
        return str(self.root)


def voc_xml(name, boxes=((5, 6, 20, 25),), label="cat", extra="", size=(40, 30)):
    objects = "".join(
        f"<object><name>{label}</name><pose>Left</pose><truncated>1</truncated><difficult>0</difficult><bndbox>"
        f"<xmin>{a}</xmin><ymin>{b}</ymin><xmax>{c}</xmax><ymax>{d}</ymax></bndbox></object>"
        for a, b, c, d in boxes
    )
    width, height = size
    return (
        f"<annotation><filename>{name}.jpg</filename><size><width>{width}</width><height>{height}</height></size>"
        f"{objects}{extra}</annotation>"
    )


def write_voc(root, names=("a", "b", "c", "d"), **changed):
    """Write a VOC data set; `changed` gives other XML for some names."""
    for folder in ("Annotations", "JPEGImages", "ImageSets/Main"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    for number, name in enumerate(names):
        (root / "JPEGImages" / f"{name}.jpg").write_bytes(picture(seed=number))
        (root / "Annotations" / f"{name}.xml").write_text(changed.get(name, voc_xml(name)))
    (root / "ImageSets" / "Main" / "train.txt").write_text("\n".join(names) + "\n")
    return str(root)


def brush_bytes(width, height, painted, alike=True):
    """Encode a mask as Label Studio's brush does, with runs of up to 16 equal values, or without runs."""
    values = [255 * ((at // 4 // width, at // 4 % width) in painted) for at in range(width * height * 4)]
    bits = f"{len(values):032b}{7:05b}" + "".join(f"{length - 1:04b}" for length in (1, 2, 3, 4))
    at = 0
    while at < len(values):
        same = next((n for n in range(1, 16) if values[at : at + n + 1] != [values[at]] * (n + 1)), 16)
        run = min(same if alike else 16, len(values) - at)
        bits += f"{int(alike)}{3:02b}{run - 1:04b}"
        bits += "".join(f"{value:08b}" for value in (values[at : at + 1] if alike else values[at : at + run]))
        at += run
    bits += "0" * (-len(bits) % 8)
    return [int(bits[at : at + 8], 2) for at in range(0, len(bits), 8)]


WIDTH, HEIGHT = 64, 48


def smooth_picture() -> Image.Image:
    """Make a picture without sharp edges."""
    small = np.random.default_rng(3).integers(0, 256, (6, 8, 3), dtype=np.uint8)
    return Image.fromarray(small).resize((WIDTH, HEIGHT), Image.Resampling.BICUBIC)


def turned_by_xmp(orientation: int) -> bytes:
    """Make a JPEG file whose XMP packet has an orientation, and whose EXIF has none."""
    packet = (
        b'<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">'
        b'<rdf:Description tiff:Orientation="%d" xmlns:tiff="http://ns.adobe.com/tiff/1.0/"/>'
        b"</rdf:RDF></x:xmpmeta>" % orientation
    )
    return encoded(smooth_picture(), "JPEG", xmp=packet)


BAD = 99


def _image_bytes(data, **fields):
    return lambda coco: coco.add_image(BAD, data=data, **fields)


def _box(box, **fields):
    def add(coco):
        coco.add_image(BAD, boxes=[])
        coco.add_box(BAD, [1, 1, 5, 5])
        coco.add_box(BAD, box, **fields)

    return add


def _no_access(coco):
    os.mkfifo(coco.root / "images" / "pipe.jpg")
    coco.add_image(BAD, name="pipe.jpg", data=b"")


JPEG = picture()
NOT_WHOLE = JPEG[: len(JPEG) // 2]
STRAY_MARKER = JPEG[:-50] + b"\xff\xc0" + JPEG[-48:]
# The frame marker of a lossless JPEG, which no training library decodes.
LOSSLESS = JPEG.replace(b"\xff\xc0", b"\xff\xc3", 1)
# A Huffman table that counts more codes than there are: libraries recover from it in different ways.
_TABLE = JPEG.rindex(b"\xff\xc4", 0, JPEG.index(b"\xff\xda")) + 22
WRONG_TABLE = JPEG[:_TABLE] + b"\xff" + JPEG[_TABLE + 1 :]
# Whole chunks with right checksums, but too few pixels inside.
NO_PIXELS = png_that_claims(40, 30)

COCO_FAULTS = {
    "malformed_record": lambda coco: coco.images.append({"id": BAD, "file_name": 7}),
    "malformed_annotation": _box([1, 2, 3]),
    "unknown_image": lambda coco: coco.add_box(BAD, [1, 1, 5, 5]),
    "unknown_category": _box([1, 1, 5, 5], category_id=17),
    "duplicate_id": lambda coco: coco.add_image(1, name="another.jpg", boxes=[]),
    "path_outside": lambda coco: coco.add_image(BAD, data=b"", name="../../etc/passwd"),
    "box_not_finite": _box([1, 1, float("nan"), 5]),
    "box_inverted": _box([10, 10, -5, 5]),
    "box_degenerate": _box([10, 10, 5, 0]),
    "box_outside": _box([30, 10, 11.5, 5]),
    "malformed_mask": _box([1, 1, 5, 5], segmentation=[[1, 1, 5, 1, 5, 5, 1]]),
    "malformed_keypoints": _box([1, 1, 5, 5], keypoints=[1, 1, 2]),
    "missing_image": _image_bytes(b""),
    "unreadable_image": _no_access,
    "size_mismatch": _image_bytes(picture(width=41)),
    "empty_image": lambda coco: (coco.add_image(BAD), (coco.root / "images" / f"{BAD}.jpg").write_bytes(b"")),
    "not_an_image": _image_bytes(b"<html>404 not found</html>"),
    "truncated_image": _image_bytes(NOT_WHOLE),
    "corrupt_image": _image_bytes(STRAY_MARKER),
    "unsupported_image": _image_bytes(LOSSLESS),
    "undecodable_image": _image_bytes(NO_PIXELS),
    "decoders_differ": _image_bytes(WRONG_TABLE),
    "decompression_bomb": _image_bytes(png_that_claims(60000, 60000), width=60000, height=60000),
}
VOC_FAULTS = {
    "missing_annotation": lambda root: (root / "Annotations" / "b.xml").unlink(),
    "unreadable_annotation": lambda root: (root / "Annotations" / "b.xml").write_text("<annotation><size>"),
}
