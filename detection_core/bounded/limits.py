"""Limits that all readers of files share, and JSON parsed at once within them.

A few bytes can request more memory than a machine has, so sizes and counts are checked before use.
`storage.files.MAX_TEXT_BYTES` limits texts, `data.image_header.MAX_PIXELS` pixels, and
`data.label_map.MAX_CLASS_ID` class ids.
"""

import json
from typing import Any

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

MAX_ELEMENTS = 1 << 19
"""XML elements below one that is read as a whole."""

MAX_REJECTED = 200_000
"""Unusable annotations after which reading a file stops."""


_BEGINS = ("[", "{", ",")


def parse_json_text(text: str) -> Any:
    """Parse a JSON text; ValueError when it is malformed, nested too deeply, or holds too many values."""
    check_values(text)
    try:
        return json.loads(text)
    except RecursionError as e:
        raise ValueError("lists or objects nested too deeply") from e


def check_values(text: str) -> None:
    """Refuse a text that may hold more values than `MAX_JSON_VALUES`, before it is parsed.

    Separators inside strings count, too; they are usually few.

    Raises:
        ValueError: when it may hold more.
    """
    count = sum(map(text.count, _BEGINS))
    if count > MAX_JSON_VALUES:
        raise ValueError(f"expected at most {MAX_JSON_VALUES:,} values, found about {count:,}")
