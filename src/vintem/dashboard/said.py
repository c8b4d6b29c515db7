"""What a page says once after a form has done something; addresses name these and no other."""

from collections.abc import Mapping
from typing import Final

SAID: Final[Mapping[str, str]] = {
    "signed-out": "Você saiu.",
    "withdrawal-made": "Saque pedido. O valor já está reservado.",
    "withdrawal-waits": "Saque pedido. Ele aguarda a aprovação de outra pessoa.",
    "withdrawal-cancelled": "Saque cancelado. O valor voltou ao saldo.",
    "withdrawal-approved": "Saque aprovado. Ele é enviado agora.",
    "withdrawal-approved-alone": "Saque aprovado. Ele é enviado depois do prazo de espera.",
    "withdrawal-rejected": "Saque rejeitado. O valor voltou ao saldo.",
    "withdrawal-rules-saved": "Regras de saque mudadas.",
    "export-waiting": "A lista é longa: o arquivo é preparado e aparece aqui em instantes.",
    "company-saved": "Dados da empresa salvos.",
    "methods-saved": "Métodos e parcelas salvos.",
    "domain-added": "Domínio incluído.",
    "domain-removed": "Domínio removido.",
    "left-alone": "Por segurança, sua sessão terminou. Entre de novo.",
}
