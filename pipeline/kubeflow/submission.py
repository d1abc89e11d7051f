"""From a compiled pipeline file to a run: pipeline, version, experiment, run.

Every part is made once and found again: the pipeline and the experiment by name, the version by the
fingerprint of the file, which is its name. Two submissions at the same time end with the same version.
"""

from __future__ import annotations

import dataclasses
import datetime
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pipeline.kubeflow.api_errors import ClusterError
from pipeline.kubeflow.connection import Connection
from pipeline.kubeflow.package import Package

_PAGE = 100


@dataclasses.dataclass(frozen=True, kw_only=True)
class Version:
    """A pipeline version on the server.

    Attributes:
        pipeline_id: of the pipeline.
        version_id: of the version.
        name: of the version: the fingerprint of its file.
        reused: True where the server had it already.
        root: folder of the artifacts that the file names; every run is told it, as the server does not look
            it up. Empty: the server's.
    """

    pipeline_id: str
    version_id: str
    name: str
    reused: bool
    root: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunRequest:
    """What a run is asked to be.

    Attributes:
        name: shown in the user interface.
        experiment_id: of the experiment.
        parameters: checked values.
        service_account: Kubernetes service account of the steps; empty: the server's default.
    """

    name: str
    experiment_id: str
    parameters: Mapping[str, Any]
    service_account: str = ""


def publish(connection: Connection, package: Package) -> Version:
    """Upload a pipeline version, or find the one with the same content.

    Raises:
        ClusterError: from the server.
    """
    pipeline_id = _pipeline_id(connection, package.name)
    name = f"{package.name}-{package.digest}"

    def version(version_id: str, *, reused: bool) -> Version:
        return Version(
            pipeline_id=pipeline_id, version_id=version_id, name=name, reused=reused, root=package.root
        )

    def find() -> Version | None:
        found = _find(
            connection,
            f"looking for version {name}",
            connection.client.list_pipeline_versions,
            "pipeline_versions",
            name,
            pipeline_id=pipeline_id,
        )
        version_id = found and found.pipeline_version_id
        return version_id and version(version_id, reused=True)

    def upload() -> Version:
        made = connection.call(
            f"uploading {name}",
            connection.client.upload_pipeline_version,
            package.path,
            pipeline_version_name=name,
            pipeline_id=pipeline_id,
        )
        return version(made.pipeline_version_id, reused=False)

    return _find_or_make(find, upload)


def start_run(connection: Connection, version: Version, request: RunRequest) -> str:
    """Start a run of a version and return its id.

    Raises:
        ClusterError: from the server.
    """
    made = connection.call(
        f"starting the run {request.name}",
        connection.client.run_pipeline,
        experiment_id=request.experiment_id,
        job_name=request.name,
        pipeline_id=version.pipeline_id,
        version_id=version.version_id,
        params=dict(request.parameters),
        pipeline_root=version.root or None,
        service_account=request.service_account or None,
    )
    return str(made.run_id)


def ensure_experiment(connection: Connection, name: str) -> str:
    """Return the id of an experiment, which is made where it is missing."""

    def find() -> str | None:
        found = _find(
            connection,
            f"looking for the experiment {name}",
            connection.client.list_experiments,
            "experiments",
            name,
            namespace=connection.namespace,
        )
        return found and str(found.experiment_id)

    def make() -> str:
        made = connection.call(
            f"creating the experiment {name}",
            connection.client.create_experiment,
            name,
            namespace=connection.namespace,
        )
        return str(made.experiment_id)

    return _find_or_make(find, make)


def default_run_name(pipeline_name: str) -> str:
    """Return the pipeline's name and the time, to the second, UTC."""
    return f"{pipeline_name} {datetime.datetime.now(datetime.UTC):%Y-%m-%d %H:%M:%S}"


def pages(
    connection: Connection, doing: str, function: Callable[..., Any], field: str, **arguments: Any
) -> Iterator[Any]:
    """Yield what a listing function of the client lists, page after page."""
    token = ""
    while True:
        answer = connection.call(doing, function, page_token=token, page_size=_PAGE, **arguments)
        yield from getattr(answer, field) or ()
        token = answer.next_page_token or ""
        if not token:
            return


def named(name: str) -> str:
    """Return the filter of a listing function for a display name."""
    return json.dumps({"predicates": [{"operation": 1, "key": "display_name", "stringValue": name}]})


def _find(
    connection: Connection, doing: str, function: Callable[..., Any], field: str, name: str, **arguments: Any
) -> Any:
    # The server's comparison ignores case.
    listed = pages(connection, doing, function, field, filter=named(name), **arguments)
    return next((entry for entry in listed if entry.display_name == name), None)


def _find_or_make(find: Callable[[], Any], make: Callable[[], Any]) -> Any:
    found = find()
    if found:
        return found
    try:
        return make()
    except ClusterError as e:
        # 409: somebody else made it meanwhile.
        found = find() if e.status == 409 else None
        if found:
            return found
        raise


def _pipeline_id(connection: Connection, name: str) -> str:
    import kfp_server_api

    def find() -> str | None:
        found = _find(
            connection,
            f"looking for the pipeline {name}",
            connection.client.list_pipelines,
            "pipelines",
            name,
            namespace=connection.namespace,
        )
        return found and str(found.pipeline_id)

    def make() -> str:
        # Not `upload_pipeline`, which makes a first version that bears the pipeline's name.
        body = kfp_server_api.V2beta1Pipeline(display_name=name, namespace=connection.namespace)
        made = connection.call(
            f"creating the pipeline {name}",
            connection.client.pipelines.pipeline_service_create_pipeline,
            pipeline=body,
        )
        return str(made.pipeline_id)

    return _find_or_make(find, make)
