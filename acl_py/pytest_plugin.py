"""The plugin for pytest by its name within the package, for `-p acl_py.pytest_plugin` and for annotations.

pytest finds the plugin itself, acl_py_pytest.py, in every run on a machine that has acl_py. So that lies beside the
package: to import a part of the package imports NumPy, which most of these runs have no use for.
"""

from acl_py_pytest import AclSession as AclSession

pytest_plugins = ["acl_py_pytest"]
