"""The functions of `acl.himpi`. May import face, standins, base/, media/ and the native API."""
