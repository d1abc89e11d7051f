"""Size limits shared by all readers of text.

A few bytes can request more memory than a machine has, so sizes and counts are checked before use.
`data.image_header.MAX_PIXELS` limits pixels, `data.label_map.MAX_CLASS_ID` class ids.
"""

from __future__ import annotations

MAX_TEXT_BYTES = 1 << 22
"""Bytes of a text file that is read whole; files of data sets are read in pieces and may be longer."""

MAX_LONG_TEXT_BYTES = 1 << 24
"""Bytes of a text file with an entry per class or object: a label map, the annotations of an image."""

MAX_DEPTH = 50
"""Nesting depth of YAML lists and mappings."""

MAX_VALUES = 200_000
"""Values of a YAML document; each alias counts the values that it repeats."""

MAX_JSON_VALUES = 1 << 22
"""Values of JSON that is parsed at once; each takes up to a hundred bytes."""

MAX_OBJECTS = 100_000
"""Annotations of one image: ten times those of the densest aerial images."""

MAX_KEYPOINTS = 1_000
"""Keypoints of a class; a whole body has 133."""

MAX_IMAGE_FILE_BYTES = 1 << 27
"""Bytes of one image's annotations; LabelMe includes the image itself."""

MAX_LIST_BYTES = 1 << 27
"""Bytes of a list with a line per image, enough for two million."""

MAX_LINES = 1 << 22
"""Lines of a list that is read whole."""

MAX_ELEMENTS = 1 << 19
"""XML elements below one that is read as a whole."""

MAX_REJECTED = 200_000
"""Unusable annotations after which reading a file stops."""
