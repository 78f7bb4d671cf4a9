"""The functions of `acl.media`. May import face, standins, base/ and the native API."""
