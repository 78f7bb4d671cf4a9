"""Advice: which waits of a recorded run are needed, and what its program is worth without the others."""
