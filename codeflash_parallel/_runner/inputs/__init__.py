"""New inputs made of captured calls: relations of all calls, mutation, other objects, smaller inputs, twins.

Offers: derived_inputs.run, twin_inputs.run, input_shrinker.run; call_relations.infer, mutation.Mutator.
Imports: _runner.bench, replay, values, imports, process, slot_paths.
"""
