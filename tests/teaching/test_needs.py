"""What a notebook needs beside acl_py."""

import re

import pytest

from acl_py import teaching


def test_missing_packages_are_named_with_what_brings_them():
    teaching.need("json", "json.decoder", install="nothing")
    says = "This notebook needs no_such and no_such.part: pip install 'no-such[all]', then restart the kernel."
    with pytest.raises(teaching.NotebookError, match=f"^{re.escape(says)}$"):
        teaching.need("json", "no_such", "no_such.part", install="'no-such[all]'")
