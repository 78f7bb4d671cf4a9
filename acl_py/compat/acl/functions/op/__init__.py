"""The functions of `acl.op`. May import face, standins, base/ and the native API."""
