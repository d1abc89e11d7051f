from pipeline.kubeflow import runs
from pipeline.kubeflow.step_log import error_in, no_log, step_log
from pipeline.kubeflow.step_state import StepState
from tests.pipeline.kubeflow.clients import connect, start

_LAUNCHER = "I1101 01:00:00.123456      30 launcher_v2.go:190] publish success."


def _step(connection, run_id, name, looks=0):
    for _ in range(looks):
        runs.read_run(connection, run_id)
    return next(s for s in runs.read_run(connection, run_id).steps if s.name == name)


def test_the_end_of_the_last_attempt_is_found(server, connection, package_path):
    for retried in (True, False):
        run_id = start(connection, package_path)
        server.state.retried = retried
        server.state.outcomes = {"example-gen": {"failed_attempts": int(retried)}}
        step = _step(connection, run_id, "example-gen", looks=2)
        if retried:
            server.write_log(run_id, "example-gen", "of the first attempt", attempt=0)
            assert step_log(connection, run_id, step) == "of the first attempt"
        server.write_log(run_id, "example-gen", "\n".join(f"line {i}" for i in range(100)))
        server.write_log(run_id, "pusher", "of another step")
        lines = step_log(connection, run_id, step).splitlines()
        assert lines == [f"line {i}" for i in range(75, 100)]


def test_the_log_of_a_step_that_runs_is_that_of_its_pod(server, package_path):
    for namespace, behind_ui in (("team", False), ("team", True), ("", True), ("", False)):
        server.state.multi_user, server.behind_ui = bool(namespace), behind_ui
        connection = connect(server, namespace=namespace)
        run_id = start(connection, package_path)
        step = _step(connection, run_id, "example-gen")
        assert step.state == "running" and step_log(connection, run_id, step) == ""
        server.write_log(run_id, "example-gen", "step 1")
        # A server without users reads no log of a pod that lives; its user interface does.
        assert step_log(connection, run_id, step) == ("step 1" if namespace or behind_ui else "")


def test_the_log_of_what_has_ended_is_in_the_archive_and_behind_the_user_interface(server, package_path):
    for namespace, behind_ui in (("", True), ("team", True), ("", False)):
        server.state.multi_user, server.behind_ui = bool(namespace), behind_ui
        connection = connect(server, namespace=namespace)
        run_id = start(connection, package_path)
        step = _step(connection, run_id, "example-gen", looks=1)
        server.write_log(run_id, "example-gen", "the end")
        server.pods_gone = not behind_ui
        assert step_log(connection, run_id, step) == "the end"


# As the driver of 2.17.0 writes (`cmd/driver/main.go`): blocks without a prefix of their own, then the cause.
_DRIVER = """\
I1123 10:00:00.100001      18 main.go:119] Setting log level to: '1'
I1123 10:00:00.100002      18 main.go:333] input ComponentSpec:{
  "executorLabel": "exec-example-gen"
}
I1123 10:00:00.100003      18 main.go:542] output podSpecPatch=
{"containers":[{"name":"main"}]}
W1123 10:00:00.100004      18 k8s.go:625] NodeAffinityTerm 0 is empty, skipping
F1123 10:00:00.100005      18 main.go:127] KFP driver: driver.Container(...) failed: secrets "s3" not found"""
# And the launcher around a training (`component/launcher_v2.go`).
_TRAINING = [
    "I0000 00:00:1763892000.1 77 gpu_device.cc:2020] Created device",
    '{"loss": 1.5}',
    "{",
    "  a line of the training's own",
    "}",
]
_AROUND = """\
I1123 10:00:00.100001      30 cache.go:89] Connecting to cache endpoint ml-pipeline.kubeflow:8887
{training}
I1123 10:09:00.100001      30 launcher_v2.go:1230] ExecutorOutput: {{
  "artifacts": {{
    "model": {{"artifacts": []}}
  }}
}}
I1123 10:09:00.100002      30 object_store.go:231] uploadFile(localFilePath="/tmp/a", blobFilePath="b")
E1123 10:09:00.100003      30 launcher_v2.go:898] All upload artifact attempts failed: no space left
F1123 10:09:00.100004      30 main.go:59] failed to execute component: no space left"""


def test_a_drivers_cause_is_left_of_its_log(server, connection, run_id):
    server.state.failing_step, server.state.failing_driver = "example-gen", True
    step = _step(connection, run_id, "example-gen", looks=3)
    server.pods_gone = True
    cause = "F1101 01:00:01 main.go:79] no such claim"
    server.write_log(run_id, "example-gen", f"{_LAUNCHER}\n{cause}", driver=True)
    assert step_log(connection, run_id, step) == cause and error_in(cause) == "no such claim"
    server.write_log(run_id, "example-gen", _DRIVER, driver=True)
    assert step_log(connection, run_id, step).splitlines() == [_DRIVER.splitlines()[-1]]
    everything = step_log(connection, run_id, step, launcher=True)
    assert everything == _DRIVER and error_in(everything).endswith('failed: secrets "s3" not found')


def test_a_trainings_own_lines_are_shown_as_many_as_asked_for(server, connection, run_id):
    step = _step(connection, run_id, "example-gen", looks=1)
    training = [*(f"step {i}" for i in range(100)), *_TRAINING]
    server.write_log(run_id, "example-gen", _AROUND.format(training="\n".join(training)))
    errors = _AROUND.format(training="").splitlines()[-2:]
    assert step_log(connection, run_id, step).splitlines() == [*training[-23:], *errors]
    assert step_log(connection, run_id, step, lines=1000).splitlines() == [*training, *errors]
    assert step_log(connection, run_id, step, lines=3).splitlines() == [training[-1], *errors]


def test_lines_of_the_launcher_are_left_out_unless_asked_for_and_pages_are_no_log(server, connection, run_id):
    step = _step(connection, run_id, "example-gen", looks=1)
    text = f"{_LAUNCHER}\nI am no launcher.go:1]\n{_LAUNCHER}\nread 10 images"
    server.write_log(run_id, "example-gen", text)
    assert step_log(connection, run_id, step) == "I am no launcher.go:1]\nread 10 images"
    assert step_log(connection, run_id, step, launcher=True).count("publish success") == 2
    server.misbehave("GET .*log.*", "html", times=99)
    assert step_log(connection, run_id, step) == ""
    server.forget_faults()
    server.write_log(run_id, "example-gen", '{"error_message": "x", "level": "error"}')
    assert "level" in step_log(connection, run_id, step)


def test_why_there_is_no_log_is_said():
    for state, said in (
        ("cached", "trainer was not run: its outputs are those of an earlier run, from the cache"),
        ("not run", "trainer was not run; it has no log"),
        ("waiting for its pod", "trainer has no log, as its container has not started; see http://ui"),
        ("running", "trainer has no log here yet; that of its pod is shown at http://ui"),
        ("pending", "trainer has not begun; it has no log yet, see http://ui"),
        ("failed", "the server keeps no log of trainer; see http://ui"),
    ):
        assert no_log(StepState(name="trainer", state=state), "http://ui").startswith(said)
