"""What the owner is told by mail of withdrawals that people ask for and decide about."""

from collections.abc import Mapping
from typing import Final

from vintem.dashboard.money_words import destination_words
from vintem.dashboard.visit import Visit
from vintem.hosted.words import money
from vintem.members import service as members
from vintem.members.model import Role
from vintem.withdrawals.model import Withdrawal

STEPS: Final[Mapping[str, tuple[str, str]]] = {
    "requested": ("pedido", "pediu"),
    "approved": ("aprovado", "aprovou"),
    "rejected": ("rejeitado", "rejeitou"),
    "cancelled": ("cancelado", "cancelou"),
}
"""What has become of the withdrawal, and what somebody did."""


async def tell_owner(visit: Visit, withdrawal: Withdrawal, step: str) -> None:
    """Tell the company's owner what somebody has done, after its commit; nobody waits for it."""
    team = await members.list_members(visit.resources.database, visit.member.company_id)
    became, did = STEPS[step]
    amount = money(withdrawal.amount)
    address = visit.resources.public_url + visit.href(f"/withdrawals/{withdrawal.withdrawal_id}")
    test = "TESTE: " if visit.is_test else ""
    text = (
        f"{visit.member.name} {did} um saque de {amount} da empresa"
        f" {visit.member.company_name}, para {' '.join(destination_words(withdrawal))}.\n\n"
        f"{address}\n"
    )
    for owner in (member for member in team if member.role is Role.OWNER):
        visit.resources.mail.send_later(
            to=owner.email, subject=f"{test}Saque de {amount} {became}", text=text
        )
