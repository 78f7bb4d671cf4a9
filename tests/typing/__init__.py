"""Programs with planted mistakes, and which of them type checkers find."""
