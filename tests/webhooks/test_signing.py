"""The signature that strangers' libraries verify, and the vector that the documents show."""

import json
import re
import shutil
import subprocess
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest
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


NAMES = ("webhook-id", "webhook-timestamp", "webhook-signature")


def verdicts(language: str, *, program: str, command: Sequence[str]) -> Sequence[bool]:
    """What the verifier of the documents says of the vector, of altered ones, and of an old one.

    `program` is what comes after the verifier: it reads calls from its input and prints verdicts.
    """
    found = re.search(rf"```{language}\n(.+?)```", DOCUMENT, re.DOTALL)
    assert found is not None
    secret, now = cell("secret"), int(time.time())
    body = '{"é":"\\u00e9"}'

    def headers(timestamp: int, *secrets: str) -> dict[str, str]:
        signature = sign(secrets, message_id="evt_1", timestamp=timestamp, body=body.encode())
        return dict(zip(NAMES, ("evt_1", str(timestamp), signature), strict=True))

    fresh = headers(now, secret)
    rotated = headers(now, new_secret(), secret)
    calls = [
        (secret, fresh, body),
        (secret, rotated, body),
        (secret, fresh, body + " "),
        (new_secret(), fresh, body),
        (secret, fresh | {"webhook-id": "evt_2"}, body),
        (secret, fresh | {"webhook-timestamp": str(now - 1)}, body),
        (secret, fresh | {"webhook-signature": fresh["webhook-signature"][3:]}, body),
        (secret, fresh | {"webhook-signature": "v1,"}, body),
        (secret, headers(now - 301, secret), body),
        (secret, headers(now + 310, secret), body),
        (secret, {name: cell(name) for name in NAMES}, cell("body")),
    ]
    said = subprocess.run(
        [*command, f"{found[1]}\n{program}"],
        input=json.dumps(calls),
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    given: Sequence[bool] = json.loads(said.stdout)
    return given


# The vector is of a day long past: but for its age it is good, as the program above says.
EXPECTED = [True, True, *[False] * 9]


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
def test_the_verifier_that_the_documents_show_for_node_takes_what_is_ours_alone() -> None:
    program = (
        "const calls = JSON.parse(require('node:fs').readFileSync(0, 'utf8'));"
        "console.log(JSON.stringify(calls.map((call) => verify(...call))))"
    )
    assert verdicts("js", program=program, command=["node", "-e"]) == EXPECTED


@pytest.mark.skipif(shutil.which("php") is None, reason="needs php")
def test_the_verifier_that_the_documents_show_for_php_takes_what_is_ours_alone() -> None:
    program = (
        "$calls = json_decode(file_get_contents('php://stdin'), true);"
        "echo json_encode(array_map(fn($call) => verify(...$call), $calls));"
    )
    assert verdicts("php", program=program, command=["php", "-r"]) == EXPECTED
