"""What a page says once after a form has done something; addresses name these and no other."""

from collections.abc import Mapping
from typing import Final

SAID: Final[Mapping[str, str]] = {
    "signed-out": "Você saiu.",
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
    "product-created": "Produto criado.",
    "product-saved": "Produto salvo.",
    "product-archived": "Produto arquivado: ninguém mais abre sessões com ele.",
    "product-restored": "Produto à venda de novo.",
    "product-copied": "Produto copiado para produção.",
    "coupon-created": "Cupom criado.",
    "coupon-saved": "Cupom salvo.",
    "coupon-paused": "Cupom pausado: ninguém mais pode usá-lo.",
    "coupon-resumed": "Cupom reativado.",
    "coupons-made": "Cupons gerados. Baixe os códigos.",
    "link-created": "Link criado. Agora é só compartilhar.",
    "link-saved": "Link salvo.",
    "link-paused": "Link pausado: quem o abrir vê que não está disponível.",
    "link-resumed": "Link reativado.",
    "link-copied": "Link copiado para produção.",
    "appearance-published": "Aparência publicada. Sessões novas já usam esta versão.",
    "appearance-copied": "Aparência publicada em produção.",
}
