"""Values in forms that leave the process: canonical digests, plain JSON, bounded text, pickles of arguments.

Offers: value_digests.digest_return and digest_raise, plain_json.told and rebuilt, value_text.render and
type_name, type_handlers.handler_of, argument_pickler.dumps, call_files.write_call and read_calls. Imports:
_runner.inputs (input_objects, on demand), slot_paths.
"""
