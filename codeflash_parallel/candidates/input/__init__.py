"""Candidates as users name them: folders, patches, Python files, manifests, standard input, git refs.

Offers: `sources.read_submissions`, `sources.CandidateSource`.
Imports: `candidates`, `result`.
"""
