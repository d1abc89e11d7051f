"""Programs outside of the packages, imported by their path."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[2]


def load_script(path: str) -> ModuleType:
    """Import a Python file of the checkout."""
    spec = importlib.util.spec_from_file_location(Path(path).stem, ROOT / path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[module.__name__] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module
