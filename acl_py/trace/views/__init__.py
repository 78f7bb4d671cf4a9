"""The views of a recording: text for people, and the files of other programs."""
