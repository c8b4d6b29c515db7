"""API keys: made, shown once, rotated, held to addresses, revoked."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from ipaddress import ip_network
from typing import Final

from vintem.api.call import Answer
from vintem.companies import service as companies
from vintem.companies.model import ApiKey, Environment, KeyType, Network
from vintem.dashboard import next_page
from vintem.dashboard.actors import actor_names
from vintem.dashboard.answers import go, page
from vintem.dashboard.forms import Form
from vintem.dashboard.page import Page, sent, shown
from vintem.dashboard.proof import code_errors
from vintem.dashboard.visit import Visit
from vintem.kit.errors import ErrorCode, Refusal
from vintem.members.model import Permission
from vintem.runtime.db import Connection
from vintem.trail import service as trail

LABEL_CHARACTERS_MAX: Final = 80
NETWORKS_MAX: Final = 50
SHOWN_ONCE: Final = "keys"

KINDS: Final[Mapping[str, KeyType]] = {"secret": KeyType.SECRET, "checkout": KeyType.CHECKOUT}
PERMISSIONS: Final[Mapping[KeyType, Permission]] = {
    KeyType.SECRET: Permission.SECRET_KEYS,
    KeyType.CHECKOUT: Permission.CHECKOUT_KEYS,
}
OVERLAPS: Final = (
    ("0", "Encerrar a anterior agora"),
    ("1h", "1 hora"),
    ("24h", "24 horas"),
    ("7d", "7 dias"),
)
NO_SECOND_STEP: Final = (
    "Chaves secretas de produção exigem a verificação em duas etapas: ative-a em Segurança."
)


class NewKeyForm(Form, frozen=True):
    """What a new key shall be."""

    label: str = ""
    networks: str = ""
    code: str = ""


class RotateForm(Form, frozen=True):
    """How long the old key goes on."""

    overlap: str = "24h"
    code: str = ""


class RevokeForm(Form, frozen=True):
    """The last four characters, typed as a sign that this key is meant."""

    last_four: str = ""
    code: str = ""


async def show_keys(visit: Visit) -> Answer:
    """List the keys of the environment; one that was just made is shown this once."""
    listed = await companies.list_keys_of(
        visit.resources.database, visit.member.company_id, visit.environment
    )
    made = await next_page.take(visit, place=SHOWN_ONCE)
    makers = {key.created_by for key in listed if key.created_by}
    return page(
        visit,
        "keys.html",
        title="Chaves de API",
        keys=listed,
        names=await actor_names(visit, makers),
        kind_of=_kind_of,
        may_manage={kind: visit.can(PERMISSIONS[kind]) for kind in KeyType},
        sees_whole=partial(_sees_whole, visit),
        status_of=partial(_status_of, now=visit.call.now),
        made=made,
    )


async def ask_new(key_type: KeyType, visit: Visit) -> Answer:
    """Ask what a new key shall be."""
    return _new_page(visit, key_type, NewKeyForm(), {})


async def create(key_type: KeyType, visit: Visit) -> Answer:
    """Make a key and show it on the next page."""
    form = await visit.form(NewKeyForm)
    networks, errors = _read(form.label, form.networks)
    await _prove(visit, key_type, form.code, errors)
    if errors:
        return _new_page(visit, key_type, form, errors)

    async def write(block: Connection) -> None:
        made = await companies.create_key(
            block,
            visit.member.company_id,
            key_type=key_type,
            environment=visit.environment,
            pepper=visit.resources.pepper,
            now=visit.call.now,
            label=form.label,
            allowed_networks=networks,
            created_by=visit.member.person_id,
        )
        await next_page.leave(visit, made.key, place=SHOWN_ONCE, block=block)
        record = made.record
        await trail.record(
            block, visit.act("key.created", "key", record.key_id, after=_told(record))
        )

    await visit.resources.database.atomically(write)
    return go(visit.href("/keys", said="key-created"))


async def ask_change(key_type: KeyType, visit: Visit) -> Answer:
    """Show a key's name and list of addresses, to be changed."""
    key = await _find(visit, key_type)
    networks = "\n".join(str(network) for network in key.allowed_networks)
    return _change_page(visit, key, NewKeyForm(label=key.label, networks=networks), {})


