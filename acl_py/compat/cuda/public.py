"""The names that `acl_py.compat.cuda` gives to programs: see late_imports.py."""

from acl_py.compat.cuda.advice import advising as advising
from acl_py.compat.cuda.switching import install as install
from acl_py.compat.cuda.switching import uninstall as uninstall
