"""Webhooks: the addresses that are told of events, how they do, and what they are signed with."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Final

from vintem.api.call import Answer
from vintem.api.webhook_shapes import EVENT_KINDS
from vintem.api.webhooks import check_url
from vintem.dashboard import next_page
from vintem.dashboard.answers import go, page
from vintem.dashboard.asked import period_of
from vintem.dashboard.forms import Form
from vintem.dashboard.page import Page, sent, shown
from vintem.dashboard.typed import typed_day
from vintem.dashboard.visit import Visit
from vintem.kit.clock import business_day
from vintem.kit.errors import ErrorCode, Refusal
from vintem.kit.ids import Prefix, is_id
from vintem.kit.paging import PAGE_SIZE_MAX, PageRequest
from vintem.kit.urls import URL_CHARACTERS_MAX
from vintem.members.model import Permission
from vintem.runtime.db import Connection
from vintem.trail import service as trail
from vintem.webhooks import service as webhooks
from vintem.webhooks.model import EVERY_EVENT, REPLAY_MAX, DisabledReason, Endpoint
from vintem.webhooks.search import Health
from vintem.webhooks.service import Place, Wishes

DESCRIPTION_CHARACTERS_MAX: Final = 255
REPLAYED_EVENTS_MAX: Final = 10_000
REPLAY_DAYS: Final = 7
SHOWN_ONCE: Final = "webhooks"
GROUPS: Final = (
    ("Transações", "transaction."),
    ("Reembolsos", "refund."),
    ("Saques", "withdrawal."),
    ("Sessões de checkout", "checkout."),
    ("Webhooks", "webhook."),
)
WHY_DISABLED: Final[Mapping[DisabledReason, str]] = {
    DisabledReason.MERCHANT: "Desativado por vocês.",
    DisabledReason.GONE: "Desativado automaticamente: o endereço respondeu 410.",
    DisabledReason.UNREACHABLE: (
        "Desativado automaticamente: 120 horas sem nenhuma entrega aceita."
    ),
}


class EndpointForm(Form, frozen=True):
    """What an address shall be."""

    url: str = ""
    description: str = ""
    every: str = ""
    events: tuple[str, ...] = ()


class ReplayForm(Form, frozen=True):
    """Of which days events are told again."""

    since: str = ""
    until: str = ""


async def show_webhooks(visit: Visit) -> Answer:
    """List the addresses and how they did of late."""
    endpoints = await _list(visit)
    return page(
        visit,
        "webhooks.html",
        title="Webhooks",
        endpoints=endpoints,
        healths=await _healths(visit, endpoints),
        nothing=Health(),
        why_disabled=WHY_DISABLED,
        is_by_us=_is_by_us,
    )


async def show_webhook(visit: Visit) -> Answer:
    """Show an address; a secret that was just made is shown this once."""
    endpoint = await _find(visit)
    health = (await _healths(visit, [endpoint])).get(endpoint.endpoint_id, Health())
    secret = webhooks.open_secret(visit.resources.sealer, endpoint.secrets.sealed)
    old_until = endpoint.secrets.old_until
    return page(
        visit,
        "webhook.html",
        title="Webhook",
        endpoint=endpoint,
        health=health,
        last_four=secret.rstrip("=")[-4:],
        old_until=old_until if old_until is not None and old_until > visit.call.now else None,
        why_disabled=WHY_DISABLED,
        is_by_us=_is_by_us,
        made=await next_page.take(visit, place=SHOWN_ONCE),
    )


async def ask_new(visit: Visit) -> Answer:
    """Ask for an address."""
    return _form_page(visit, None, EndpointForm(every="1"), {})


async def create(visit: Visit) -> Answer:
    """Register an address and show its secret on the next page."""
    form = await visit.form(EndpointForm)
    errors = await _check(visit, form)
    if errors:
        return _form_page(visit, None, form, errors)
    resources = visit.resources

    async def write(block: Connection) -> Endpoint:
        made, secret = await webhooks.register_within(
            block, resources.sealer, _place(visit), _wishes(form), now=visit.call.now
        )
        await next_page.leave(visit, secret, place=SHOWN_ONCE, block=block)
        await trail.record(
            block, visit.act("webhook.created", "webhook", made.endpoint_id, after=_told(made))
        )
        return made

    try:
        made = await resources.database.atomically(write)
    except Refusal as refusal:
        if refusal.code is not ErrorCode.WEBHOOK_LIMIT_REACHED:
            raise
        limit = "Vocês já têm 16 endereços neste ambiente: exclua um antes de criar outro."
        return _form_page(visit, None, form, {"": limit})
    return go(visit.href(f"/webhooks/{made.endpoint_id}", said="webhook-created"))


async def ask_change(visit: Visit) -> Answer:
    """Show an address to be changed."""
    endpoint = await _find(visit)
    is_every = EVERY_EVENT in endpoint.events
    form = EndpointForm(
        url=endpoint.url,
        description=endpoint.description,
        every="1" if is_every else "",
        events=() if is_every else tuple(endpoint.events),
    )
    return _form_page(visit, endpoint, form, {})


async def change(visit: Visit) -> Answer:
    """Change an address."""
    endpoint = await _find(visit)
    form = await visit.form(EndpointForm)
    errors = await _check(visit, form)
    if errors:
        return _form_page(visit, endpoint, form, errors)
    await _write_change(visit, endpoint, _wishes(form), "webhook.changed")
    return go(visit.href(f"/webhooks/{endpoint.endpoint_id}", said="webhook-changed"))


async def enable(visit: Visit) -> Answer:
    """Tell an address again of what happens."""
    return await _switch(visit, is_enabled=True)


async def disable(visit: Visit) -> Answer:
    """Tell an address nothing more."""
    return await _switch(visit, is_enabled=False)


async def ask_delete(visit: Visit) -> Answer:
    """Ask whether an address shall really be forgotten."""
    return page(visit, "webhook_delete.html", title="Excluir webhook", endpoint=await _find(visit))


async def delete(visit: Visit) -> Answer:
    """Forget an address."""
    endpoint = await _find(visit)
    await visit.form(Form)

    async def write(block: Connection) -> None:
        await webhooks.delete(block, _place(visit), endpoint.endpoint_id, now=visit.call.now)
        await trail.record(
            block,
            visit.act("webhook.deleted", "webhook", endpoint.endpoint_id, before=_told(endpoint)),
        )

    await visit.resources.database.atomically(write)
    return go(visit.href("/webhooks", said="webhook-deleted"))


async def ask_rotate(visit: Visit) -> Answer:
    """Ask whether an address shall have another secret."""
    return page(visit, "webhook_rotate.html", title="Trocar segredo", endpoint=await _find(visit))


async def rotate(visit: Visit) -> Answer:
    """Give an address another secret and show it on the next page."""
    endpoint = await _find(visit)
    await visit.form(Form)
    resources = visit.resources

    async def write(block: Connection) -> None:
        _, secret = await webhooks.rotate_secret_within(
            block, resources.sealer, _place(visit), endpoint.endpoint_id, now=visit.call.now
        )
        await next_page.leave(visit, secret, place=SHOWN_ONCE, block=block)
        await trail.record(block, visit.act("webhook.rotated", "webhook", endpoint.endpoint_id))

    await resources.database.atomically(write)
    return go(visit.href(f"/webhooks/{endpoint.endpoint_id}", said="webhook-rotated"))


async def test(visit: Visit) -> Answer:
    """Send an address an event that says nothing, and lead to what comes of it."""
    endpoint = await _find(visit)
    await visit.form(Form)
    if not endpoint.is_enabled:
        return go(visit.href(f"/webhooks/{endpoint.endpoint_id}", said="webhook-is-disabled"))

    async def write(block: Connection) -> str:
        delivery_id = await webhooks.ping_within(
            block, _place(visit), endpoint.endpoint_id, now=visit.call.now
        )
        await trail.record(block, visit.act("webhook.tested", "webhook", endpoint.endpoint_id))
        return delivery_id

    delivery_id = await visit.resources.database.atomically(write)
    return go(visit.href(f"/deliveries/{delivery_id}", said="webhook-tested"))


async def ask_replay(visit: Visit) -> Answer:
    """Ask of which days events shall be told again."""
    endpoint = await _find(visit)
    today = business_day(visit.call.now)
    form = ReplayForm(since=typed_day(today - timedelta(days=REPLAY_DAYS)), until=typed_day(today))
    return _replay_page(visit, endpoint, form, {})


async def replay(visit: Visit) -> Answer:
    """Tell an address once more what happened in some days."""
    endpoint = await _find(visit)
    form = await visit.form(ReplayForm)
    start, end = period_of(form.since, form.until)
    errors: dict[str, str] = {}
    if start is None:
        errors["since"] = "Informe o primeiro dia."
    if end is None or (start is not None and end <= start):
        errors["until"] = "Informe o último dia, igual ou depois do primeiro."
    elif start is not None and end - start > REPLAY_MAX + timedelta(days=1):
        errors["until"] = f"Escolha no máximo {REPLAY_MAX.days} dias."
    if not endpoint.is_enabled:
        errors[""] = "O webhook está desativado: reative-o antes de reenviar."
    if errors or start is None or end is None:
        return _replay_page(visit, endpoint, form, errors)

    async def write(block: Connection) -> None:
        count = await webhooks.replay(
            block,
            _place(visit),
            endpoint.endpoint_id,
            start=start,
            end=end - timedelta(microseconds=1),
            now=visit.call.now,
            events_max=REPLAYED_EVENTS_MAX,
        )
        after = {"from": form.since, "to": form.until, "events": count}
        await trail.record(
            block, visit.act("webhook.replayed", "webhook", endpoint.endpoint_id, after=after)
        )

    await visit.resources.database.atomically(write)
    return go(visit.href("/deliveries", endpoint=endpoint.endpoint_id, said="webhook-replayed"))


async def _switch(visit: Visit, *, is_enabled: bool) -> Answer:
    endpoint = await _find(visit)
    await visit.form(Form)
    word = "enabled" if is_enabled else "disabled"
    await _write_change(visit, endpoint, Wishes(is_enabled=is_enabled), f"webhook.{word}")
    return go(visit.href(f"/webhooks/{endpoint.endpoint_id}", said=f"webhook-{word}"))


async def _write_change(visit: Visit, endpoint: Endpoint, wishes: Wishes, action: str) -> None:
    async def write(block: Connection) -> None:
        was, changed = await webhooks.change_within(
            block, _place(visit), endpoint.endpoint_id, wishes, now=visit.call.now
        )
        await trail.record(
            block,
            visit.act(
                action, "webhook", endpoint.endpoint_id, before=_told(was), after=_told(changed)
            ),
        )

    await visit.resources.database.atomically(write)


def _place(visit: Visit) -> Place:
    return Place(visit.member.company_id, visit.environment)


async def _list(visit: Visit) -> Sequence[Endpoint]:
    everything = PageRequest(page=1, page_size=PAGE_SIZE_MAX, cursor=None)
    found = await webhooks.list_endpoints(visit.resources.database, _place(visit), everything)
    return found.endpoints


async def _find(visit: Visit) -> Endpoint:
    endpoint_id = visit.call.params["id"]
    if not is_id(endpoint_id, Prefix.WEBHOOK):
        raise Refusal(ErrorCode.WEBHOOK_NOT_FOUND)
    return await webhooks.get(visit.resources.database, _place(visit), endpoint_id)


async def _healths(visit: Visit, endpoints: Sequence[Endpoint]) -> Mapping[str, Health]:
    return await webhooks.healths(
        visit.resources.database,
        _place(visit),
        [each.endpoint_id for each in endpoints],
        now=visit.call.now,
    )


async def _check(visit: Visit, form: EndpointForm) -> dict[str, str]:
    """Find what is wrong with an address, as the API does."""
    errors: dict[str, str] = {}
    if not form.url or len(form.url) > URL_CHARACTERS_MAX:
        errors["url"] = f"Informe o endereço, com até {URL_CHARACTERS_MAX} caracteres."
    if len(form.description) > DESCRIPTION_CHARACTERS_MAX:
        errors["description"] = f"Use até {DESCRIPTION_CHARACTERS_MAX} caracteres."
    if not form.every and not form.events:
        errors["events"] = "Escolha ao menos um evento, ou todos."
    elif any(kind not in EVENT_KINDS for kind in form.events):
        errors["events"] = "Escolha eventos da lista."
    if "url" not in errors:
        try:
            await check_url(visit.resources, _place(visit), form.url)
        except Refusal as refusal:
            if refusal.code is not ErrorCode.INVALID_URL:
                raise
            errors["url"] = (
                "Este endereço não pode ser chamado: use https, um nome público que resolva e a"
                " porta 443 ou 8443, sem usuário nem senha."
            )
    return errors


def _wishes(form: EndpointForm) -> Wishes:
    events = (EVERY_EVENT,) if form.every else tuple(dict.fromkeys(form.events))
    return Wishes(form.url, events, form.description)


def _told(endpoint: Endpoint) -> dict[str, object]:
    """What the trail may say of an address; what follows its path may be a secret of theirs."""
    return {
        "url": endpoint.url.partition("?")[0],
        "events": list(endpoint.events),
        "description": endpoint.description,
        "enabled": endpoint.is_enabled,
    }


def _is_by_us(endpoint: Endpoint) -> bool:
    """Say whether nobody of the company has disabled it."""
    return endpoint.disabled_reason in {DisabledReason.GONE, DisabledReason.UNREACHABLE}


def _form_page(
    visit: Visit, endpoint: Endpoint | None, form: EndpointForm, errors: Mapping[str, str]
) -> Answer:
    return page(
        visit,
        "webhook_form.html",
        title="Novo webhook" if endpoint is None else "Editar webhook",
        status=422 if errors else 200,
        endpoint=endpoint,
        form=form,
        errors=errors,
        groups=[
            (label, [kind for kind in EVENT_KINDS if kind.startswith(prefix)])
            for label, prefix in GROUPS
        ],
        allows_loopback=visit.is_test and visit.resources.allows_loopback_webhooks,
    )


def _replay_page(
    visit: Visit, endpoint: Endpoint, form: ReplayForm, errors: Mapping[str, str]
) -> Answer:
    return page(
        visit,
        "webhook_replay.html",
        title="Reenviar eventos",
        status=422 if errors else 200,
        endpoint=endpoint,
        form=form,
        errors=errors,
        events_max=REPLAYED_EVENTS_MAX,
    )


_MANAGE: Final = Permission.WEBHOOKS

PAGES: Final[tuple[Page, ...]] = (
    shown("/webhooks", show_webhooks, Permission.WEBHOOKS_READ, "Webhooks"),
    shown("/webhooks/new", ask_new, _MANAGE, "Novo webhook"),
    sent("/webhooks/new", create, _MANAGE, "Criar webhook"),
    shown("/webhooks/{id}", show_webhook, Permission.WEBHOOKS_READ, "Webhook"),
    shown("/webhooks/{id}/edit", ask_change, _MANAGE, "Editar webhook"),
    sent("/webhooks/{id}/edit", change, _MANAGE, "Salvar webhook"),
    sent("/webhooks/{id}/enable", enable, _MANAGE, "Reativar webhook"),
    sent("/webhooks/{id}/disable", disable, _MANAGE, "Desativar webhook"),
    shown("/webhooks/{id}/delete", ask_delete, _MANAGE, "Excluir webhook?"),
    sent("/webhooks/{id}/delete", delete, _MANAGE, "Excluir webhook"),
    shown("/webhooks/{id}/rotate", ask_rotate, _MANAGE, "Trocar segredo?"),
    sent("/webhooks/{id}/rotate", rotate, _MANAGE, "Trocar segredo"),
    sent("/webhooks/{id}/test", test, _MANAGE, "Enviar evento de teste"),
    shown("/webhooks/{id}/replay", ask_replay, _MANAGE, "Reenviar eventos?"),
    sent("/webhooks/{id}/replay", replay, _MANAGE, "Reenviar eventos"),
)
