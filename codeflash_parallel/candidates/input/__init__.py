"""Candidates as users name them: folders, patches, Python files, manifests, standard input, git refs.

Offers: `sources.read_submissions`, `manifest.read_manifest`.
Imports: `candidates`, `result`.
"""
