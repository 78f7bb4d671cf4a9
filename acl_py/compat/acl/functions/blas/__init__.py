"""The functions of `acl.blas`. May import op/, base/, face, standins and the native API."""
