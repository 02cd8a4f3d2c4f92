"""Record the outermost calls of target functions while tests run: counts, outcomes, sampled inputs;
announce calls for timing inside tests.

Offers: call_recorder.CallRecorder, function_wrappers.install and wrap, timing_windows.CallAnnouncer.
Imports: _runner.values, imports, slot_paths, channels.
"""
