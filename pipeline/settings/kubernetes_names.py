"""Rules of settings for names and quantities of Kubernetes.

From the Kubernetes documentation: "Object Names and IDs", "Labels and Selectors", "Resource Management for
Pods and Containers", and the validation of environment variables in its API.
"""

from __future__ import annotations

from pipeline.settings.setting_types import matching

_PART = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_LABEL = r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_SUBDOMAIN = rf"{_PART}(\.{_PART})*"

OBJECT_NAME = matching(
    _SUBDOMAIN, "the name of an object: small letters, digits, hyphens and dots, 253 at most", longest=253
)
OBJECT_NAME_OR_NOTHING = matching(
    f"({_SUBDOMAIN})?", "small letters, digits, hyphens and dots, 253 at most, or nothing", longest=253
)
NAMESPACE_OR_NOTHING = matching(
    f"({_PART})?", "small letters, digits and hyphens, 63 at most, or nothing", longest=63
)
KEY = matching(r"[-._a-zA-Z0-9]+", "a key of letters, digits, -, _ and dots, 253 at most", longest=253)
VARIABLE = matching(
    r"[-._a-zA-Z][-._a-zA-Z0-9]*", "an environment variable of letters, digits, _, - and dots", longest=253
)
LABEL_KEY = matching(rf"({_SUBDOMAIN}/)?{_LABEL}", "a key such as kubernetes.io/arch", longest=253 + 1 + 63)
LABEL_VALUE = matching(f"({_LABEL})?", "letters, digits, -, _ and dots, 63 at most", longest=63)
RESOURCE = matching(rf"{_SUBDOMAIN}/{_LABEL}", "a resource such as nvidia.com/gpu", longest=253 + 1 + 63)
FOLDER = matching("/.*", "an absolute folder such as /data", longest=4096)
CPUS = matching(r"(\d{1,9}(\.\d{1,3})?|\d{1,12}m)?", "a number of processors such as 2, 0.5 or 500m")
# Kubeflow Pipelines needs whole numbers; Kubernetes has no suffix K.
MEMORY = matching(r"(\d{1,15}([EPTGM]i?|Ki))?", "a size such as 8Gi or 500Mi")
SECONDS = matching(r"\d{1,9}s", "seconds such as 30s")
IMAGE = matching(r"\S+", "the name of a container image, without spaces", longest=1024)
IMAGE_OR_NOTHING = matching(r"\S*", "the name of a container image, without spaces, or nothing", longest=1024)

SECONDS_OF_A_POD = 2**31 - 1
"""Maximum activeDeadlineSeconds."""
