"""Canonical digests, plain JSON and bounded text of Python values.

Offers: value_digests, value_walk.digest_of, plain_json.told and rebuilt, value_text.render,
type_handlers.handler_of, type_names.type_name.
Imports: _runner.serialization, paths.
"""
