"""Cached descriptions of configs, so that checking a config again does not import TensorFlow.

Building a network to count its parameters takes seconds, mostly for TensorFlow's import. The cache key covers
the config's message, the files that it names, the code, the packages and the device.
"""

import contextlib
import dataclasses
import importlib.metadata
import json
import os
import platform
from collections.abc import Iterator
from typing import Any

from google.protobuf.message import Message

from components.run_checker.code_version import code_version
from detection_core.config.pipeline_config import CheckedConfig
from detection_core.storage import files
from detection_core.storage.disk_cache import Cache, entry_key
from detection_core.zoo.cache import cache_folder
from pipeline.console import native_output_to

_FOLDER = "descriptions"
_KEPT = 200
_PACKAGES = ("tensorflow", "tf_keras", "tensorflow-model-optimization", "numpy", "protobuf")
_VARIABLES = ("DETFLOW_", "CUDA_", "NVIDIA_")
_GPU = "/dev/nvidiactl"


@dataclasses.dataclass(frozen=True)
class KeptDescription:
    """A cached result of `detection_core.tasks.describe`: lines for people, and JSON-ready data."""

    text: str
    data: dict[str, Any]


def describe_config(config: CheckedConfig) -> KeptDescription:
    """Describe the detector of a config, from the cache if possible.

    Configs with files in an object store are not cached, because reading the files' states may take longer.

    Raises:
        ConfigError: when the detector cannot be built; this is not cached.
    """
    named = list(_texts(config))
    if any(files.is_remote(text) for text in named):
        return _build(config)
    cache, key = Cache(os.path.join(cache_folder(), _FOLDER), 0, _KEPT), f"{_key(config, named)}.json"
    kept = cache.read_json(key)
    with contextlib.suppress(KeyError, TypeError):  # missing or damaged
        return KeptDescription(text=kept["text"], data=kept["data"])
    built = _build(config)
    cache.write_json(key, dataclasses.asdict(built))
    return built


def _build(config: CheckedConfig) -> KeptDescription:
    with native_output_to(os.devnull):
        from detection_core.tasks.describe import describe

        found = describe(config)
        # Convert through JSON, so that the first result equals cached ones.
        return KeptDescription(text=found.text(), data=json.loads(json.dumps(found.data())))


def _key(config: Message, named: list[str]) -> str:
    parts: list[Any] = [
        [importlib.metadata.version(package) for package in _PACKAGES],
        code_version(),
        [platform.node(), platform.machine(), os.path.exists(_GPU)],
        sorted(item for item in os.environ.items() if item[0].startswith(_VARIABLES)),
        [state for text in named for state in _states(text)],
    ]
    return entry_key(config.SerializeToString(deterministic=True), json.dumps(parts))


def _texts(message: Message) -> Iterator[str]:
    """Yield all texts of a message, recursively: each may be the path of a file."""
    for field, value in message.ListFields():
        values = value if field.is_repeated else [value]
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            values = [values[key] for key in sorted(values)] if hasattr(values, "keys") else []
        for one in values:
            if isinstance(one, Message):
                yield from _texts(one)
            elif isinstance(one, str):
                yield one


def _states(text: str) -> Iterator[tuple[str, int, int]]:
    """Yield path, size and modification time of the file or checkpoint that a text names."""
    folder, base = os.path.split(text)
    if not base:
        return
    try:
        names = sorted(name for name in os.listdir(folder or ".") if name.startswith(base))
    except OSError:
        return
    for name in names:
        path = os.path.join(folder, name)
        state = os.stat(path, follow_symlinks=True) if os.path.exists(path) else os.lstat(path)
        yield os.path.abspath(path), state.st_size, state.st_mtime_ns
