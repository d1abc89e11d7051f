import pytest

from pipeline.tuning.workers import visible_gpus, worker_environment


@pytest.fixture(autouse=True)
def no_gpu(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    for name in ("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS", "OMP_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: set(range(8)))


def test_one_training_has_the_whole_machine():
    assert worker_environment(0, 1) == {}


def test_several_divide_the_processors():
    found = worker_environment(1, 3)
    assert found == {"TF_NUM_INTRAOP_THREADS": "2", "TF_NUM_INTEROP_THREADS": "2", "OMP_NUM_THREADS": "2"}
    assert worker_environment(0, 20)["OMP_NUM_THREADS"] == "1"


def test_what_the_environment_says_stays(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    assert "OMP_NUM_THREADS" not in worker_environment(0, 2)


@pytest.mark.parametrize(
    ("devices", "workers", "dealt"),
    [
        ("0,1", 2, ["0", "1"]),
        ("0,1", 4, ["0", "1", "0", "1"]),
        ("3,5,7", 2, ["3,7", "5"]),
        ("GPU-a", 2, ["GPU-a"] * 2),
    ],
)
def test_gpus_are_dealt_out(monkeypatch, devices, workers, dealt):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", devices)
    found = [worker_environment(slot, workers) for slot in range(workers)]
    assert [each["CUDA_VISIBLE_DEVICES"] for each in found] == dealt
    assert {each["TF_FORCE_GPU_ALLOW_GROWTH"] for each in found} == {"true"}


def test_none_where_none_may_be_seen(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    assert visible_gpus() == []
