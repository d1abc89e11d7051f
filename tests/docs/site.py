"""Hooks of MkDocs: the pages beside docs/ are part of the site, in the folder project/."""

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[2]
PAGES = ("CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")
_LINK = re.compile(r"\[([^\]]*)\]\((?!https?:|mailto:|#)([^)\s#]+)(#[^)\s]*)?\)")


def on_files(files: Files, config: Any) -> Files:
    """Add the pages of the repository's root."""
    for name in PAGES:
        files.append(File.generated(config, f"project/{name}", content=(ROOT / name).read_text("utf-8")))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Point links to pages of the site; show the path of any other file of the repository."""
    own = page.file.src_uri
    inside = f"docs/{own}" if not own.startswith("project/") else posixpath.basename(own)

    def moved(found: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(inside), found[2]))
        if target in PAGES:
            place = f"project/{target}"
        elif target.startswith("docs/"):
            place = target.removeprefix("docs/")
        else:
            return f"`{target}`" if found[1] == target else f"{found[1]} (`{target}`)"
        return f"[{found[1]}]({posixpath.relpath(place, posixpath.dirname(own) or '.')}{found[3] or ''})"

    return _LINK.sub(moved, markdown)
