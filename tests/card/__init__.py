"""Runs on a card: on the simulated driver, under the real cuda.bindings, and on a real card where there is one."""
