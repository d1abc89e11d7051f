"""Access to fields of a config by path: overrides and short names."""
