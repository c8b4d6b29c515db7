"""What a page says once after a form has done something; addresses name these and no other."""

from collections.abc import Mapping
from typing import Final

SAID: Final[Mapping[str, str]] = {
    "signed-out": "Você saiu.",
    "key-created": "Chave criada. Copie-a agora: ela não será mostrada de novo.",
    "key-changed": "Chave salva. Vale em até 5 segundos.",
    "key-rotated": "Chave trocada. Copie a nova agora: ela não será mostrada de novo.",
    "key-revoked": "Chave revogada. Ela é recusada em até 5 segundos.",
    "webhook-created": "Webhook criado. Copie o segredo agora: ele não será mostrado de novo.",
    "webhook-changed": "Webhook salvo.",
    "webhook-enabled": "Webhook reativado. O que aguardava é enviado agora.",
    "webhook-disabled": "Webhook desativado.",
    "webhook-deleted": "Webhook excluído.",
    "webhook-rotated": "Segredo trocado. Copie o novo agora: ele não será mostrado de novo.",
    "webhook-tested": "Evento de teste enviado. Atualize a página para ver a resposta.",
    "webhook-replayed": "Os eventos do período serão enviados de novo.",
    "webhook-is-disabled": "O webhook está desativado: reative-o antes.",
    "delivery-resent": "A entrega será tentada de novo agora.",
    "deliveries-resent": "As entregas que falharam serão tentadas de novo agora.",
    "deliveries-not-resent": "Nada a reenviar: não há falhas no filtro, ou o webhook parou.",
    "simulated": "Simulação feita, pelo mesmo caminho de um aviso real do provedor.",
    "simulated-nothing": "O aviso repetido foi reconhecido e não mudou nada.",
    "simulated-unclaimed": "O valor não confere com a cobrança e ficou em conferência.",
    "released": "O que estava agendado foi liberado para o saldo disponível.",
    "released-nothing": "Não havia nada agendado para liberar.",
    "sink-created": "Endereço de teste cadastrado como webhook.",
    "sink-changed": "O endereço de teste responde assim a partir de agora.",
    "left-alone": "Por segurança, sua sessão terminou. Entre de novo.",
}
