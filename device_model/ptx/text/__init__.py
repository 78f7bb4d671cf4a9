"""PTX text: tokens, types, syntax, and the parser that makes a `Module` of it."""
