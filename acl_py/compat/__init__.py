"""The runtime behind other interfaces: `acl`, the vendor's Python binding."""
