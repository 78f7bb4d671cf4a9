"""`aclruntime` and `ais_bench`: the vendor's session for model files, over the functions of `acl`.

Everything here calls functions of `acl` as a script would, so codes, times and findings are theirs.
"""
