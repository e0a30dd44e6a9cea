"""The model file that `weakform new` writes."""

TEMPLATE = '''\
# A weakform model file. Lines that start with # are comments.
# Fit it with:  weakform fit model.toml data.csv --report fit.html

# One equation for each measured state. Every name that is neither a state nor a
# function is a parameter to be estimated; t is time. Functions: exp, log, sqrt, sin, ...
# A line without ' defines an abbreviation for the lines below it.
equations = """
    prey' = growth*prey - hunting*prey*predator
    predator' = -death*predator + gain*prey*predator
"""

# "gaussian": errors of the same size at all values; "lognormal": errors in per cent, values positive.
noise = "lognormal"

# What you know of the parameters; every line is optional.
[parameters.growth]
bounds = [0, 10]      # the smallest and the largest value that make sense
# start = 0.5         # a first guess
# fixed = 0.5         # not estimated
# log = true          # positive, over orders of magnitude
# prior = ["normal", 0.5, 0.1]
unit = "1/year"

# trajectory = "subject"     # the column that tells several experiments apart
# inputs = ["heater"]        # names in the equations that are columns of known values
# The names of the columns in your table, where they differ from the names above.
[columns]
# time = "year"       # by default the first column
# prey = "Hare pelts"

[units]
time = "years"
'''
