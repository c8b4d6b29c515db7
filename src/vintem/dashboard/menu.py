"""The menu: every page that has a place in it, by the parts of a merchant's work."""

from typing import Final, NamedTuple

from vintem.members.model import Permission


class Item(NamedTuple):
    """A page in the menu, for whoever has the permission."""

    label: str
    path: str
    permission: Permission


class Section(NamedTuple):
    """A part of the menu."""

    label: str
    items: tuple[Item, ...]


MENU: Final = (
    Section("", (Item("Início", "", Permission.SALES_READ),)),
    Section(
        "Vendas",
        (
            Item("Transações", "/transactions", Permission.SALES_READ),
            Item("Sessões de checkout", "/sessions", Permission.SALES_READ),
            Item("Clientes", "/customers", Permission.SALES_READ),
        ),
    ),
    Section(
        "Checkout",
        (
            Item("Produtos", "/products", Permission.CATALOGUE_READ),
            Item("Cupons", "/coupons", Permission.CATALOGUE_READ),
            Item("Links de pagamento", "/links", Permission.CATALOGUE_READ),
            Item("Aparência", "/appearance", Permission.APPEARANCE),
        ),
    ),
    Section(
        "Financeiro",
        (
            Item("Saldo", "/balance", Permission.BALANCE_READ),
            Item("Extrato", "/statement", Permission.BALANCE_READ),
            Item("Saques", "/withdrawals", Permission.BALANCE_READ),
            Item("Aprovações", "/approvals", Permission.APPROVE),
        ),
    ),
    Section(
        "Desenvolvedores",
        (
            Item("Chaves de API", "/keys", Permission.KEYS_READ),
            Item("Webhooks", "/webhooks", Permission.WEBHOOKS_READ),
            Item("Entregas", "/deliveries", Permission.WEBHOOKS_READ),
            Item("Logs de requisição", "/requests", Permission.LOGS),
            Item("Simuladores", "/simulators", Permission.SIMULATE),
        ),
    ),
    Section(
        "Configurações",
        (
            Item("Empresa", "/company", Permission.COMPANY_READ),
            Item("Limites", "/limits", Permission.COMPANY_READ),
            Item("Métodos e parcelas", "/methods", Permission.COMPANY_READ),
            Item("Domínios", "/domains", Permission.COMPANY_READ),
            Item("Equipe", "/team", Permission.TEAM),
            Item("Segurança", "/security", Permission.SIGNED_IN),
            Item("Auditoria", "/trail", Permission.AUDIT_READ),
            Item("Exportações", "/exports", Permission.EXPORT),
        ),
    ),
)


def menu_path(path: str) -> str:
    """Find which line of the menu a page belongs to: `/products/new` is one of Produtos."""
    return "/" + path[1:].partition("/")[0] if path else ""
