"""The signature that strangers' libraries verify, and the vector that the documents show."""

import re
from datetime import UTC, datetime
from pathlib import Path

from standardwebhooks import Webhook

from vintem.webhooks.signing import new_secret, sign

DOCUMENT = (Path(__file__).parents[2] / "docs/webhooks.md").read_text()


def cell(name: str) -> str:
    found = re.search(rf"^\| `?{name}`? \| `(.+)` \|$", DOCUMENT, re.MULTILINE)
    assert found is not None, name
    return found[1]


def test_the_vector_of_the_documents_is_what_the_program_makes() -> None:
    signature = sign(
        [cell("secret")],
        message_id=cell("webhook-id"),
        timestamp=int(cell("webhook-timestamp")),
        body=cell("body").encode(),
    )
    assert signature == cell("webhook-signature")


def test_the_library_signs_the_same() -> None:
    secret, now = new_secret(), datetime.now(UTC)
    ours = sign(
        [secret], message_id="evt_1", timestamp=int(now.timestamp()), body='{"é":1}'.encode()
    )
    assert ours == Webhook(secret).sign("evt_1", now, '{"é":1}')


def test_two_secrets_make_two_signatures() -> None:
    first, second = new_secret(), new_secret()
    both = sign([first, second], message_id="x", timestamp=1, body=b"{}")
    assert both.split(" ") == [
        sign([each], message_id="x", timestamp=1, body=b"{}") for each in (first, second)
    ]
