"""The pytest plugin under its name in the package, for `-p acl_py.pytest_plugin` and for annotations.

pytest loads the plugin itself, acl_py_pytest.py, in every run on a machine where acl_py is installed. That file lies
beside the package because importing any part of the package imports NumPy, which most of these runs do not need.
"""

from acl_py_pytest import AclSession as AclSession
from acl_py_pytest import AclSim as AclSim
from acl_py_pytest import simulation as simulation

pytest_plugins = ["acl_py_pytest"]
