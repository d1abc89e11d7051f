"""Which version a rollback returns to, which ones stay out of service, and which ones may go."""

from __future__ import annotations

from collections.abc import Collection

from detection_core.artifacts.published import Deployment


def predecessor(deployment: Deployment, complete: Collection[int]) -> int | None:
    """Return the version that a rollback returns to: the newest before the deployed one that is in service.

    Args:
        deployment: what is deployed.
        complete: numbers of the versions whose SavedModel is complete.
    """
    earlier = [n for n in complete if n < (deployment.version or 0) and n not in deployment.rolled_back]
    return max(earlier, default=None)


def returned_to(deployment: Deployment, target: int, known: Collection[int]) -> Deployment:
    """Return the deployment after a return to a version.

    Every later version is taken out of service, as TensorFlow Serving serves the one with the largest number.
    What was rolled back before stays so, whatever number it has: only the target itself comes back.

    Args:
        deployment: what is deployed.
        target: the version to return to.
        known: numbers of all versions.
    """
    later = {n for n in known if n > target}
    return Deployment(target, tuple(sorted((later | {*deployment.rolled_back}) - {target})))


def superfluous(deployment: Deployment, complete: Collection[int], keep: int) -> list[int]:
    """Return the versions to remove, so that `keep` are left: those rolled back first, then the oldest.

    Never the deployed one, and never the one that a rollback would return to.

    Args:
        deployment: what is deployed.
        complete: numbers of the versions whose SavedModel is there, rolled-back ones included.
        keep: how many to keep; 0: all.
    """
    needed = (deployment.version, predecessor(deployment, complete))
    order = sorted(complete, key=lambda n: (n not in deployment.rolled_back, n))
    beyond = len(order) - keep if keep else 0
    return [n for n in order if n not in needed][: max(0, beyond)]
