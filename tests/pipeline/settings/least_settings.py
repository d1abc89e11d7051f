"""The least that a settings file holds, and every key that it may hold."""

from pipeline.settings.data_settings import TileSettings
from pipeline.settings.kubeflow_settings import ConnectionSettings, TaskSettings, WorkspaceSettings
from pipeline.settings.setting_types import Settings
from pipeline.settings.workflow_settings import PipelineSettings


def _keys():
    """Every key of a settings file that a user may write, with sections and the maps of kubeflow."""
    for name, field in PipelineSettings.model_fields.items():
        yield name
        if issubclass(field.annotation, Settings):
            yield from (f"{name}.{inner}" for inner in field.annotation.model_fields)
    yield from (f"data.tiles.{name}" for name in TileSettings.model_fields)
    yield from (f"kubeflow.defaults.{name}" for name in TaskSettings.model_fields)
    yield from (f"kubeflow.steps.trainer.{name}" for name in TaskSettings.model_fields)
    yield from (f"kubeflow.workspace.{name}" for name in WorkspaceSettings.model_fields)
    yield from (f"kubeflow.connection.{name}" for name in ConnectionSettings.model_fields)


KEYS = tuple(_keys())


def tree_with(key="", value=None):
    """Return the least settings, and one more value."""
    tree = {"name": "t", "workspace": "w", "data": {"path": "."}, "model": {"config": "c"}}
    if key:
        *sections, last = key.split(".")
        node = tree
        for section in sections:
            node = node.setdefault(section, {})
        node[last] = value
    return tree
