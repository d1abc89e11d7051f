"""Local paths and metadata of Kubeflow Pipelines' artifacts in a container.

The metadata store holds numbers, texts and structures only, and changes an input's metadata. A bool comes
back as 1 or 0, an int as a float, a list as {"list": [...]}, a map as {"struct": {...}}. Each further step
wraps lists and maps once more. A text comes back unchanged.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from typing import Any

# Keys of the artifact's type, and of its exact properties as one JSON text.
TYPE, PROPERTIES = "artifact_type", "properties"
# Set for an absent artifact; see `bind.ABSENT`.
IS_ABSENT = "absent"

_FOLDERS = {"gs": "gcs", "s3": "s3", "minio": "minio"}
_WORKSPACE = "_kfp_workspace"
_ADDED_BY_KFP = ("display_name", "store_session_info")

Artifact = Mapping[str, Any]


def local_path(artifact: Artifact, root: str = "/") -> str:
    """Return the local path of an artifact in the container.

    Object stores are mounted below `root`, which is not `/` in tests only.
    """
    if artifact.get("customPath"):
        return str(artifact["customPath"])
    uri = str(artifact.get("uri", ""))
    scheme, separator, rest = uri.partition("://")
    if scheme in _FOLDERS and separator:
        path = os.path.join(_FOLDERS[scheme], rest)
    elif scheme == "oci" and separator:
        path = os.path.join("oci", rest.replace("/", "_"), "models")
    else:
        return uri  # KFP's local runner passes paths
    if plain_metadata(artifact).get(_WORKSPACE):
        path = os.path.join("kfp-workspace", ".artifacts", path)
    return os.path.join(root, path)


def plain_metadata(artifact: Artifact) -> dict[str, Any]:
    """Undo the metadata store's changes to an input artifact's metadata."""
    metadata = artifact.get("metadata") or {}
    return {name: _plain(value) for name, value in metadata.items() if name not in _ADDED_BY_KFP}


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        if value.keys() in ({"list"}, {"struct"}):
            return _plain(next(iter(value.values())))
        return {name: _plain(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def read_properties(artifact: Artifact) -> dict[str, Any]:
    """Return an input artifact's properties: exact if our steps made it, else from its metadata."""
    metadata = plain_metadata(artifact)
    try:
        return dict(json.loads(metadata[PROPERTIES]))
    except (KeyError, TypeError, ValueError):
        return {name: value for name, value in metadata.items() if name not in (TYPE, PROPERTIES)}


def make_metadata(artifact_type: str, properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metadata of an output: its type, and its properties for users and for the next step.

    Of the properties, only texts, bools and finite numbers are kept.
    """
    kept = {name: value for name, value in properties.items() if _is_scalar(value)}
    return {TYPE: artifact_type, **kept, PROPERTIES: json.dumps(kept, allow_nan=False)}


def finite_numbers(values: Mapping[str, Any]) -> dict[str, float]:
    """Return the finite numbers, without bools."""
    return {
        name: value
        for name, value in values.items()
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    }


def _is_scalar(value: Any) -> bool:
    return isinstance(value, str | bool) or (isinstance(value, int | float) and math.isfinite(value))
