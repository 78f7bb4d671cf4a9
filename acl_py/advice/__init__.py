"""Advice: which waits of a program are needed, and what the program is worth without the others.

pairs      what must stay in order: accesses to the same bytes, uses and ends of lives; and what nobody can tell
lines      the lines that wait, and why one of them may matter whatever it orders
needs      what loses its order without some waits
steps      an edit of a run as an edit of its program
choosing   which edits go together, by price
texts      all of it for people
"""
