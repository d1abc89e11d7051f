"""Add comments above fields in the text of a config."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping

from google.protobuf.descriptor import Descriptor

from detection_core.config.text.positions import field_lines, nearest_line

_WIDTH = 110


def with_comments(text: str, root: Descriptor, comments: Mapping[str, str]) -> str:
    """Return text-format text with comments above fields.

    The comment of a field that is not in the text goes above the nearest enclosing message. `root` is the
    text's message type. Comments have one line; long lines are wrapped.
    """
    places = field_lines(text, root)
    above: dict[int, list[str]] = {}
    for path, comment in comments.items():
        line = nearest_line(f"{path}[0]" if f"{path}[0]" in places else path, places)
        above.setdefault(line or 1, []).append(comment)
    lines: list[str] = []
    for number, content in enumerate(text.split("\n"), start=1):
        indent = content[: len(content) - len(content.lstrip())]
        for comment in above.get(number, ()):
            lines += comment_lines(comment, indent)
        lines.append(content)
    return "\n".join(lines)


def comment_lines(comment: str, indent: str = "", width: int = _WIDTH) -> list[str]:
    """Format a comment as lines of a config or settings file; no content can end the comment.

    Control characters become spaces; words longer than `width` characters are not broken.
    """
    plain = "".join(character if character.isprintable() else " " for character in comment)
    prefix = f"{indent}# "
    return textwrap.wrap(
        plain,
        width,
        initial_indent=prefix,
        subsequent_indent=prefix,
        break_long_words=False,
        break_on_hyphens=False,
    ) or [prefix.rstrip()]
