"""What a script sees of `acl`: module objects, argument wrappers, the session, and handles.

May import the native API and the stand-ins, never the functions: they register here.
"""
