"""Workflows compiled for Kubeflow Pipelines, each once for all tests of a process."""

import copy
import functools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import yaml

from pipeline.kubeflow.kfp_backend import render_pipeline
from pipeline.settings.settings_file import load_settings
from tests.pipeline.golden import GOLDEN, SETTINGS

_Found = TypeVar("_Found")
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def with_short_stack(function: Callable[..., _Found], *args: Any) -> _Found:
    """Call a function in a thread: kfp inspects the stack at each setting of a task, pytest's is deep."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(function, *args).result()


@functools.cache
def compiled(*overrides: str) -> str:
    """Compile the cluster example with some overrides."""
    settings = load_settings(str(SETTINGS), list(overrides), check_files=False)
    return with_short_stack(render_pipeline, settings)


def documents(*overrides: str) -> tuple[dict, dict]:
    """Return pipeline and platform of the compiled example; without overrides, of the golden file."""
    pipeline, platform = _documents(*overrides)
    return copy.deepcopy(pipeline), copy.deepcopy(platform)


@functools.cache
def _documents(*overrides: str) -> tuple[dict, dict]:
    text = compiled(*overrides) if overrides else GOLDEN.read_text(encoding="utf-8")
    pipeline, platform = yaml.load_all(text, _LOADER)
    return pipeline, platform
