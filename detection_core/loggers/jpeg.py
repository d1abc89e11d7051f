"""Pictures as JPEG files."""

from __future__ import annotations

import io

import numpy as np

_QUALITY = 84


def encode_jpeg(image: np.ndarray) -> bytes:
    """Return a picture, uint8 [H, W, 3], as a JPEG file."""
    from PIL import Image

    stream = io.BytesIO()
    Image.fromarray(image).save(stream, "JPEG", quality=_QUALITY)
    return stream.getvalue()
