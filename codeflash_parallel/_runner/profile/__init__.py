"""Time spent by line (line profile of replayed calls) and by function (stack sampler of the tests).

Offers: line_profile.run, stack_sampler.StackSampler.
Imports: _runner.replay, values, imports.
"""
