"""Command lines that a shell hands over for completion: plain words, some with quotes or unfinished."""

from __future__ import annotations

from click.shell_completion import split_arg_string

LINES = [
    "deploy --stage production --region eu-west-1 --dry-run web",
    "repo clone https://example.org/team/project.git target",
    "repo commit --message 'Say what was changed' --all",
    'notes add "a title with blanks" --tag home --tag garden',
    "db migrate --url sqlite:///data.db --ver",
    "open my\\ file.txt --wi",
    "repo commit --message 'Say what",
    "build",
    "test --verbose tests/unit tests/integration -k name",
    "user list --format json --limit 100 --offset 200",
]


def main() -> list[list[str]]:
    return [split_arg_string(line) for line in LINES]
