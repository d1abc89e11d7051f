"""Import large packages in half the time and with less memory, at the entry points of our processes only."""

import gc
import os
import sys
from collections.abc import Mapping, Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import ModuleType

from detection_core.garbage import no_collection

# What each package imports if it is installed, and nothing here uses: data frames and image rotation of
# tf_keras, Keras 3 of the optimization toolkit's pruning.
_unused: dict[str, Sequence[str]] = {
    "tensorflow": ("pandas", "scipy"),
    "tf_keras": ("pandas", "scipy"),
    "tensorflow_model_optimization": ("keras",),
}


class _Loader(SourceFileLoader):
    def exec_module(self, module: ModuleType) -> None:
        hidden = [name for name in _unused[self.name] if name not in sys.modules]
        # An entry of None blocks the import.
        sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type]
        try:
            with no_collection():
                super().exec_module(module)
        finally:
            for name in hidden:
                del sys.modules[name]
        # TensorFlow's 500,000 objects stay alive: no collection has to visit them.
        gc.freeze()


class _Finder:
    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        found = PathFinder.find_spec(name, path, target) if name in _unused else None
        if found and isinstance(found.loader, SourceFileLoader):
            found.loader = _Loader(found.loader.name, found.loader.path)
        return found


def import_quickly(unused: Mapping[str, Sequence[str]] | None = None) -> None:
    """Let later imports of TensorFlow and its Keras skip optional libraries that nothing here uses.

    Those libraries can still be imported directly. `tf.keras` is tf_keras, unless TF_USE_LEGACY_KERAS says
    otherwise. Garbage collection is paused during the imports.

    Args:
        unused: further modules, and what each imports if it is installed but does not need.
    """
    _unused.update(unused or {})
    os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")
    if _Finder not in sys.meta_path:
        sys.meta_path.insert(0, _Finder)
