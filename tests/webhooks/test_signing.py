"""The signature that strangers' libraries verify, and the vector that the documents show."""

import json
import re
import shutil
import subprocess
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


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
def test_the_verifier_that_the_documents_show_for_node_takes_the_vector_and_no_other() -> None:
    found = re.search(r"```js\n(.+?)```", DOCUMENT, re.DOTALL)
    assert found is not None
    # The vector is of a day long past.
    verifier = found[1].replace("if (!(age < 300)) return false;", "")
    assert verifier != found[1]
    names = ("webhook-id", "webhook-timestamp", "webhook-signature")
    headers = {name: cell(name) for name in names}
    calls = [
        (cell("secret"), headers, cell("body")),
        (cell("secret"), headers, cell("body") + " "),
        (new_secret(), headers, cell("body")),
    ]
    program = (
        f"{verifier}\nconsole.log(JSON.stringify({json.dumps(calls)}.map((c) => verify(...c))))"
    )
    said = subprocess.run(
        ["node", "-e", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert json.loads(said.stdout) == [True, False, False]
