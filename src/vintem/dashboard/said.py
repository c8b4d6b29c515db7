"""What a page says once after a form has done something; addresses name these and no other."""

from collections.abc import Mapping
from typing import Final

SAID: Final[Mapping[str, str]] = {
    "transaction-refunded": "Reembolso feito.",
    "transaction-cancelled": "Transação cancelada.",
    "note-added": "Anotação guardada.",
    "delivery-resent": "O webhook será enviado de novo em instantes.",
    "session-ended": "Sessão encerrada.",
    "signed-out": "Você saiu.",
    "export-waiting": "A lista é longa: o arquivo é preparado e aparece aqui em instantes.",
    "company-saved": "Dados da empresa salvos.",
    "methods-saved": "Métodos e parcelas salvos.",
    "domain-added": "Domínio incluído.",
    "domain-removed": "Domínio removido.",
    "left-alone": "Por segurança, sua sessão terminou. Entre de novo.",
}
