"""The rows of a recording: their fields, the recorder that stores them, and saved recordings."""
