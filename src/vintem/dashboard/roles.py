"""Roles in words."""

from collections.abc import Mapping
from typing import Final

from vintem.members.model import Role

ROLE_NAMES: Final[Mapping[Role, str]] = {
    Role.OWNER: "Proprietário",
    Role.ADMIN: "Administração",
    Role.FINANCE: "Financeiro",
    Role.DEVELOPER: "Desenvolvimento",
    Role.SUPPORT: "Atendimento",
}
ROLE_MEANINGS: Final[Mapping[Role, str]] = {
    Role.OWNER: "tudo, e é quem pode transferir a empresa",
    Role.ADMIN: "tudo, menos transferir a empresa",
    Role.FINANCE: "saldo, saques, reembolsos e exportações",
    Role.DEVELOPER: "chaves de checkout, webhooks e logs; em teste, quase tudo",
    Role.SUPPORT: "vendas com dados mascarados, cancelamentos e reenvios",
}
GIVEN_ROLES: Final = (Role.ADMIN, Role.FINANCE, Role.DEVELOPER, Role.SUPPORT)
"""What a member can be made; ownership is transferred instead."""


def role_options() -> tuple[tuple[str, str], ...]:
    """The roles that can be given, as a form offers them."""
    return tuple((role, f"{ROLE_NAMES[role]}: {ROLE_MEANINGS[role]}") for role in GIVEN_ROLES)
