"""The functions of `acl.prof`. May import face, standins and the native API."""
