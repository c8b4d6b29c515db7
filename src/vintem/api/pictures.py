"""Pictures of PIX codes and pages of boletos: for whoever holds their address, without a key."""

import asyncio
import base64
import binascii
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Final

import msgspec

from vintem.api.boleto_order import BOLETO_PURPOSE
from vintem.api.call import Access, Answer, Call, Content, Header, Route
from vintem.api.pix_order import PICTURE_PURPOSE
from vintem.api.transaction_order import unseal_document
from vintem.api.transaction_shapes import BoletoReply, CustomerReply, PixReply
from vintem.brazil.boleto import SANDBOX_BANK, FineKind
from vintem.brazil.boleto_sheet import BoletoSheet, bank_code_with_digit, format_postal_code
from vintem.brazil.qr_picture import draw_png, draw_svg
from vintem.companies import service as companies
from vintem.companies.model import Company, Environment
from vintem.kit.clock import business_day
from vintem.kit.errors import ErrorCode, Refusal
from vintem.ledger.model import Scope
from vintem.runtime.rate_limit import PublicLimit
from vintem.transactions import service as transactions
from vintem.transactions.model import Status, Transaction

KEPT_BYTES_MAX: Final = 32 * 1024 * 1024
DRAWN_AT_ONCE_MAX: Final = 2
KEPT_BY_READERS_SECONDS: Final = 2_592_000
SEALED_BYTES_MIN: Final = 12 + 16  # what sealing adds: a nonce and a tag

SANDBOX_BANK_NAME: Final = "Banco de Teste"


@dataclass(frozen=True, slots=True)
class Form:
    """A way to show a payment, and what its tokens are sealed for."""

    media_type: str
    purpose: bytes
    headers: tuple[Header, ...] = ()


SVG: Final = Form(
    "image/svg+xml", PICTURE_PURPOSE, ((b"content-security-policy", b"default-src 'none'"),)
)
PNG: Final = Form("image/png", PICTURE_PURPOSE)
PDF: Final = Form(
    "application/pdf", BOLETO_PURPOSE, ((b"content-disposition", b'inline; filename="boleto.pdf"'),)
)


class Shown(msgspec.Struct, frozen=True, rename="camel"):
    """What pictures and pages need of a payment's record."""

    company_id: str
    customer: CustomerReply
    pix: PixReply | None
    boleto: BoletoReply | None


class Drawings:
    """What was drawn last, as much of it as may be kept."""

    def __init__(self, *, bytes_max: int) -> None:
        self._bytes_left = bytes_max
        self._kept: OrderedDict[tuple[Form, bytes], bytes] = OrderedDict()

    def find(self, key: tuple[Form, bytes]) -> bytes | None:
        """Give a drawing that is kept."""
        drawing = self._kept.get(key)
        if drawing is not None:
            self._kept.move_to_end(key)
        return drawing

    def keep(self, key: tuple[Form, bytes], drawing: bytes) -> None:
        """Keep a drawing, and drop those that nobody has asked for the longest."""
        self._bytes_left += len(self._kept.pop(key, b"")) - len(drawing)
        self._kept[key] = drawing
        while self._bytes_left < 0:
            _, dropped = self._kept.popitem(last=False)
            self._bytes_left += len(dropped)


_drawings: Final = Drawings(bytes_max=KEPT_BYTES_MAX)
# A drawing takes tens of milliseconds, for which no other call shall wait. Few at once: threads
# take turns with the loop, so that many of them would slow it down after all.
_hands: Final = ThreadPoolExecutor(DRAWN_AT_ONCE_MAX, thread_name_prefix="drawing")


async def draw_pix_svg(call: Call) -> Answer:
    """Draw the code of a PIX as vectors."""
    return await _answer(call, SVG, call.params["imageToken"])


async def draw_pix_png(call: Call) -> Answer:
    """Draw the code of a PIX as pixels."""
    return await _answer(call, PNG, call.params["imageToken"])


async def draw_boleto_pdf(call: Call) -> Answer:
    """Draw the page of a boleto."""
    return await _answer(call, PDF, call.params["token"])


async def _answer(call: Call, form: Form, token: str) -> Answer:
    """Show what the token stands for."""
    headers = (
        (b"cache-control", b"private, max-age=%d, immutable" % KEPT_BY_READERS_SECONDS),
        (b"x-robots-tag", b"noindex"),
        *form.headers,
    )
    return Content(await _find_drawing(call, form, token), form.media_type, headers=headers)


async def _find_drawing(call: Call, form: Form, token: str) -> bytes:
    name = _open_token(call, token, purpose=form.purpose)
    # Asked of the database each time: what can be paid no longer is shown to nobody.
    transaction = await _find_payable(call, name)
    drawing = _drawings.find((form, name))
    if drawing is None:
        draw = await _what_to_draw(call, form, transaction)
        drawing = await asyncio.get_running_loop().run_in_executor(_hands, draw)
        _drawings.keep((form, name), drawing)
    return drawing


def _open_token(call: Call, token: str, *, purpose: bytes) -> bytes:
    """Give the name of the payment that a token was sealed for; any other token is nobody's."""
    try:
        sealed = base64.urlsafe_b64decode(token.encode("ascii") + b"=" * (-len(token) % 4))
    except (UnicodeEncodeError, binascii.Error):
        raise Refusal(ErrorCode.NOT_FOUND) from None
    # The reader above skips what it does not know, and the last character may say too much.
    is_exact = base64.urlsafe_b64encode(sealed).rstrip(b"=").decode() == token
    if not is_exact or len(sealed) < SEALED_BYTES_MIN:
        raise Refusal(ErrorCode.NOT_FOUND)
    name = call.resources.sealer.open(sealed, purpose=purpose)
    if name is None:
        raise Refusal(ErrorCode.NOT_FOUND)
    return name


