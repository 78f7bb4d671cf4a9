"""Misuse of the native API, case by case: what is called, and what it says. docs/errors.md and its parts show it."""
