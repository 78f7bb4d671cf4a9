"""The functions of `acl`, one folder for each of its modules: rt/ holds acl.rt, base/ what is in acl itself.

`face.binding` takes a function's module from the folder. A folder may import face, standins and the native API.
"""
