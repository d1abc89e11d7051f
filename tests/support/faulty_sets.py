"""Data sets in which one record has one fault, by the reason for which it is put aside."""

import os

from tests.support.dataset_files import picture, png_that_claims

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
