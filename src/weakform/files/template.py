"""The model files that `weakform new` writes, complete and with comments."""

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

# What you know about the parameters; every line is optional.
[parameters.growth]
bounds = [0, 10]      # the smallest and the largest value that make sense
# start = 0.5         # a first guess
# fixed = 0.5         # not estimated
# log = true          # positive, over orders of magnitude
# prior = ["normal", 0.5, 0.1]
unit = "1/year"

# trajectory = "subject"     # the column that separates several experiments
# missing = [-999, "<LOD"]   # entries that mean a missing value
# inputs = ["heater"]        # names in the equations that are columns of known values
# The names of the columns in your table, where they differ from the names above.
[columns]
# time = "year"       # by default the first column
# prey = "Hare pelts"
# predator = ""       # not measured, though the table has such a column

[units]
time = "years"
'''

PARTLY_OBSERVED_TEMPLATE = '''\
# A weakform model file for a system that is measured only in part. Lines that start with # are comments.
# Fit it with:  weakform fit model.toml data.csv --report fit.html

# One equation for each state, measured or not. A line without ' is a named expression, which may be measured as well.
# A column of the table with the name of a state or an expression holds its measurements; all other states are hidden.
equations = """
    S' = -beta*S*I
    I' = beta*S*I - gamma*I
    cases = rho*gamma*population*I + background
    S(0) = 1 - I0          # an initial value: a number or an expression of parameters;
    I(0) = I0              # without such a line it is estimated
"""

# The noise of the measurements: "gaussian", "lognormal" (errors in per cent) or "poisson" (counts).
noise = "poisson"

[parameters]
population = 10000         # a bare number is a known value and not estimated
rho = 0.4

[parameters.beta]
bounds = [0, 10]
unit = "1/day"

[parameters.gamma]
bounds = [0, 5]
unit = "1/day"

[parameters.I0]
bounds = [0, 0.1]

[parameters.background]
bounds = [0, 100]

# The names of the columns in your table, where they differ from the names above.
[columns]
# time = "day"             # by default the first column
# cases = "New cases"

[units]
time = "days"
'''
