"""What calls and copies take on a machine with a card, measured as the values of a profile.

The modules, from the top down:

    writing         a TOML file of the values
    calibration     trials on a card, one after another, and the values that they tell
    solving         the values with which the model takes as long as the card
    card_trials graph_trials trials
                    small programs that tell values of the card, of graphs and of the host
    mixtures        random programs for the costs of common calls
    readings        what the single calls of measured programs tell
    quiet           whether the machine is idle
    runs calls      runs of a program; its steps as bare calls of the driver
    values machine  places of values in a profile; the card, its driver and the clock of its host
"""
