"""Run git and read the user's repository; nothing else in the package runs git.

Offers: git_client.Git, git_client.find_repository, work_tree_files.list_work_tree, patch.
Imports: result.
"""
