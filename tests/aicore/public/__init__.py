"""Kernels after folders of public repositories, in text of our own; test_aicore_public.py runs each."""
