"""Card tokens: a card is sent once, and paid with by its token."""

from vintem.api.call import Access, Answer, Call, Data, Reply, Route
from vintem.api.card_order import read_card
from vintem.api.transaction_shapes import RawCardBody
from vintem.brazil.cards import CardBrand
from vintem.companies.model import Environment, LimitGroup
from vintem.kit.clock import PublicTime, public_time
from vintem.kit.errors import ErrorCode, Refusal
from vintem.ledger.model import Scope
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
    if call.company.environment is Environment.LIVE:
        # A real card is not taken while there is nobody to charge it.
        raise Refusal(ErrorCode.PROVIDER_NOT_CONFIGURED)
    card = read_card(call, call.body_as(RawCardBody))
    resources, scope = call.resources, Scope(call.company.company_id, call.company.environment)
    made = await card_tokens.keep(resources.database, resources.sealer, scope, card, call.now)
    return Data(
        CardTokenReply(
            token=made.token,
            brand=card.number.brand,
            first_digits=card.number.first_digits,
            last_digits=card.number.last_digits,
            expires_at=public_time(made.expires_at),
        ),
        201,
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
)
