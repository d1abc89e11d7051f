"""The former name of `components.publishing.destination`, for scripts that import it."""

from __future__ import annotations

import sys

from components.publishing import destination

sys.modules[__name__] = destination
