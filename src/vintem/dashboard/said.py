"""What a page says once after a form has done something; addresses name these and no other."""

from collections.abc import Mapping
from typing import Final

SAID: Final[Mapping[str, str]] = {
    "signed-out": "Você saiu.",
    "export-waiting": "A lista é longa: o arquivo é preparado e aparece aqui em instantes.",
    "company-saved": "Dados da empresa salvos.",
    "methods-saved": "Métodos e parcelas salvos.",
    "domain-added": "Domínio incluído.",
    "domain-removed": "Domínio removido.",
    "password-chosen": "Sua senha foi escolhida. Entre com ela.",
    "password-changed": "Sua senha foi alterada e os outros aparelhos foram desconectados.",
    "browser-ended": "O aparelho foi desconectado.",
    "totp-on": "A verificação em duas etapas está ativa. Guarde os códigos de reserva abaixo.",
    "totp-off": "A verificação em duas etapas foi desativada.",
    "invitation-sent": "O convite foi feito e vale por 7 dias.",
    "invitation-revoked": "O convite foi revogado.",
    "role-changed": "A função foi alterada.",
    "member-removed": "A pessoa foi removida da equipe e desconectada.",
    "ownership-transferred": "A empresa tem um novo proprietário. Você agora é da Administração.",
    "left-alone": "Por segurança, sua sessão terminou. Entre de novo.",
}
