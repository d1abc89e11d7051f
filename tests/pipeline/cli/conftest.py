from tests.pipeline.kubeflow.conftest import clean_environment, package_path, server

__all__ = ["clean_environment", "package_path", "server"]
