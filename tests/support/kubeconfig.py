"""Kubeconfigs of one cluster and one user."""

from pathlib import Path
from typing import Any

import yaml


def write_kubeconfig(
    path: Path, server: str, user: dict[str, Any], name: str = "here", **cluster: str
) -> str:
    """Write one whose context, cluster and user have the same name; `cluster` has more fields of it."""
    tree = {"apiVersion": "v1", "kind": "Config", "current-context": name}
    tree["contexts"] = [{"name": name, "context": {"cluster": name, "user": name}}]
    tree["clusters"] = [{"name": name, "cluster": {"server": server, **cluster}}]
    path.write_text(yaml.safe_dump({**tree, "users": [{"name": name, "user": user}]}))
    return str(path)
