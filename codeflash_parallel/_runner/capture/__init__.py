"""Record the outermost calls of target functions while tests run: counts, outcomes, sampled inputs;
announce calls for timing inside tests.

Offers: call_recorder.install and CallRecorder, function_wrappers.wrap, timing_windows.CallAnnouncer,
generator_trace.GeneratorTrace.
Imports: _runner.values, serialization, imports, paths, channel.
"""
