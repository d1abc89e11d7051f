from detection_core.errors import ConfigError
from pipeline.settings.settings_file import load_settings
from tests.pipeline.golden import SETTINGS
from tests.support.refusals import not_refused


def _load(*overrides):
    return load_settings(str(SETTINGS), overrides, check_files=False).kubeflow


def test_a_step_has_the_defaults_with_its_own_over_them_and_what_is_wrong_is_named():
    kubeflow = _load("kubeflow.defaults.env={A: a, B: b}", "kubeflow.steps.trainer={env: {B: c}, cpu: 3}")
    trainer, pusher = kubeflow.task("trainer"), kubeflow.task("pusher")
    assert trainer.env == {"A": "a", "B": "c"} and pusher.env == {"A": "a", "B": "b"}
    assert trainer.cpu == "3" and pusher.cpu == "1"
    assert trainer.memory == pusher.memory == "2Gi"
    assert trainer.retries == 2
    assert not not_refused(lambda override: _load(f"kubeflow.{override}"), WRONG, ConfigError)


WRONG = [
    ("image=", "kubeflow.image: expected the name of a container image"),
    ("image_pull_policy=Sometimes", "kubeflow.image_pull_policy: expected Always"),
    ("steps.trainr={}", "kubeflow.steps.trainr: expected one of run_checker"),
    ("steps.trainer=3", r"kubeflow.steps.trainer: expected a mapping, found 3"),
    ("steps.trainer={gpus: 1}", "unknown key kubeflow.steps.trainer.gpus; did you mean .*gpu"),
    ("steps.trainer={gpu: many}", "kubeflow.steps.trainer.gpu: expected a whole number, found 'many'"),
    ("defaults.gpu=-1", "kubeflow.defaults.gpu: expected 0 to 1,024"),
    ("defaults.cpu=two", "kubeflow.defaults.cpu: expected a number of processors"),
    ("defaults.memory=8GB", "kubeflow.defaults.memory: expected a size such as 8Gi"),
    ("defaults.memory=1.5Gi", "kubeflow.defaults.memory: expected a size such as 8Gi"),
    ("defaults.retry_delay=1m", "kubeflow.defaults.retry_delay: expected seconds"),
    ("defaults.retry_factor=0.5", "kubeflow.defaults.retry_factor: expected 1 to 1,000"),
    ("steps.pusher={pvcs: {claim: models}}", "kubeflow.steps.pusher.pvcs.claim: expected an absolute folder"),
    (
        "steps.pusher={pvcs: {a: /b}, secret_volumes: {a: /c}}",
        "pusher.pvcs, .*: expected every name once, .*'a'",
    ),
    (
        "steps.pusher={pvcs: {a: /a/}, config_map_volumes: {b: /a}}",
        "expected every folder once, found '/a' tw",
    ),
    ("steps.trainer={pvcs: {c: /dev/shm}, shared_memory: 1Gi}", "found '/dev/shm' twice"),
    ("steps.pusher={config_map_volumes: {ca.crt: /ca}}", "expected small letters, digits .*found 'ca.crt'"),
    ("defaults.secret_env={s: KEY}", "kubeflow.defaults.secret_env.s: expected a mapping"),
    ("defaults.env={A: 1}", "kubeflow.defaults.env.A: expected a text, found 1; put it in quotes"),
    ("defaults.tolerations=[{taint: x}]", r"tolerations\[0\].taint: expected key, operator, value, effect"),
]
