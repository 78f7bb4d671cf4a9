"""Mutants of the rooms whose errors are hard to see: __main__.py says what is done with them.

* `drawing` - the rooms, all changes that can be made in them, and some of these by chance.
* `reach` - which test files run which functions of the rooms, and how long they take.
* `equivalent.toml` - mutants that no test can notice, each with the reason.
"""
