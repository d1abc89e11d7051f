"""Images that say how they are turned."""

import io

import numpy as np
from PIL import Image

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
    buffer = io.BytesIO()
    smooth_picture().save(buffer, "JPEG", xmp=packet)
    return buffer.getvalue()
