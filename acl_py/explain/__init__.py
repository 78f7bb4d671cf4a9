"""Explanations of a recording: what a run waited for, what that was worth, and what would change it."""
