from tests.pipeline.kubeflow.conftest import clean_environment, package_path, server, settled_at_once

__all__ = ["clean_environment", "package_path", "server", "settled_at_once"]
