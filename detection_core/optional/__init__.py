"""Optional capabilities, one folder each; `detection_core.capabilities` imports them by name when needed."""
