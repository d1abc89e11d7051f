import re

from detection_core.config.check import find_problems
from detection_core.config.load import parse_pipeline_config
from tests.support.cases import cases
from tests.support.tiny_training import config_text


def problems(block):
    text = config_text().replace("train_config {", f"train_config {{ monitoring {{ {block} }}")
    return find_problems(parse_pipeline_config(text))


@cases(
    ("mlflow { experiment: ' ' }", r"monitoring\.mlflow\.experiment: expected a name"),
    ("mlflow { tracking_uri: 'https://me:secret@host/x' }", r"tracking_uri: .*without a password"),
    ("wandb { project: 'a/b' }", r"monitoring\.wandb\.project: expected a name without any of .*'a/b'"),
    ("profile { steps: 0 }", r"monitoring\.profile\.steps: .*a number from 1 to 10,000"),
    ("wandb { project: '' }", r"monitoring\.wandb\.project"),
)
def test_what_no_server_would_take_is_refused(*, block, found):
    [problem] = problems(block)
    text = f"{problem.path}: {problem.message}"
    assert re.search(found, text) and "secret" not in text


def test_servers_and_stores_are_taken():
    for uri in ("", "http://mlflow:5000", "sqlite:///mlflow.db", "databricks", "file:///x@y/z"):
        assert not problems(f"mlflow {{ tracking_uri: '{uri}' }} wandb {{}}")
