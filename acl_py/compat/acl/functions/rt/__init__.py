"""The functions of `acl.rt`. May import face, standins and the native API."""
