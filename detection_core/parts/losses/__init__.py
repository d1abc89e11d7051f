"""Classification and localisation losses."""
