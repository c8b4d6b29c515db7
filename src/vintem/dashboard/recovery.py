"""A forgotten password: the form that asks for a link, and the page that the link leads to."""

import asyncio
from typing import Final

from vintem.api.access import address_block
from vintem.api.call import Answer, Call, Content, Route
from vintem.dashboard.answers import bare_page, go
from vintem.dashboard.forms import Form, read_form
from vintem.dashboard.mails import send_reset, tell_changed
from vintem.dashboard.new_password import HINT, password_errors
from vintem.dashboard.page import open_sent, open_shown
from vintem.dashboard.sign_in import REFUSAL_SECONDS_MIN, check_same_site, note_person
from vintem.dashboard.visit import ROOT, address
from vintem.members import recovery
from vintem.members.model import EMAIL_CHARACTERS_MAX, Person
from vintem.members.passwords import hashing


class AskForm(Form, frozen=True):
    """Whose password was forgotten."""

    email: str = ""


class ChooseForm(Form, frozen=True):
    """The new password."""

    password: str = ""
    again: str = ""


async def show_ask(call: Call) -> Answer:
    """Show the form that asks for a link."""
    return bare_page(call, "reset_ask.html", title="Criar nova senha", is_sent=False)


async def ask(call: Call) -> Answer:
    """Send a link to whoever has the e-mail; the answer is the same where nobody has."""
    check_same_site(call)
    answer_at = asyncio.get_running_loop().time() + REFUSAL_SECONDS_MIN
    form = await read_form(call, AskForm)
    made = await recovery.ask_link(
        call.resources.database,
        call.resources.sealer,
        form.email.lower()[:EMAIL_CHARACTERS_MAX],
        address=address_block(call.client_ip),
        now=call.now,
    )
    if made is not None:
        person = made.person
        async with call.resources.database.atomic() as block:
            await note_person(call, block, person, "password.link-asked")
        send_reset(call, name=person.name, email=person.email, token=made.token)
    await asyncio.sleep(answer_at - asyncio.get_running_loop().time())
    return bare_page(call, "reset_ask.html", title="Confira seu e-mail", is_sent=True)


async def show_choose(call: Call) -> Answer:
    """Show the form in which a new password is chosen, while the link works."""
    person = await _person_of(call)
    return _ended(call) if person is None else _form(call, person)


async def choose(call: Call) -> Answer:
    """Set the new password and use the link up; every browser is signed out."""
    check_same_site(call)
    form = await read_form(call, ChooseForm)
    person = await _person_of(call)
    if person is None:
        return _ended(call)
    errors = password_errors(form.password, form.again, names=(person.email, person.name))
    if errors:
        return _form(call, person, errors=errors, status=422)
    password_hash = await hashing.hash(form.password)
    async with call.resources.database.atomic() as block:
        changed = await recovery.choose_by_link(
            block,
            call.resources.sealer,
            call.params["token"],
            password_hash,
            now=call.now,
        )
        if changed is not None:
            await note_person(call, block, changed, "password.reset")
    if changed is None:
        return _ended(call)
    tell_changed(call, name=changed.name, email=changed.email)
    return go(address(f"{ROOT}/sign-in", said="password-chosen"))


async def _person_of(call: Call) -> Person | None:
    return await recovery.find_by_link(call.resources.database, call.params["token"], now=call.now)


def _form(
    call: Call, person: Person, *, errors: dict[str, str] | None = None, status: int = 200
) -> Content:
    return bare_page(
        call,
        "reset_choose.html",
        title="Escolher senha",
        status=status,
        email=person.email,
        token=call.params["token"],
        hint=HINT,
        errors=errors or {},
    )


def _ended(call: Call) -> Content:
    return bare_page(
        call,
        "link_ended.html",
        title="Este link não vale mais",
        status=404,
        why="Cada link funciona uma vez só e por pouco tempo. Peça outro.",
        href=f"{ROOT}/reset",
        label="Pedir novo link",
    )


ROUTES: Final[tuple[Route, ...]] = (
    open_shown("/reset", show_ask, "The form for a forgotten password"),
    open_sent("/reset", ask, "Asking for a link to choose a password"),
    open_shown("/reset/{token}", show_choose, "The page of a link to choose a password"),
    open_sent("/reset/{token}", choose, "Choosing a password by a link"),
)
