"""Payment links as records, without input or output."""

from collections.abc import Sequence
from datetime import datetime

import msgspec

from vintem.kit.money import Cents
from vintem.transactions.model import PaymentMethod


class PaymentLink(msgspec.Struct, frozen=True):
    """An address that a company gives to any number of buyers, each with a session of their own."""

    company_id: int
    link_id: str
    environment: str
    public_token: str
    name: str
    product_id: str
    created_at: datetime
    updated_at: datetime
    quantity: int = 1
    success_url: str | None = None
    cancel_url: str | None = None
    message: str = ""
    """What buyers read beside what is sold."""
    inactive_message: str = ""
    is_active: bool = True
    ends_at: datetime | None = None
    payment_methods: Sequence[PaymentMethod] = ()
    """How it may be paid, of what the company offers; empty: all of it."""
    installments_max: int | None = None
    coupon_id: str | None = None
    """The coupon that its sessions begin with, as long as it can be used."""
    payments_max: int | None = None
    payments_held: int = 0
    """Payments that wait for their buyers; counted only where there is a maximum."""
    payments_made: int = 0
    revenue: Cents = 0
    """What was paid by it, whatever was given back since."""
    copied_from: str | None = None
    """The link of the test environment that it was copied from."""

    @property
    def has_place(self) -> bool:
        """Say whether one more payment can be made by it."""
        taken = self.payments_made + self.payments_held
        return self.payments_max is None or taken < self.payments_max

    def is_active_at(self, now: datetime) -> bool:
        """Say whether buyers who have begun may still go on."""
        return self.is_active and (self.ends_at is None or now < self.ends_at)

    def is_open_at(self, now: datetime) -> bool:
        """Say whether another buyer may come by it."""
        return self.is_active_at(now) and self.has_place