async def change(key_type: KeyType, visit: Visit) -> Answer:
    """Change a key's name and list of addresses."""
    key = await _find(visit, key_type)
    form = await visit.form(NewKeyForm)
    networks, errors = _read(form.label, form.networks)
    await _prove(visit, key_type, form.code, errors)
    if errors:
        return _change_page(visit, key, form, errors)

    async def write(block: Connection) -> None:
        changed = await companies.change_key(
            block, key.key_id, label=form.label, allowed_networks=networks
        )
        await trail.record(
            block,
            visit.act("key.changed", "key", key.key_id, before=_told(key), after=_told(changed)),
        )

    await visit.resources.database.atomically(write)
    return go(visit.href("/keys", said="key-changed"))


async def ask_rotate(key_type: KeyType, visit: Visit) -> Answer:
    """Ask how long the old key shall go on."""
    return _rotate_page(visit, await _find(visit, key_type), RotateForm(), {})


async def rotate(key_type: KeyType, visit: Visit) -> Answer:
    """Make a key's successor and show it on the next page."""
    key = await _find(visit, key_type)
    form = await visit.form(RotateForm)
    overlap = companies.OVERLAPS.get(form.overlap)
    errors: dict[str, str] = {}
    if overlap is None:
        errors["overlap"] = "Escolha por quanto tempo a chave anterior continua valendo."
    await _prove(visit, key_type, form.code, errors)
    if errors or overlap is None:
        return _rotate_page(visit, key, form, errors)

    async def write(block: Connection) -> None:
        made = await companies.rotate_key(
            block,
            key.key_id,
            overlap=overlap,
            pepper=visit.resources.pepper,
            now=visit.call.now,
            created_by=visit.member.person_id,
        )
        await next_page.leave(visit, made.key, place=SHOWN_ONCE, block=block)
        after = {**_told(made.record), "successor": made.record.key_id, "overlap": form.overlap}
        await trail.record(
            block, visit.act("key.rotated", "key", key.key_id, before=_told(key), after=after)
        )

    try:
        await visit.resources.database.atomically(write)
    except (companies.KeyReplacedError, companies.KeyEndedError):
        errors[""] = "Esta chave já foi trocada ou encerrada."
        return _rotate_page(visit, key, form, errors)
    return go(visit.href("/keys", said="key-rotated"))


async def ask_revoke(key_type: KeyType, visit: Visit) -> Answer:
    """Ask whether a key shall really end."""
    return _revoke_page(visit, await _find(visit, key_type), {})


async def revoke(key_type: KeyType, visit: Visit) -> Answer:
    """End a key at once."""
    key = await _find(visit, key_type)
    form = await visit.form(RevokeForm)
    errors: dict[str, str] = {}
    if form.last_four != key.last_four:
        errors["last_four"] = "Digite os quatro últimos caracteres da chave, como aparecem acima."
    await _prove(visit, key_type, form.code, errors)
    if errors:
        return _revoke_page(visit, key, errors)

    async def write(block: Connection) -> None:
        await companies.revoke_key(block, key.key_id, now=visit.call.now)
        await trail.record(block, visit.act("key.revoked", "key", key.key_id, before=_told(key)))

    await visit.resources.database.atomically(write)
    return go(visit.href("/keys", said="key-revoked"))


async def _find(visit: Visit, key_type: KeyType) -> ApiKey:
    key = await companies.find_key(
        visit.resources.database,
        visit.member.company_id,
        visit.environment,
        visit.call.params["id"],
    )
    if key is None or key.type is not key_type:
        raise Refusal(ErrorCode.NOT_FOUND)
    return key


def _read(label: str, typed: str) -> tuple[Sequence[Network], dict[str, str]]:
    """Read a name and a list of networks, one a line or separated by commas."""
    errors: dict[str, str] = {}
    if not 1 <= len(label) <= LABEL_CHARACTERS_MAX:
        errors["label"] = f"Dê um nome à chave, com até {LABEL_CHARACTERS_MAX} caracteres."
    networks: list[Network] = []
    for part in typed.replace(",", " ").split():
        try:
            networks.append(ip_network(part, strict=False))
        except ValueError:
            errors["networks"] = f"“{part}” não é um endereço IP nem uma rede, como 203.0.113.0/24."
    if len(networks) > NETWORKS_MAX:
        errors["networks"] = f"Informe no máximo {NETWORKS_MAX} endereços."
    return tuple(dict.fromkeys(networks)), errors


def needs_code(visit: Visit, key_type: KeyType) -> bool:
    """Say whether a code of the second step is asked for."""
    return key_type is KeyType.SECRET and visit.environment is Environment.LIVE


