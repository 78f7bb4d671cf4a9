"""Random kernels in PTX: the device against a plain interpreter that shares no code with it."""
