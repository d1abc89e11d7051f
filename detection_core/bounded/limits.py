"""What one file may ask for: bounds that every reader of text shares.

A few bytes can ask for more memory than a machine has, so sizes and counts are checked before they are used.
Pixels are bounded by `data.image_header.MAX_PIXELS`, class ids by `data.label_map.MAX_CLASS_ID`.
"""

from __future__ import annotations

MAX_TEXT_BYTES = 1 << 22
"""Bytes of a text file that is read whole; files of data sets are read in pieces and may be longer."""

MAX_LONG_TEXT_BYTES = 1 << 24
"""Bytes of one with an entry for each class or object: a label map, the annotations of an image."""

MAX_DEPTH = 50
"""Lists and mappings of YAML inside each other."""

MAX_VALUES = 200_000
"""Values of a YAML document, those that aliases repeat counted each time."""

MAX_JSON_VALUES = 1 << 22
"""Values of JSON that is parsed at once: they take up to a hundred bytes each."""

MAX_OBJECTS = 100_000
"""Annotations of one image: ten times those of the fullest aerial pictures."""

MAX_KEYPOINTS = 1_000
"""Keypoints of a class; 133 are those of a whole body."""

MAX_IMAGE_FILE_BYTES = 1 << 27
"""Bytes of the annotations of one image, in which LabelMe puts the image itself."""

MAX_LIST_BYTES = 1 << 27
"""Bytes of a list with a line an image: those of two million."""

MAX_LINES = 1 << 22
"""Lines of a list that is read whole."""

MAX_ELEMENTS = 1 << 19
"""Elements of XML below one that is read as a whole."""

MAX_REJECTED = 200_000
"""Annotations of a file that cannot be used, above which it is not read on."""
