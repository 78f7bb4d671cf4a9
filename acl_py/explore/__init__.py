"""Exploring schedules: a program runs again and again, each time otherwise, within what the vendors promise.

scripts       runs a script once, in a process of its own, under a schedule
explorer      runs a program under the schedules of a strategy until one fails, and shrinks that one
shrinking     the fewest deviations that still fail
strategies    random, pct, exhaustive: which schedules are tried
gathering     what the sanitizer finds in any of the runs
outcomes      what came out of one run
"""
