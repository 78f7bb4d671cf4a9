"""Arrays of the host that report which of their bytes the program reads and writes."""
