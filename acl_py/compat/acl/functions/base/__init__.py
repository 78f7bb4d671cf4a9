"""The functions of `acl` itself. May import face, standins and the native API."""