async def _prove(visit: Visit, key_type: KeyType, code: str, errors: dict[str, str]) -> None:
    """Ask for the second step where money is real; a code is not used up by a faulty form."""
    if errors or not needs_code(visit, key_type):
        return
    if not visit.member.has_totp:
        errors["code"] = NO_SECOND_STEP
        return
    errors |= await code_errors(visit, code)


def _new_page(
    visit: Visit, key_type: KeyType, form: NewKeyForm, errors: Mapping[str, str]
) -> Answer:
    is_secret = key_type is KeyType.SECRET
    return page(
        visit,
        "key_form.html",
        title="Nova chave secreta" if is_secret else "Nova chave de checkout",
        status=422 if errors else 200,
        action=visit.call.path,
        submit="Criar chave",
        kind=key_type,
        key=None,
        form=form,
        errors=errors,
        needs_code=needs_code(visit, key_type),
    )


def _change_page(visit: Visit, key: ApiKey, form: NewKeyForm, errors: Mapping[str, str]) -> Answer:
    return page(
        visit,
        "key_form.html",
        title=f"Editar chave …{key.last_four}",
        status=422 if errors else 200,
        action=visit.call.path,
        submit="Salvar",
        kind=key.type,
        key=key,
        form=form,
        errors=errors,
        needs_code=needs_code(visit, key.type),
    )


def _rotate_page(visit: Visit, key: ApiKey, form: RotateForm, errors: Mapping[str, str]) -> Answer:
    return page(
        visit,
        "key_rotate.html",
        title=f"Trocar chave …{key.last_four}",
        status=422 if errors else 200,
        key=key,
        form=form,
        errors=errors,
        overlaps=OVERLAPS,
        needs_code=needs_code(visit, key.type),
    )


def _revoke_page(visit: Visit, key: ApiKey, errors: Mapping[str, str]) -> Answer:
    return page(
        visit,
        "key_revoke.html",
        title=f"Revogar chave …{key.last_four}",
        status=422 if errors else 200,
        key=key,
        errors=errors,
        needs_code=needs_code(visit, key.type),
    )


def _told(key: ApiKey) -> dict[str, object]:
    """What the trail may say of a key."""
    return {
        "name": key.label,
        "type": key.type,
        "last_four": key.last_four,
        "networks": [str(network) for network in key.allowed_networks],
    }


def _kind_of(key: ApiKey) -> str:
    return "secret" if key.type is KeyType.SECRET else "checkout"


def _sees_whole(visit: Visit, key: ApiKey) -> bool:
    """Say whether the member sees more of a key than its last four characters."""
    return visit.can(PERMISSIONS[key.type])


def _status_of(key: ApiKey, *, now: datetime) -> tuple[str, str]:
    """What a key's state is called, and how it looks."""
    if key.revoked_at is not None:
        return "Revogada", "bad"
    if not key.works_at(now):
        return "Encerrada", "bad"
    if key.replaced_by is not None:
        return "Em troca", "warn"
    return "Ativa", "good"


def _pages_of(kind: str, key_type: KeyType) -> tuple[Page, ...]:
    """The pages for one kind of key, for whoever may manage it."""
    permission, what = PERMISSIONS[key_type], f"/keys/{kind}"
    return (
        shown(f"{what}/new", partial(ask_new, key_type), permission, "Nova chave"),
        sent(f"{what}/new", partial(create, key_type), permission, "Criar chave"),
        shown(f"{what}/{{id}}/edit", partial(ask_change, key_type), permission, "Editar chave"),
        sent(f"{what}/{{id}}/edit", partial(change, key_type), permission, "Salvar chave"),
        shown(f"{what}/{{id}}/rotate", partial(ask_rotate, key_type), permission, "Trocar chave?"),
        sent(f"{what}/{{id}}/rotate", partial(rotate, key_type), permission, "Trocar chave"),
        shown(f"{what}/{{id}}/revoke", partial(ask_revoke, key_type), permission, "Revogar chave?"),
        sent(f"{what}/{{id}}/revoke", partial(revoke, key_type), permission, "Revogar chave"),
    )


PAGES: Final[tuple[Page, ...]] = (
    shown("/keys", show_keys, Permission.KEYS_READ, "Chaves de API"),
    *(page for kind, key_type in KINDS.items() for page in _pages_of(kind, key_type)),
)
