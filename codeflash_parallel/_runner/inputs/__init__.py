"""Pure models of inputs: positions in a call, properties and relations observed, mutation and crossover,
constructors of objects.

Offers: mutation.Mutator, crossover.Crossover, call_relations.infer, position_summaries.summary_of,
object_constructors.ObjectConstructors, parameter_expectations.
Imports: nothing.
"""
