"""`python -m acl_py` is `acl-py`."""

from acl_py.cli import app

app()