async def _find_payable(call: Call, name: bytes) -> Transaction:
    """Find a payment that waits to be made, or was made; one that came to nothing is gone."""
    company_id, environment, transaction_id = name.decode().split("/")
    scope = Scope(int(company_id), environment)
    try:
        transaction = await transactions.get(call.resources.database, scope, transaction_id)
    except Refusal:
        raise Refusal(ErrorCode.NOT_FOUND) from None
    is_over = transaction.expires_at is not None and transaction.expires_at <= call.now
    is_unpaid_over = transaction.status is Status.PENDING and is_over
    if is_unpaid_over or transaction.status in {Status.CANCELLED, Status.FAILED}:
        raise Refusal(ErrorCode.NOT_FOUND)
    return transaction


async def _what_to_draw(call: Call, form: Form, transaction: Transaction) -> Callable[[], bytes]:
    database = call.resources.database
    shown = msgspec.json.decode(transaction.details, type=Shown)
    if form is PDF:
        company = await companies.get_company(database, shown.company_id)
        document = unseal_document(call.resources.sealer, transaction)
        return partial(_draw_pdf, sheet_of(transaction, shown, company, document=document))
    assert shown.pix is not None, "only codes of PIX have a picture"
    return partial(draw_svg if form is SVG else draw_png, shown.pix.qr_code)


def _draw_pdf(sheet: BoletoSheet) -> bytes:
    # Loaded by the thread that draws the first page: a process that draws none does without it.
    from vintem.brazil.boleto_page import draw_pdf  # noqa: PLC0415

    return draw_pdf(sheet)


def sheet_of(
    transaction: Transaction, shown: Shown, company: Company, *, document: str
) -> BoletoSheet:
    """Say what the page of a boleto shows; the bank's part is in its barcode."""
    boleto, address = shown.boleto, shown.customer.address
    assert boleto is not None, "only boletos have a page"
    assert address is not None, "a boleto has the address of its payer"
    free_field = boleto.barcode[19:]
    street = (address.street, address.street_number, address.complement, address.neighborhood)
    return BoletoSheet(
        bank_name=SANDBOX_BANK_NAME,
        bank_code=bank_code_with_digit(SANDBOX_BANK),
        beneficiary_name=company.legal_name or company.name,
        beneficiary_document=company.document or "",
        beneficiary_address="",
        payer_name=shown.customer.name,
        payer_document=document,
        payer_address_lines=(
            ", ".join(part for part in street if part),
            f"{format_postal_code(address.zip_code)} {address.city}/{address.state}",
        ),
        our_number=free_field[7:24],
        document_number=transaction.transaction_id,
        document_date=business_day(transaction.created_at),
        due_date=boleto.due_date,
        amount_cents=transaction.amount,
        instructions=boleto.instructions or "",
        late_lines=_late_lines(transaction, boleto),
        digitable_line=boleto.digitable_line,
        barcode=boleto.barcode,
        pix_code=boleto.pix_qr_code,
        is_test=transaction.environment == Environment.TEST,
        wallet=free_field[4:7],
    )


def _late_lines(transaction: Transaction, boleto: BoletoReply) -> tuple[str, ...]:
    """Tell the payer, in Portuguese, what paying late costs and when it is too late."""
    assert transaction.expires_at is not None, "a boleto has an end"
    lines = []
    if boleto.fine is not None:
        value = _with_comma(boleto.fine.value)
        is_percentage = boleto.fine.type is FineKind.PERCENTAGE
        fine = f"{value}%" if is_percentage else f"R$ {value}"
        lines.append(f"Após o vencimento, multa de {fine}.")
    if boleto.interest is not None:
        interest = _with_comma(boleto.interest.value)
        lines.append(f"Após o vencimento, juros de {interest}% ao mês, por dia de atraso.")
    last_day = business_day(transaction.expires_at)
    lines.append(f"Não receber após {last_day:%d/%m/%Y}.")
    return tuple(lines)


def _with_comma(hundredths: int) -> str:
    whole, rest = divmod(hundredths, 100)
    thousands = f"{whole:,}".replace(",", ".")
    return f"{thousands},{rest:02d}"


_REFUSALS: Final = (ErrorCode.NOT_FOUND,)

ROUTES = (
    Route(
        method="GET",
        path="/v1/pix/{imageToken}.svg",
        handler=draw_pix_svg,
        summary="Picture of a PIX code, as SVG",
        description="Needs no key: the address is in `pixQrCodeImage`, and nobody can guess it.",
        group="Pictures",
        access=Access.PUBLIC,
        public_limits=(PublicLimit.PICTURES,),
        refusals=_REFUSALS,
    ),
    Route(
        method="GET",
        path="/v1/pix/{imageToken}.png",
        handler=draw_pix_png,
        summary="Picture of a PIX code, as PNG",
        description="The address in `pixQrCodeImage`, with `.png` in place of `.svg`.",
        group="Pictures",
        access=Access.PUBLIC,
        public_limits=(PublicLimit.PICTURES,),
        refusals=_REFUSALS,
    ),
    Route(
        method="GET",
        path="/v1/boletos/{token}.pdf",
        handler=draw_boleto_pdf,
        summary="Page of a boleto, to print",
        description="Needs no key: the address is in `boletoUrl`, and nobody can guess it.",
        group="Pictures",
        access=Access.PUBLIC,
        public_limits=(PublicLimit.PICTURES,),
        refusals=_REFUSALS,
    ),
)
