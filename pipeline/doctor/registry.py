"""Check that a container image exists, by its registry's distribution API."""

import dataclasses
import http.client
import re
import urllib.error
import urllib.request

from pipeline.doctor.finding import Finding, note, ok, problem, unknown

_LIMIT = 8.0
_MANIFESTS = ", ".join(
    (
        "application/vnd.oci.image.index.v1+json",
        "application/vnd.oci.image.manifest.v1+json",
        "application/vnd.docker.distribution.manifest.list.v2+json",
        "application/vnd.docker.distribution.manifest.v2+json",
    )
)


@dataclasses.dataclass(frozen=True)
class Image:
    """The parts of an image's name.

    Attributes:
        registry: host and perhaps port; empty: the name has none.
        repository: path in the registry.
        reference: tag or `sha256:` digest.
    """

    registry: str
    repository: str
    reference: str

    @property
    def pinned(self) -> bool:
        """Whether the name fixes the content: by a digest, or a tag other than `latest`."""
        return self.reference not in ("", "latest")


def parse_image(name: str) -> Image:
    """Split the name of an image.

    As in container engines, the first part is a registry if it contains a dot or colon, or is `localhost`.
    """
    rest, _, digest = name.partition("@")
    first, slash, path = rest.partition("/")
    is_registry = bool(slash) and (bool(re.search("[.:]", first)) or first == "localhost")
    registry, repository = (first, path) if is_registry else ("", rest)
    repository, _, tag = repository.partition(":")
    return Image(registry, repository, digest or tag)


def look_up_image(name: str) -> Finding:
    """Query the registry for an image from this machine, without credentials."""
    image = parse_image(name)
    if not image.pinned:
        return problem(
            f"{name}: names no version, and the cache of a cluster goes by the name",
            "name a digest, or a tag that never moves, as kubeflow.image",
        )
    if not image.registry:
        return note(
            f"{name}: names no registry, so every node has to have it already",
            "push it and name it with the registry as kubeflow.image, or load it into the nodes",
        )
    # As in container engines, a local registry may use plain HTTP.
    scheme = "http" if re.match(r"(localhost|127\.0\.0\.1)(:|$)", image.registry) else "https"
    address = f"{scheme}://{image.registry}/v2/{image.repository}/manifests/{image.reference}"
    request = urllib.request.Request(address, method="HEAD", headers={"Accept": _MANIFESTS})
    try:
        with urllib.request.urlopen(request, timeout=_LIMIT):
            return ok(f"{name}: the registry has it")
    except urllib.error.HTTPError as e:
        return _refused(name, image, e.code)
    except (OSError, ValueError, http.client.HTTPException) as e:
        reason = getattr(e, "reason", e)
        return unknown(
            f"{name}: {image.registry} does not answer here ({reason})",
            "check the name and the network; nodes may reach what this machine does not",
        )


def _refused(name: str, image: Image, status: int) -> Finding:
    if status in (401, 403):
        return note(
            f"{name}: {image.registry} answers, and shows it with credentials only",
            "name a secret with them in kubeflow.image_pull_secrets, or give the nodes access",
        )
    if status == 404:
        return problem(
            f"{name}: {image.registry} has no {image.repository} {image.reference}",
            "push the image, or correct kubeflow.image",
        )
    return unknown(f"{name}: {image.registry} answered {status}", "try again, then ask who runs the registry")
