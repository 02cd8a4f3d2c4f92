"""Settings tables, their sources, and the environment variables that pass to the project.

Offers: `settings.Settings`, `settings_reader.read_settings`, `sources.gather`, `pyproject.find_table`,
`cache_paths.cache_root`.
Imports: `result`.
"""
