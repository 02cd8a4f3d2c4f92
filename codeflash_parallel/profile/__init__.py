"""Line profiles of the target functions, made in slots; a failed profile is a value.

Offers: `line_profiler.profile`, `line_profiler.read_profile`.
Imports: process, candidates, config, result.
"""
