"""Files on this machine and on object stores: atomic folders, locks, conditional writes, local copies."""
