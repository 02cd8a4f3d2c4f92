"""Captured calls on disk: bounded pickles of arguments, relocation between slots, private attributes
restored on load.

Offers: argument_pickler.dumps, call_files.write_call and read_calls, private_attributes.completed,
module_constants.find.
Imports: _runner.inputs, paths.
"""
