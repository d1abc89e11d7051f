"""Fields of a config by their paths: overrides and the short names of common ones."""
