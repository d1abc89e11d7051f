from pipeline.kubeflow.connection_options import resolve_options
from pipeline.settings.connection_settings import ConnectionOptions


def test_a_flag_wins_over_the_environment_and_that_over_the_settings():
    environment = {"KF_PIPELINES_ENDPOINT": "http://env", "DETFLOW_NAMESPACE": "env"}
    settings = {"host": "http://settings", "namespace": "settings", "timeout": 7, "ca_file": ""}
    found = resolve_options({"host": "http://flag", "namespace": None}, settings, environment)
    assert found == ConnectionOptions(host="http://flag", namespace="env", timeout=7)
    # A flag may switch something off.
    assert not resolve_options({"verify_tls": False}, {"verify_tls": True}, {}).verify_tls
    assert resolve_options({"verify_tls": None}, {"verify_tls": True}, {}).verify_tls


def test_a_way_to_sign_in_replaces_a_weaker_one_of_another_kind():
    environment = {"KF_PIPELINES_SA_TOKEN_PATH": "/token"}
    settings = {"cookie_env": "COOKIE"}
    assert resolve_options({}, settings, environment) == ConnectionOptions(token_file="/token")
    assert resolve_options({"token_env": "T"}, settings, environment) == ConnectionOptions(token_env="T")
    assert resolve_options({}, settings, {}) == ConnectionOptions(cookie_env="COOKIE")
