"""Measured tables of the documentation: which command made them, and that nobody edits them.

    python docs/generators/measured.py docs/methods.md "python -m benchmarks.field" [--output FILE]

A table stands between two comments, of which the first is its stamp:

    <!-- measured: python -m benchmarks.field | rule – | commit 48ca792a | digest 5d41402abc4b -->
    <!-- end -->

The command above runs what the stamp names, puts its tables in place and renews the stamp; with
`--output` it takes what the command has printed already. A new table begins as the two comments
with the command alone. The stamp names the version of the anytime rule, or – where the table does
not depend on it (`--no-rule`). Tests fail where the version is not today's, and where the text is
not what the digest says.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

from bestarm import AnytimeBAI

_BLOCK = re.compile(
    r"^<!-- measured: (?P<stamp>[^\n]*) -->\n(?P<text>.*?)^<!-- end -->$", re.M | re.S
)
NO_RULE = "–"


def version_of_rule() -> str:
    """The version of the anytime rule, as stamps name it."""
    return str(AnytimeBAI.version)


@dataclass(frozen=True)
class Measured:
    """A table with its stamp."""

    command: str
    text: str
    rule: str = NO_RULE
    commit: str = ""
    digest: str = ""

    @classmethod
    def of(cls, match: re.Match[str]) -> Measured:
        """The table that a page has."""
        command, *fields = match["stamp"].split(" | ")
        named = dict(field.split(" ", 1) for field in fields)
        return cls(command, match["text"], **named)

    def computed_digest(self) -> str:
        """The digest of the table and of what its stamp claims."""
        content = "\n".join((self.command, self.rule, self.commit, self.text))
        return hashlib.sha256(content.encode()).hexdigest()[:12]

    def problems(self) -> list[str]:
        """Sentences on what is wrong with the stamp."""
        found = []
        if self.digest != self.computed_digest():
            found.append(f"the table of `{self.command}` is not as it was measured")
        if self.rule not in {NO_RULE, version_of_rule()}:
            found.append(f"the table of `{self.command}` is of version {self.rule} of the rule")
        return found

    def __str__(self) -> str:
        stamp = f"rule {self.rule} | commit {self.commit} | digest {self.computed_digest()}"
        return f"<!-- measured: {self.command} | {stamp} -->\n{self.text}<!-- end -->"


def tables_of(page: str) -> list[Measured]:
    """All stamped tables of a page."""
    return [Measured.of(match) for match in _BLOCK.finditer(page)]


def tables_in(output: str) -> str:
    """The Markdown tables and headings among what a command printed."""
    paragraphs = re.split(r"\n\s*\n", output.strip())
    return "\n\n".join(each for each in paragraphs if each.startswith(("|", "#"))) + "\n"


def main() -> None:
    """Run the command of a table, and put what it prints into the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("page", type=Path)
    parser.add_argument("command", help="as the stamp has it")
    parser.add_argument("--output", type=Path, help="what the command printed")
    parser.add_argument("--no-rule", action="store_true", help="no figure depends on the rule")
    asked = parser.parse_args()
    words = shlex.split(asked.command)
    program = [sys.executable, *words[1:]] if words[0] == "python" else words
    if asked.output:
        output = asked.output.read_text(encoding="utf-8")
    else:
        output = subprocess.run(program, check=True, capture_output=True, text=True).stdout
    commit = ["git", "rev-parse", "--short=8", "HEAD"]
    head = subprocess.run(commit, check=True, capture_output=True, text=True).stdout.strip()
    page = asked.page.read_text(encoding="utf-8")
    found = False

    def renewed(match: re.Match[str]) -> str:
        nonlocal found
        table = Measured.of(match)
        if table.command != asked.command:
            return match[0]
        found = True
        rule = NO_RULE if asked.no_rule else version_of_rule()
        return str(replace(table, text=tables_in(output), rule=rule, commit=head))

    page = _BLOCK.sub(renewed, page)
    if not found:
        parser.error(f"{asked.page} has no table of `{asked.command}`")
    asked.page.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
