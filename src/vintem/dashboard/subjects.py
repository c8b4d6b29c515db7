"""What the acts of the trail are about: their words, and which roles see them."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from vintem.members.model import Permission, Role

_FINANCE: Final = frozenset({Role.FINANCE})
_DEVELOPER: Final = frozenset({Role.DEVELOPER})
_BOTH: Final = _FINANCE | _DEVELOPER
_NOBODY_ELSE: Final = frozenset[Role]()


class Subject(NamedTuple):
    """What acts are about, by the first word of an action; owner and admin see all of them."""

    label: str
    roles: frozenset[Role]


SUBJECTS: Final[Mapping[str, Subject]] = {
    "transaction": Subject("Transação", _FINANCE),
    "refund": Subject("Reembolso", _FINANCE),
    "withdrawal": Subject("Saque", _FINANCE),
    "withdrawal_rules": Subject("Regras de saque", _FINANCE),
    "export": Subject("Exportação", _FINANCE),
    "methods": Subject("Métodos e parcelas", _FINANCE),
    "limits": Subject("Limites", _BOTH),
    "company": Subject("Empresa", _FINANCE),
    "fees": Subject("Tarifas", _FINANCE),
    "terms": Subject("Prazos, reserva e disputas", _FINANCE),
    "product": Subject("Produto", _BOTH),
    "coupon": Subject("Cupom", _BOTH),
    "link": Subject("Link de pagamento", _BOTH),
    "appearance": Subject("Aparência", _DEVELOPER),
    "key": Subject("Chave de API", _DEVELOPER),
    "webhook": Subject("Webhook", _DEVELOPER),
    "delivery": Subject("Entrega de webhook", _DEVELOPER),
    "domain": Subject("Domínio", _DEVELOPER),
    "simulator": Subject("Simulador", _DEVELOPER),
    "session": Subject("Sessão de checkout", _BOTH),
    "customer": Subject("Cliente", _NOBODY_ELSE),
    "personal": Subject("Dados pessoais", _NOBODY_ELSE),
    "permission": Subject("Permissão", _NOBODY_ELSE),
    "member": Subject("Membro da equipe", _NOBODY_ELSE),
    "invitation": Subject("Convite", _NOBODY_ELSE),
    "owner": Subject("Proprietário", _NOBODY_ELSE),
    "ownership": Subject("Propriedade da empresa", _NOBODY_ELSE),
    "sign-in": Subject("Acesso", _NOBODY_ELSE),
    "second-step": Subject("Verificação em duas etapas", _NOBODY_ELSE),
    "password": Subject("Senha", _NOBODY_ELSE),
    "browser": Subject("Navegador", _NOBODY_ELSE),
    "browsers": Subject("Navegadores", _NOBODY_ELSE),
}

VERBS: Final[Mapping[str, str]] = {
    "created": "criação",
    "added": "inclusão",
    "changed": "alteração",
    "removed": "remoção",
    "archived": "arquivamento",
    "restored": "restauração",
    "paused": "pausa",
    "resumed": "retomada",
    "activated": "ativação",
    "deactivated": "desativação",
    "enabled": "ativação",
    "disabled": "desativação",
    "duplicated": "duplicação",
    "copied": "cópia",
    "published": "publicação",
    "rotated": "rotação",
    "revoked": "revogação",
    "requested": "pedido",
    "approved": "aprovação",
    "rejected": "recusa",
    "cancelled": "cancelamento",
    "refunded": "reembolso",
    "expired": "encerramento",
    "resent": "reenvio",
    "tested": "teste",
    "noted": "anotação",
    "made": "geração",
    "fetched": "download",
    "failed": "falha",
    "revealed": "exibição de dados",
    "anonymised": "anonimização",
    "simulated": "simulação",
    "moved": "mudança de situação",
    "invited": "convite",
    "accepted": "aceite",
    "joined": "entrada",
    "reset": "redefinição",
    "used": "uso",
    "denied": "acesso negado",
    "named": "nomeação",
    "suspended": "suspensão",
    "refused": "recusado",
    "done": "concluído",
    "ended": "encerramento",
    "begun": "início",
    "changed-company": "mudança de empresa",
    "codes-renewed": "novos códigos",
    "link-asked": "pedido de link",
    "transferred": "transferência",
    "role-changed": "mudança de função",
    "sent": "envio",
    "deleted": "exclusão",
    "replayed": "reenvio",
    "exported": "exportação",
    "released": "liberação de saldo",
    "sink": "receptor de teste",
    "batch": "geração em lote",
    "failed_resent": "reenvio das falhas",
}


def subjects_of(role: Role, *, may_see_all: bool) -> Sequence[str] | None:
    """Say which acts a role sees, by their subjects; None stands for all."""
    if may_see_all:
        return None
    return [name for name, subject in SUBJECTS.items() if role in subject.roles]


def is_seen(action: str, role: Role, *, may_see_all: bool) -> bool:
    """Say whether a role sees an act."""
    subjects = subjects_of(role, may_see_all=may_see_all)
    return subjects is None or action.partition(".")[0] in subjects


def words_of(action: str) -> str:
    """Say what was done in Portuguese, as far as the words are known."""
    name, _, verb = action.partition(".")
    subject = SUBJECTS[name].label if name in SUBJECTS else name
    return f"{subject}: {VERBS.get(verb, verb)}"


TARGETS: Final[Mapping[str, str]] = {
    "person": "Pessoa",
    "page": "Página",
    "balance": "Saldo",
    "sandbox": "Ambiente de teste",
    "sink": "Receptor de teste",
}


def target_of(kind: str) -> str:
    """Say in Portuguese what kind of thing was acted upon."""
    return SUBJECTS[kind].label if kind in SUBJECTS else TARGETS.get(kind, kind)


WHOLE: Final = Permission.AUDIT
"""Who may see all acts."""
