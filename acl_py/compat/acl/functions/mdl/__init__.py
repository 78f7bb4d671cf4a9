"""The functions of `acl.mdl`. May import face, standins, base/ and the native API."""
