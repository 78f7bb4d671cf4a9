"""The forms of instructions: which modifiers and operands each takes, as a table, and the check against it."""
