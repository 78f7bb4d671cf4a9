"""From the instructions of a PTX function to Python functions, one for each basic block."""
