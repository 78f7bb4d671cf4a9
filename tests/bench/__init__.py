"""What acl_py costs in real time, printed and never asserted: `make bench`, `python -m tests.bench dispatch waits`."""
