"""Mutants of the core: see __main__.py."""
