"""Estimates of what a job still needs and how fast it would run, after Optimus (sections 3.1 and 3.2).

    losses        points of a loss curve, cleaned and normalised
    curves        l = 1 / (b0 k + b1) + b2 fitted to these points
    convergence   epochs to go
    speeds        the speed function of parameter servers and workers, from probes and measurements
    live          what reports of running programs let a policy believe
    remaining     seconds that a job still takes with given workers and parameter servers
    nonnegative   least squares without negative coefficients, for many small systems at once

Everything is batched: the first axis of every array is jobs. With thousands of jobs the fits take most of the time, so
one call fits all of them.
"""
