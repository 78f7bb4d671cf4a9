"""Costly habits: what a program does again and again that it could do once, or in fewer and larger pieces."""
