"""Programs with planted mistakes, and which of them type checkers find.

The folder is not called typing: scripts in tests/ would import it instead of the standard library's module.
"""
