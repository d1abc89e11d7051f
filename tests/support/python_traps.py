"""A user's folder whose Python files have the names of modules that the program imports."""

from pathlib import Path

_OURS = ("pipeline", "components", "component_specs", "detection_core", "detflow")
NAMES = (*_OURS, "tensorflow", "yaml", "json", "apache_beam")
_CODE = """
import pathlib
with open(pathlib.Path(__file__).with_name("executed.txt"), "a") as file:
    file.write(__name__ + "\\n")
raise SystemExit("a user's own file was imported: " + __file__)
"""


def set_traps(folder: Path) -> Path:
    """Write the files; return the path of the one that names those that were executed."""
    folder.mkdir(exist_ok=True)
    for name in NAMES:
        (folder / f"{name}.py").write_text(_CODE)
    return folder / "executed.txt"
