"""Modes that derive new inputs from captured calls, try them on the baseline and shrink failing ones.

Offers: derived_inputs.run, twin_inputs.run, input_shrinker.run.
Imports: _runner.bench, replay, serialization, values, imports, inputs, process, paths.
"""
