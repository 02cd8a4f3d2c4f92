"""Settings tables, their sources, and the environment variables that pass to the project.

Offers: `settings.Settings`, `settings_reader.read_settings`, `settings_table.setting` (tables of other
rooms), `pyproject.find_table`, `cache_paths.cache_root`.
Imports: `result`.
"""
