"""Mutation testing: small faults are put into the packages, and the tests have to notice."""
