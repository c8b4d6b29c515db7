"""What developers try out without a server of their own: a webhook address, limits, test data."""

import secrets
import time
from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from vintem.api.call import Answer
from vintem.api.headers import limit_headers
from vintem.brazil.documents import complete_cnpj, complete_cpf, format_cnpj, format_cpf
from vintem.companies import service as companies
from vintem.companies.model import WINDOW_SECONDS, LimitGroup
from vintem.dashboard.answers import go, page
from vintem.dashboard.forms import Form
from vintem.dashboard.page import Page, sent, shown
from vintem.dashboard.visit import Visit
from vintem.kit.errors import ErrorCode, Refusal
from vintem.kit.paging import PAGE_SIZE_MAX, PageRequest
from vintem.members.model import Permission
from vintem.runtime.db import Connection
from vintem.runtime.rate_limit import MemoryLimiter, Window
from vintem.trail import service as trail
from vintem.webhooks import service as webhooks
from vintem.webhooks import sink
from vintem.webhooks.model import EVERY_EVENT, Endpoint
from vintem.webhooks.service import Place, Wishes
from vintem.webhooks.sink import Behaviour

BURST_CALLS_MAX: Final = 70
BURST_CALLS_OVER: Final = 3
BURST_PAUSE_NS: Final = 1_000
BEHAVIOURS: Final = (
    (Behaviour.OK, "Responder 200 na hora"),
    (Behaviour.ERROR, "Responder 500"),
    (Behaviour.SLOW, "Responder 200 depois de 5 segundos"),
    (Behaviour.TIMEOUT, "Não responder em 15 segundos"),
)
GROUPS: Final = (
    (LimitGroup.TRANSACTIONS, "Transações, por segundo"),
    (LimitGroup.WITHDRAWALS, "Criar saques, por minuto"),
    (LimitGroup.REQUESTS, "Demais chamadas, por minuto"),
)
CARDS: Final = (
    ("4242 4242 4242 4242", "Aprovado"),
    ("4000 0000 0000 0002", "Recusado"),
    ("4000 0000 0000 9995", "Recusado: saldo insuficiente"),
    ("4000 0000 0000 0127", "Recusado: código de segurança errado"),
    ("4000 0000 0000 0119", "Em processamento, pago depois de 2 segundos"),
    ("4000 0000 0000 0069", "Bloqueado para análise"),
    ("4000 0000 0000 0259", "Pago; pré-chargeback em 2 segundos, chargeback em 4"),
)
PAYOUTS: Final = (
    ("…,01", "Falha: chave Pix não encontrada"),
    ("…,02", "Resultado desconhecido; concluído na segunda consulta"),
    ("…,03", "Resultado desconhecido; falha na segunda consulta"),
    ("Qualquer outro", "Concluído depois de 2 segundos"),
)


class BehaviourForm(Form, frozen=True):
    """How the address shall answer."""

    behaviour: str = ""


class BurstAsked(msgspec.Struct, frozen=True):
    """Which limit is tried."""

    group: str = ""


class BurstCall(NamedTuple):
    """One call of a burst: the how-manieth it was, and how it was answered."""

    number: int
    status: int
    headers: Sequence[tuple[str, str]]


async def show_data(visit: Visit) -> Answer:
    """Show cards that do something, and documents that are nobody's."""
    return page(
        visit,
        "simulator_data.html",
        title="Dados de teste",
        cards=CARDS,
        payouts=PAYOUTS,
        cpf=format_cpf(complete_cpf(f"{secrets.randbelow(10**9 - 1) + 1:09}")),
        cnpj=format_cnpj(complete_cnpj(f"{secrets.randbelow(10**8 - 1) + 1:08}0001")),
    )


async def show_burst(visit: Visit) -> Answer:
    """Show what a burst of calls is answered, counted apart from the calls of any key."""
    group = next((each for each, _ in GROUPS if each == visit.asked(BurstAsked).group), None)
    company = await companies.get_company(visit.resources.database, visit.member.company_public_id)
    return page(
        visit,
        "simulator_burst.html",
        title="Rajada de chamadas",
        groups=GROUPS,
        group=group or "",
        calls=[] if group is None else burst(group, company.limits.of(group)),
    )


