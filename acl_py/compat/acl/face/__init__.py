"""What a script sees of `acl`: module objects, argument wrappers, the session, handles, and the wording of messages.

May import the native API and the stand-ins, never the functions: they register here.
"""
