"""Faces of the runtime in the shape of others: `acl`, the vendor's Python binding."""
