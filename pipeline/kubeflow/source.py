"""Sources of a submission: a settings file, which is compiled first, or a compiled file."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
from collections.abc import Iterator, Sequence

from detection_core.bounded.text_file import read_text_file
from detection_core.errors import ConfigError
from detection_core.storage.local_copy import local_copy
from detection_core.storage.scratch_folder import ScratchFolder
from pipeline.kubeflow.package import Package, read_package
from pipeline.settings.workflow_settings import PipelineSettings


@dataclasses.dataclass(frozen=True, kw_only=True)
class Source:
    """A pipeline to submit.

    Attributes:
        path: the file that the user named.
        package: the compiled pipeline.
        settings: of the workflow; None for a file that was compiled before.
    """

    path: str
    package: Package
    settings: PipelineSettings | None


@contextlib.contextmanager
def open_source(path: str, overrides: Sequence[str], override_files: Sequence[str] = ()) -> Iterator[Source]:
    """Read the file, compiling settings; the compiled file exists until the block ends.

    Args:
        path: settings file or compiled pipeline.
        overrides: `KEY=VALUE` for a settings file.
        override_files: partial pipeline.config files for a settings file.

    Raises:
        ConfigError: for a file that is neither, or cannot be used.
    """
    if is_package(path):
        if overrides or override_files:
            flag = "--set" if overrides else "--override-file"
            raise ConfigError(
                f"expected no {flag} for a compiled pipeline, whose settings are fixed; give the settings "
                "file, or --param for what the pipeline takes at run time",
                where=path,
            )
        with local_copy(path) as here:
            yield Source(path=path, package=read_package(here), settings=None)
        return
    from pipeline.kubeflow.kfp_backend import compile_pipeline
    from pipeline.settings.settings_file import load_settings

    # The settings name files on the cluster: do not check them here.
    settings = load_settings(path, overrides, override_files=override_files, check_files=False)
    with ScratchFolder() as folder:
        compiled = os.path.join(folder, "pipeline.yaml")
        compile_pipeline(settings, compiled)
        yield Source(path=path, package=read_package(compiled), settings=settings)


def is_package(path: str) -> bool:
    """Tell a compiled pipeline from a settings file, by its top-level keys."""
    text = read_text_file(path, what="file")
    return re.search(r"^(pipelineInfo|deploymentSpec|schemaVersion):", text, re.MULTILINE) is not None
