"""The SQL of what the world sees: a session with its company, its looks and its payment at once."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

import msgspec

from vintem.brazil.installments import CardInterest
from vintem.checkout.link import PaymentLink
from vintem.checkout.model import Appearance, Banner, Merchant, PublicSession, Template, Theme
from vintem.checkout.store import methods_of, session_of
from vintem.runtime.db import Connection, Row
from vintem.transactions.joined import PAYMENT_COLUMNS, payment_in

_banners: Final = msgspec.json.Decoder(type=tuple[Banner, ...]).decode

SessionKey = tuple[int, str]
"""The company of a session, and the session's id."""

MERCHANT_COLUMNS: Final = """
    c.company_id as merchant_id, c.public_id, c.name as company_name, c.legal_name, c.document,
    c.status as company_status, c.display_name as company_display_name, c.support_email,
    c.support_url, c.support_phone, c.domains, c.payment_methods, c.boleto_due_days,
    c.card_interest_basis_points, c.card_free_installments, c.card_installments_max
"""
APPEARANCE_COLUMNS: Final = """
    a.version, a.template, a.theme, a.display_name, a.logo_url, a.logo_media, a.primary_color,
    a.background_color, a.banners
"""

# Each row is looked up by its primary key. Where nothing is known yet of how a table is filled, any
# index that begins with the company would seem as good: only the primary key has this order.
FIND_PUBLIC: Final = f"""
select s.*, {MERCHANT_COLUMNS}, {APPEARANCE_COLUMNS}, {PAYMENT_COLUMNS}
from unnest($1::bigint[], $2::text[]) as k (company_id, session_id)
cross join lateral (
    select * from checkout_session
    where company_id = k.company_id and session_id between k.session_id and k.session_id
    order by session_id limit 1
) as s
cross join lateral (select * from company where company_id = k.company_id limit 1) as c
left join lateral (
    select * from checkout_appearance where company_id = s.company_id
        and environment = s.environment and version = s.appearance_version limit 1
) as a on true
left join lateral (
    select * from transaction
    where company_id = s.company_id
        and transaction_id between s.transaction_id and s.transaction_id
    order by transaction_id limit 1
) as t on true
"""  # noqa: S608 - put together from constants


async def find_sessions(db: Connection, digests: Sequence[bytes]) -> Mapping[bytes, SessionKey]:
    """Find whose sessions tokens are, and which; that never changes.

    A statement of its own: the directory may be on another machine than the company.
    """
    rows = await db.fetch(
        """
        select k.* from unnest($1::bytea[]) as d (digest)
        cross join lateral (
            select * from checkout_session_token where token_digest = d.digest limit 1
        ) as k
        """,
        digests,
    )
    return {row["token_digest"]: (row["company_id"], row["session_id"]) for row in rows}


async def find_public(db: Connection, key: SessionKey, *, now: datetime) -> PublicSession | None:
    """Find all that is shown of a session."""
    row = await db.fetchrow(FIND_PUBLIC, [key[0]], [key[1]])
    return None if row is None else public_of(row, now=now)


async def find_public_rows(db: Connection, keys: Sequence[SessionKey]) -> Mapping[bytes, Row]:
    """Find all that is shown of several sessions, not yet read, by the digests of their tokens."""
    companies, sessions = [key[0] for key in keys], [key[1] for key in keys]
    return {row["token_digest"]: row for row in await db.fetch(FIND_PUBLIC, companies, sessions)}


def public_of(row: Row, *, now: datetime) -> PublicSession:
    """Read all that is shown of a session."""
    merchant = merchant_of(row)
    return PublicSession(
        session=session_of(row),
        merchant=merchant,
        appearance=appearance_in(row, merchant),
        payment=payment_in(row),
        now=now,
    )


async def find_link(
    db: Connection, public_token: str
) -> tuple[PaymentLink, Merchant, Appearance] | None:
    """Find a payment link with its company and how its pages look today."""
    row = await db.fetchrow(
        f"""
        select l.*, {MERCHANT_COLUMNS}, a.*
        from checkout_link_token k
        join checkout_link l on l.company_id = k.company_id and l.link_id = k.link_id
        join company c on c.company_id = k.company_id
        left join lateral (
            select {APPEARANCE_COLUMNS} from checkout_appearance a
            where a.company_id = l.company_id and a.environment = l.environment
            order by a.version desc limit 1
        ) as a on true
        where k.public_token = $1
        """,  # noqa: S608 - put together from constants
        public_token,
    )
    if row is None:
        return None
    merchant = merchant_of(row)
    return link_of(row), merchant, appearance_in(row, merchant)


def merchant_of(row: Row) -> Merchant:
    """Read a company as its buyers know it."""
    return Merchant(
        company_id=row["merchant_id"],
        public_id=row["public_id"],
        name=row["company_name"],
        display_name=row["company_display_name"] or row["company_name"],
        is_suspended=row["company_status"] == "suspended",
        payment_methods=methods_of(row["payment_methods"]),
        card_interest=CardInterest(
            monthly_rate_basis_points=row["card_interest_basis_points"],
            free_installments=row["card_free_installments"],
            installments_max=row["card_installments_max"],
        ),
        boleto_due_days=row["boleto_due_days"],
        domains=row["domains"],
        legal_name=row["legal_name"],
        document=row["document"],
        support_email=row["support_email"],
        support_url=row["support_url"],
        support_phone=row["support_phone"],
    )


def appearance_in(row: Row, merchant: Merchant) -> Appearance:
    """Read how a page looks; one that nobody has changed carries the company's name."""
    if row["version"] is None:
        return Appearance(version=0, display_name=merchant.display_name)
    return appearance_of(row)


def appearance_of(row: Row) -> Appearance:
    """Read a version of how pages look."""
    return Appearance(
        version=row["version"],
        display_name=row["display_name"],
        template=Template(row["template"]),
        theme=Theme(row["theme"]),
        primary_color=row["primary_color"],
        background_color=row["background_color"],
        logo_url=row["logo_url"],
        logo_media=row["logo_media"],
        banners=_banners(row["banners"]),
    )


def link_of(row: Row) -> PaymentLink:
    """Read a payment link from its row."""
    return PaymentLink(
        company_id=row["company_id"],
        link_id=row["link_id"],
        environment=row["environment"],
        public_token=row["public_token"],
        name=row["name"],
        product_id=row["product_id"],
        created_at=row["created_at"],
        updated_at=row["updated_at"],
        quantity=row["quantity"],
        success_url=row["success_url"],
        cancel_url=row["cancel_url"],
        message=row["message"],
        inactive_message=row["inactive_message"],
        is_active=row["is_active"],
        ends_at=row["ends_at"],
        payment_methods=methods_of(row["offered_methods"]),
        installments_max=row["installments_max"],
        coupon_id=row["coupon_id"],
        payments_max=row["payments_max"],
        payments_held=row["payments_held"],
        payments_made=row["payments_made"],
        revenue=row["revenue"],
        copied_from=row["copied_from"],
    )
