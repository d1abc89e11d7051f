import pytest

from pipeline.doctor.finding import State
from pipeline.doctor.registry import look_up_image, parse_image
from tests.support.local_server import LocalServer
from tests.support.raw_server import serve_raw


def test_the_parts_of_a_name():
    for name, parts in {
        "detflow": ("", "detflow", ""),
        "detflow:1.0": ("", "detflow", "1.0"),
        "team/detflow:1.0": ("", "team/detflow", "1.0"),
        "localhost/detflow:1": ("localhost", "detflow", "1"),
        "registry.example:5000/a/b:1": ("registry.example:5000", "a/b", "1"),
        "registry.example/a@sha256:12": ("registry.example", "a", "sha256:12"),
        "registry.example/a:1@sha256:12": ("registry.example", "a", "sha256:12"),
    }.items():
        image = parse_image(name)
        assert (image.registry, image.repository, image.reference) == parts, name


@pytest.fixture
def registry():
    """Answers HEAD of a manifest by its tag: /v2/NAME/manifests/404 with 404."""
    asked = []

    def answer(request):
        asked.append(request.path)
        return int(request.path.rpartition("/")[2]), "text/plain", ""

    server = LocalServer(answer)
    server.start()
    yield server.url.removeprefix("http://"), asked
    server.stop()


def test_the_registry_is_asked(registry):
    host, asked = registry
    for tag, state, words in (
        ("200", State.OK, "has it"),
        ("401", State.NOTE, "credentials"),
        ("403", State.NOTE, "credentials"),
        ("404", State.PROBLEM, "has no detflow 404"),
        ("500", State.UNKNOWN, "answered 500"),
    ):
        finding = look_up_image(f"{host}/detflow:{tag}")
        assert finding.state is state and words in finding.found
        assert asked.pop() == f"/v2/detflow/manifests/{tag}" and not asked


def test_a_registry_that_does_not_answer_is_not_seen_and_a_name_that_moves_is_refused():
    assert look_up_image("127.0.0.1:1/detflow:1").state is State.UNKNOWN
    with serve_raw(lambda connection, request: connection.sendall(b"SSH-2.0\r\n\r\n")) as address:
        finding = look_up_image(f"{address.removeprefix('http://')}/detflow:1")
    assert finding.state is State.UNKNOWN and "does not answer" in finding.found
    for name in ("registry.example/detflow", "registry.example/detflow:latest"):
        assert look_up_image(name).state is State.PROBLEM
    assert look_up_image("detflow:1.0").state is State.NOTE
