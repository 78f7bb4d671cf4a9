"""Calls as data: what is known of a verb before it is called, and of a call when it is over."""
