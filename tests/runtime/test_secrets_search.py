"""The search for secrets in what a run has logged: it finds them, and knows a demo's mail."""

from pathlib import Path

from support.secrets import find_secrets
from vintem.kit.ids import new_token


def test_a_token_is_found_anywhere_but_in_the_mail_of_a_demo(tmp_path: Path) -> None:
    token = new_token()
    mail = f"--- mail to a@example.com: Convite\nAbra:\nhttp://x/invitation/{token}\n---\n"
    (tmp_path / "demo-1.log").write_text(f"{mail}seen {token}\n{mail}fine\n")
    (tmp_path / "serve-1.log").write_text(mail)
    assert find_secrets(tmp_path) == [
        "demo-1.log:5 holds a opaque token",
        "serve-1.log:3 holds a opaque token",
    ]
