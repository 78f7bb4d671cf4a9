"""What a script sees of `acl`: module objects, argument wrappers, the session, and handles.

May import the native API and the stand-ins, never the functions: they register here. `current`, `modules` and
`tracebacks` are there before a script begins, and import nothing of the runtime; the others come with its first call.
"""
