"""What every test has in common."""

from __future__ import annotations

import signal

# A shell without job control lets what it starts in the background ignore Ctrl-C, and programs inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
