"""The functions of `acl.util`. May import face, standins and the native API."""
