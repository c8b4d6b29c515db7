"""Card tokens: a card is sent once, and paid with by its token."""

from vintem.api.call import Access, Answer, Call, Data, Reply, Route
from vintem.api.card_order import read_card
from vintem.api.checkout_gate import SESSION_REFUSALS, find_session
from vintem.api.transaction_shapes import RawCardBody
from vintem.brazil.cards import CardBrand
from vintem.checkout.attempts import refuse_over
from vintem.companies.model import Environment, LimitGroup
from vintem.kit.clock import PublicTime, public_time
from vintem.kit.errors import ErrorCode, Refusal
from vintem.ledger.model import Scope
from vintem.runtime.rate_limit import PublicLimit
from vintem.transactions import card_tokens


class CardTokenReply(Reply, frozen=True):
    """What stands for a card, once and for 15 minutes."""

    token: str
    brand: CardBrand
    first_digits: str
    last_digits: str
    expires_at: PublicTime


async def create_card_token(call: Call) -> Answer:
    """Keep a card sealed until it is used."""
    scope = Scope(call.company.company_id, call.company.environment)
    return Data(await keep_card(call, scope, call.body_as(RawCardBody)), 201)


async def create_session_card_token(call: Call) -> Answer:
    """Keep a card sealed until a session is paid with it."""
    public = call.session
    refuse_over(public.session, now=call.now)
    if public.merchant.is_suspended:
        raise Refusal(ErrorCode.COMPANY_SUSPENDED)
    return Data(await keep_card(call, public.session.scope, call.body_as(RawCardBody)), 201)


async def keep_card(call: Call, scope: Scope, raw: RawCardBody) -> CardTokenReply:
    """Check a card as it was typed in and give the token that it can be used by."""
    if scope.environment == Environment.LIVE:
        # A real card is not taken while there is nobody to charge it.
        raise Refusal(ErrorCode.PROVIDER_NOT_CONFIGURED)
    card, resources = read_card(call, raw), call.resources
    made = await card_tokens.keep(resources.database, resources.sealer, scope, card, call.now)
    return CardTokenReply(
        token=made.token,
        brand=card.number.brand,
        first_digits=card.number.first_digits,
        last_digits=card.number.last_digits,
        expires_at=public_time(made.expires_at),
    )


ROUTES = (
    Route(
        method="POST",
        path="/v1/card-tokens",
        handler=create_card_token,
        summary="Create a card token",
        description=(
            "Keeps a card sealed for 15 minutes. Pay with `card.token`, once; a create that is"
            " refused leaves the token as it was."
        ),
        group="Transactions",
        access=Access.SECRET_KEY,
        limit=LimitGroup.TRANSACTIONS,
        body=RawCardBody,
        answer=CardTokenReply,
        answer_status=201,
        refusals=(ErrorCode.INVALID_CARD, ErrorCode.PROVIDER_NOT_CONFIGURED),
    ),
    Route(
        method="POST",
        path="/v1/checkout/sessions/{token}/card-tokens",
        handler=create_session_card_token,
        summary="Create a card token for a session",
        description=(
            "Called by the buyer's page, without a key. Keeps a card sealed for 15 minutes; the"
            " session is paid with `card.token`, once."
        ),
        group="Checkout",
        access=Access.PUBLIC,
        public_limits=(PublicLimit.CARD_TOKENS,),
        gate=find_session,
        body=RawCardBody,
        answer=CardTokenReply,
        answer_status=201,
        refusals=(
            *SESSION_REFUSALS,
            ErrorCode.COMPANY_SUSPENDED,
            ErrorCode.INVALID_CARD,
            ErrorCode.PROVIDER_NOT_CONFIGURED,
        ),
    ),
)
