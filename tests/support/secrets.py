"""Looks for secrets in what a test run left behind."""

import re
from collections.abc import Iterator
from pathlib import Path

# The forms are written here again on purpose: the redaction's own patterns cannot prove themselves.
FORMS = {
    "API key": re.compile(r"[sc]k_(?:live|test)_[0-9A-Za-z]{20,}"),
    "webhook secret": re.compile(r"whsec_[0-9A-Za-z+/=]{20,}"),
    "card token": re.compile(r"card_[0-9a-z]{26}"),
    # A hundred million reais have as many digits.
    "CPF": re.compile(
        r"(?<![\d._-])\d{3}\.\d{3}\.\d{3}-\d{2}(?!\d)"
        r'|(?<![\w.-])(?<!"amount":)(?<!"amount": )\d{11}(?![\w.-])'
    ),
    "CNPJ": re.compile(r"(?<![\d.])\d{2}\.\d{3}\.\d{3}/\d{4}-\d{2}(?!\d)"),
    "card number": re.compile(r"(?<![\w.-])(?:\d[ -]?){15}\d(?![\w.-])"),
    "bare traceback": re.compile(r"^Traceback \(most recent call last\)"),
    "opaque token": re.compile(r"(?<![\w-])[0-9A-Za-z_-]{43}(?![\w-])"),
}


def find_secrets(folder: Path) -> list[str]:
    """Say where a secret stands, without repeating it."""
    return [
        f"{file.name}:{number} holds a {name}"
        for file in sorted(folder.glob("*.log"))
        for number, line in _lines(file)
        for name, form in FORMS.items()
        if form.search(line)
    ]


def _lines(file: Path) -> Iterator[tuple[int, str]]:
    """Give the lines of a log, without the mail that a demo shows with its links on purpose."""
    is_mail = False
    for number, line in enumerate(file.read_text(errors="replace").splitlines(), 1):
        is_mail = is_mail or (file.name.startswith("demo-") and line.startswith("--- mail to "))
        if not is_mail:
            yield number, line
        is_mail = is_mail and line != "---"
