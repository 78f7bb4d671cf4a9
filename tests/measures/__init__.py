"""What is counted in the source: literals of names, functions that a call enters, lines of code, and all outputs."""
