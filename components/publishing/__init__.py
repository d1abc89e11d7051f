"""Publishing: the push destination and the verdicts that lead there."""
