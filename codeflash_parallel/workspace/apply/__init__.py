"""Write a candidate into the user's tree, all files or none.

Offers: `tree_writer.write_edits`.
Imports: `candidates`, `result`.
"""
