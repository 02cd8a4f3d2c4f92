"""Paths of the slot, of the user's checkout and of the environment, and their translation between slots.

Offers: path_locations.PathLocations, path_relocation.neutral and settle.
Imports: nothing.
"""
