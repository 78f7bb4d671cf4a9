"""The time of collectives: the vendor's choice, the steps that follow from it, and these steps on the links.

    steps = plan(profile.collectives, "all_reduce", 1 << 20, 4)
    play(steps, links, (0, 1, 2, 3), now, done)      # calls done(at_ns) when the last step ends

* [tuner](tuner.py): which algorithm and protocol a vendor's library takes.
* [plan](plan.py): a collective as steps, between ranks.
* [schedules](schedules.py): the steps of each algorithm.
* [pairs](pairs.py): the channels of sends and receives.
* [player](player.py): steps on the links of a simulation.
"""
