"""Submit a settings file or a compiled pipeline: pipeline, version, experiment, run.

Existing parts are reused: the pipeline and the experiment by name, the version by the file's fingerprint,
which is its name. Concurrent submissions end with the same version.
"""

import contextlib
import dataclasses
import datetime
import functools
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from detection_core.errors import ConfigError
from detection_core.storage import files
from detection_core.storage.files import local_copy
from detection_core.storage.scratch_folder import ScratchFolder
from pipeline.kubeflow.api_errors import ClusterError
from pipeline.kubeflow.connection import Connection
from pipeline.kubeflow.kfp_rules import NAME_CHARACTERS
from pipeline.kubeflow.package import Package, read_package
from pipeline.settings.kubeflow_settings import KubeflowSettings
from pipeline.settings.workflow_settings import PipelineSettings

_PAGE = 100
# `model/experiment.go`: longer ones cause a database error of the server (500).
_EXPERIMENT_CHARACTERS = 128


@dataclasses.dataclass(frozen=True, kw_only=True)
class PipelineVersion:
    """A pipeline version on the server.

    Attributes:
        name: name of the version: the fingerprint of its file.
        reused: whether the server already had it.
        root: the file's artifact folder, passed to each run, because the server does not look it up. Empty:
            the server's.
    """

    pipeline_id: str
    version_id: str
    name: str
    reused: bool
    root: str = ""


def check_names(pipeline: str, experiment: str) -> None:
    """Refuse names that a server would refuse later; ConfigError names the maximum length."""
    for what, name, most in (
        ("pipeline's name", pipeline, NAME_CHARACTERS),
        ("experiment's name", experiment, _EXPERIMENT_CHARACTERS),
    ):
        if len(name.encode()) > most:
            raise ConfigError(
                f"expected {most} characters at most, found {len(name.encode())} ({name[:40]}...); choose a "
                "shorter one",
                where=what,
            )


def publish(connection: Connection, package: Package) -> PipelineVersion:
    """Upload a pipeline version, or find one with the same content; ClusterError from the server."""
    pipeline_id = _ensure_pipeline(connection, package.name)
    name = f"{package.name}-{package.digest}"
    upload = functools.partial(
        connection.client.upload_pipeline_version,
        package.path,
        pipeline_version_name=name,
        pipeline_id=pipeline_id,
    )
    version_id, reused = _find_or_make(
        connection, "pipeline_version", name, f"uploading {name}", upload, pipeline_id=pipeline_id
    )
    return PipelineVersion(
        pipeline_id=pipeline_id, version_id=version_id, name=name, reused=reused, root=package.root
    )


def start_run(
    connection: Connection,
    version: PipelineVersion,
    name: str,
    *,
    experiment_id: str,
    parameters: Mapping[str, Any],
    service_account: str,
) -> str:
    """Start a run of a version with checked parameters, and return its id.

    An empty service account stands for the server's default.

    Raises:
        ClusterError: from the server.
    """
    made = connection.call(
        f"starting the run {name}",
        connection.client.run_pipeline,
        experiment_id=experiment_id,
        job_name=name,
        pipeline_id=version.pipeline_id,
        version_id=version.version_id,
        params=dict(parameters),
        pipeline_root=version.root or None,
        service_account=service_account or None,
    )
    return str(made.run_id)


def ensure_experiment(connection: Connection, name: str) -> str:
    """Return the id of an experiment, created if missing."""
    doing, namespace = f"creating the experiment {name}", connection.namespace
    create = functools.partial(connection.client.create_experiment, name, namespace=namespace)
    return _find_or_make(connection, "experiment", name, doing, create, namespace=namespace)[0]


def default_run_name(pipeline_name: str) -> str:
    """Return the pipeline's name and the UTC time, to the second."""
    return f"{pipeline_name} {datetime.datetime.now(datetime.UTC):%Y-%m-%d %H:%M:%S}"


def pages(
    connection: Connection, doing: str, function: Callable[..., Any], field: str, **arguments: Any
) -> Iterator[Any]:
    """Yield the entries of the client's listing function, page by page."""
    token = ""
    while True:
        answer = connection.call(doing, function, page_token=token, page_size=_PAGE, **arguments)
        yield from getattr(answer, field) or ()
        token = answer.next_page_token or ""
        if not token:
            return


def filter_by_name(name: str) -> str:
    """Return the filter of a listing function for a display name."""
    return json.dumps({"predicates": [{"operation": 1, "key": "display_name", "stringValue": name}]})


def _find_or_make(
    connection: Connection, kind: str, name: str, doing: str, make: Callable[[], Any], **listing: Any
) -> tuple[str, bool]:
    """Return the id of a named object, and whether it existed; concurrent callers get the same one.

    `kind` is the object's name in kfp's client, such as `pipeline_version`; `doing` names the call of `make`.
    """

    def find() -> str:
        listed = pages(
            connection,
            f"looking for the {kind.removeprefix('pipeline_')} {name}",
            getattr(connection.client, f"list_{kind}s"),
            f"{kind}s",
            filter=filter_by_name(name),
            **listing,
        )
        # The server's comparison ignores case.
        found = next((entry for entry in listed if entry.display_name == name), None)
        return str(getattr(found, f"{kind}_id")) if found else ""

    found = find()
    if found:
        return found, True
    try:
        return str(getattr(connection.call(doing, make), f"{kind}_id")), False
    except ClusterError as e:
        # 409: another caller made it meanwhile.
        found = find() if e.status == 409 else ""
        if found:
            return found, True
        raise


def _ensure_pipeline(connection: Connection, name: str) -> str:
    import kfp_server_api

    # Not `upload_pipeline`, which also creates a version with the pipeline's name.
    body = kfp_server_api.V2beta1Pipeline(display_name=name, namespace=connection.namespace)
    create = functools.partial(connection.client.pipelines.pipeline_service_create_pipeline, pipeline=body)
    doing = f"creating the pipeline {name}"
    return _find_or_make(connection, "pipeline", name, doing, create, namespace=connection.namespace)[0]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Source:
    """A pipeline to submit; `settings` is None for a compiled file."""

    path: str
    package: Package
    settings: PipelineSettings | None

    @property
    def kubeflow(self) -> KubeflowSettings:
        """The settings of its runs; the defaults for a compiled file."""
        return self.settings.kubeflow if self.settings else KubeflowSettings()


@contextlib.contextmanager
def open_source(path: str, overrides: Sequence[str], override_files: Sequence[str] = ()) -> Iterator[Source]:
    """Read the file, compiling settings; the compiled file exists until the block ends.

    Overrides and override files are for a settings file only.

    Raises:
        ConfigError: for an invalid file.
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
    from pipeline.kubeflow.kfp_backend import render_pipeline
    from pipeline.settings.settings_file import load_settings

    # The settings name files on the cluster: do not check them here.
    settings = load_settings(path, overrides, override_files=override_files, check_files=False)
    with ScratchFolder() as folder:
        compiled = os.path.join(folder, "pipeline.yaml")
        files.write_text(compiled, render_pipeline(settings))
        yield Source(path=path, package=read_package(compiled), settings=settings)


def is_package(path: str) -> bool:
    """Tell a compiled pipeline from a settings file, by its top-level keys."""
    text = files.read_user_text(path, what="file")
    return re.search(r"^(pipelineInfo|deploymentSpec|schemaVersion):", text, re.MULTILINE) is not None