def burst(group: LimitGroup, limit: int) -> list[BurstCall]:
    """What calls are answered that come at once, three more than allowed; of many the last ones."""
    counted = min(limit, BURST_CALLS_MAX - BURST_CALLS_OVER)
    limiter, window = MemoryLimiter(), Window(0, "burst", group, counted, WINDOW_SECONDS[group])
    start_ns, wall_ns = time.monotonic_ns(), time.time_ns()
    calls = []
    for number in range(1, counted + BURST_CALLS_OVER + 1):
        passed_ns = number * BURST_PAUSE_NS
        decision = limiter.admit_at(
            window, now_ns=start_ns + passed_ns, wall_ns=wall_ns + passed_ns
        )
        # Those before are as many accepted calls, and what is left afterwards is the same.
        told = msgspec.structs.replace(decision, limit=limit)
        headers = [(name.decode(), value.decode()) for name, value in limit_headers(told)]
        if not told.admitted:
            headers.append(("retry-after", str(told.retry_after_seconds)))
        calls.append(BurstCall(limit - counted + number, 200 if told.admitted else 429, headers))
    return calls


async def show_sink(visit: Visit) -> Answer:
    """Show what arrived at the company's own address in the sandbox."""
    _refuse_without_sink(visit)
    database, company_id = visit.resources.database, visit.member.company_id
    url = _sink_url(visit)
    return page(
        visit,
        "simulator_sink.html",
        title="Endereço de teste",
        url=url,
        endpoint=await _endpoint_at(visit, url),
        behaviours=BEHAVIOURS,
        behaviour=await sink.behaviour_of(database, company_id),
        words=dict(BEHAVIOURS),
        calls=[
            (each, msgspec.json.decode(each.headers, type=dict[str, str]))
            for each in await sink.list_calls(database, company_id)
        ],
    )


async def change_sink(visit: Visit) -> Answer:
    """Let the address answer in another way."""
    _refuse_without_sink(visit)
    form = await visit.form(BehaviourForm)
    behaviour = next((each for each in Behaviour if each == form.behaviour), None)
    if behaviour is None:
        raise Refusal(ErrorCode.VALIDATION_ERROR)

    async def write(block: Connection) -> None:
        await sink.behave(block, visit.member.company_id, behaviour)
        await trail.record(
            block, visit.act("simulator.sink", "sink", "sandbox", after={"behaviour": behaviour})
        )

    await visit.resources.database.atomically(write)
    return go(visit.href("/simulators/sink", said="sink-changed"))


async def register_sink(visit: Visit) -> Answer:
    """Register the address as a webhook of all events, unless it is one."""
    _refuse_without_sink(visit)
    await visit.form(Form)
    url = _sink_url(visit)
    if await _endpoint_at(visit, url) is not None:
        return go(visit.href("/simulators/sink", said="sink-created"))

    async def write(block: Connection) -> None:
        made, _ = await webhooks.register_within(
            block,
            visit.resources.sealer,
            Place(visit.member.company_id, visit.environment),
            Wishes(url, (EVERY_EVENT,), "Endereço de teste"),
            now=visit.call.now,
        )
        await sink.behave(block, visit.member.company_id, Behaviour.OK)
        after = {"description": made.description}
        await trail.record(
            block, visit.act("webhook.created", "webhook", made.endpoint_id, after=after)
        )

    await visit.resources.database.atomically(write)
    return go(visit.href("/simulators/sink", said="sink-created"))


def _refuse_without_sink(visit: Visit) -> None:
    """Where this machine may not be called, the address would hear nothing."""
    if not visit.resources.allows_loopback_webhooks:
        raise Refusal(ErrorCode.NOT_FOUND)


def _sink_url(visit: Visit) -> str:
    resources = visit.resources
    path = sink.path_of(visit.member.company_public_id, pepper=resources.pepper)
    return resources.callback_url + path


async def _endpoint_at(visit: Visit, url: str) -> Endpoint | None:
    everything = PageRequest(page=1, page_size=PAGE_SIZE_MAX, cursor=None)
    place = Place(visit.member.company_id, visit.environment)
    found = await webhooks.list_endpoints(visit.resources.database, place, everything)
    return next((each for each in found.endpoints if each.url == url), None)


_USE: Final = Permission.SIMULATE

PAGES: Final[tuple[Page, ...]] = (
    shown("/simulators/data", show_data, _USE, "Dados de teste"),
    shown("/simulators/burst", show_burst, _USE, "Rajada de chamadas"),
    shown("/simulators/sink", show_sink, _USE, "Endereço de teste"),
    sent("/simulators/sink", change_sink, _USE, "Mudar o endereço de teste"),
    sent("/simulators/sink/register", register_sink, _USE, "Cadastrar o endereço de teste"),
)
