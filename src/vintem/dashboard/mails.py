"""What members are told by mail."""

from typing import Final

from vintem.api.call import Call
from vintem.dashboard.visit import ROOT

_RESET_SUBJECT: Final = "Nova senha do painel Vintém"
_RESET_TEXT: Final = """Olá, {name}.

Recebemos um pedido para criar uma nova senha do painel. Abra este endereço em até 1 hora:

{link}

O endereço funciona uma vez só. Se não foi você, ignore esta mensagem: nada muda."""

_CHANGED_SUBJECT: Final = "Sua senha do painel Vintém foi alterada"
_CHANGED_TEXT: Final = """Olá, {name}.

A senha do seu acesso ao painel acaba de ser alterada, e os outros aparelhos foram desconectados.

Se não foi você, crie outra senha agora em {link} e avise quem administra a equipe."""

_INVITATION_SUBJECT: Final = "Convite para {company} no Vintém"
_INVITATION_TEXT: Final = """Olá.

{inviter} convidou você para a equipe de {company} no Vintém. Função: {role}.

Para aceitar, abra este endereço em até 7 dias:

{link}

O endereço funciona uma vez só. Se você não esperava este convite, ignore esta mensagem."""


def send_reset(call: Call, *, name: str, email: str, token: str) -> None:
    """Send the link by which a password is chosen."""
    link = f"{call.resources.public_url}{ROOT}/reset/{token}"
    text = _RESET_TEXT.format(name=name, link=link)
    call.resources.mail.send_later(to=email, subject=_RESET_SUBJECT, text=text)


def tell_changed(call: Call, *, name: str, email: str) -> None:
    """Tell a person that their password was changed, in case it was somebody else."""
    text = _CHANGED_TEXT.format(name=name, link=f"{call.resources.public_url}{ROOT}/reset")
    call.resources.mail.send_later(to=email, subject=_CHANGED_SUBJECT, text=text)


def invitation_link(call: Call, token: str) -> str:
    """Write the address of the page on which an invitation is accepted."""
    return f"{call.resources.public_url}{ROOT}/invitation/{token}"


def send_invitation(
    call: Call, *, email: str, inviter: str, company: str, role: str, token: str
) -> None:
    """Send the link by which somebody joins a company."""
    text = _INVITATION_TEXT.format(
        inviter=inviter, company=company, role=role, link=invitation_link(call, token)
    )
    subject = _INVITATION_SUBJECT.format(company=" ".join(company.split()))
    call.resources.mail.send_later(to=email, subject=subject, text=text)
