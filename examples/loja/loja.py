"""A small shop that lets Vintém's checkout take the money: only the standard library.

Buying makes an order and a checkout session, and sends the buyer to the session's page. Vintém
calls /webhook when the order is paid; the shop believes the call because of its signature.
"""

import argparse
import base64
import hashlib
import hmac
import html
import json
import os
import secrets
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.request import Request, urlopen

NEEDED = ("CHECKOUT_KEY", "PRODUCT_ID", "POSTBACK_SECRET")
CALL_AGE_SECONDS_MAX = 5 * 60
WEBHOOK_BYTES_MAX = 256 * 1024


@dataclass
class Product:
    """What is sold here."""

    name: str
    cents: int

    @property
    def price(self) -> str:
        """The price as people write it."""
        reais = f"{self.cents // 100:,}".replace(",", ".")
        return f"R$ {reais},{self.cents % 100:02d}"


class AwayError(Exception):
    """Vintém does not answer, or not as it should."""


@dataclass
class Order:
    """What somebody is buying."""

    number: str
    checkout_url: str = ""
    is_paid: bool = False


@dataclass
class Shop:
    """Where Vintém is, what proves who we are, and the orders so far."""

    api_url: str
    checkout_key: str
    postback_secret: str
    product_id: str
    own_url: str = ""
    orders: dict[str, Order] = field(default_factory=dict)
    product: Product | None = None

    def show(self) -> Product:
        """Say what is sold, and for how much.

        A shop knows that by itself. This one asks once: it opens a session that nobody will pay,
        and reads it as its buyer would.
        """
        if self.product is None:
            wanted = {"productId": self.product_id, "expiresAt": 1}
            opened = self._call(
                "/v1/checkout/sessions", wanted, idempotency_key=secrets.token_hex(8)
            )
            token = opened["checkoutUrl"].rpartition("/")[2]
            [item] = self._call(f"/v1/checkout/sessions/{token}")["lineItems"]
            self.product = Product(item["snapshotProductName"], item["unitAmount"])
        return self.product

    def buy(self) -> Order:
        """Make an order and a checkout session for it."""
        order = Order(secrets.token_hex(4).upper())
        answer = self._call(
            "/v1/checkout/sessions",
            {
                "productId": self.product_id,
                "externalRef": order.number,
                "successUrl": f"{self.own_url}/pedidos/{order.number}",
                "cancelUrl": f"{self.own_url}/",
                "postbackUrl": f"{self.own_url}/webhook",
            },
            # The same key again, after a lost answer, finds the same session.
            idempotency_key=f"pedido-{order.number}",
        )
        # Only the first answer holds the address: keep it with the order.
        order.checkout_url = answer["checkoutUrl"]
        self.orders[order.number] = order
        return order

    def hear(self, headers: dict[str, str], body: bytes) -> bool:
        """Take a call of Vintém's in; false when it is not from there."""
        if not is_signed(headers, body, self.postback_secret):
            return False
        event = json.loads(body)
        if event["event"] == "checkout.session.completed":
            order = self.orders.get(event["data"]["externalRef"])
            # The same event may come twice: paying an order that is paid changes nothing.
            if order is not None:
                order.is_paid = True
        return True

    def _call(
        self, path: str, body: dict[str, Any] | None = None, *, idempotency_key: str = ""
    ) -> dict[str, Any]:
        request = Request(self.api_url + path)
        if body is not None:
            request.data = json.dumps(body).encode()
            request.add_header("Content-Type", "application/json")
            request.add_header("x-api-key", self.checkout_key)
            request.add_header("X-Idempotency-Key", idempotency_key)
        try:
            with urlopen(request, timeout=10) as response:
                data: dict[str, Any] = json.load(response)["data"]
        except (OSError, ValueError) as fault:
            # Errors of HTTP are OSErrors too.
            print(f"{self.api_url}{path}: {fault}", flush=True)
            raise AwayError from fault
        return data


def is_signed(headers: dict[str, str], body: bytes, secret: str) -> bool:
    """Check a call as Standard Webhooks says: fresh, and signed over id, time and body."""
    call_id, sent_at = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    if not sent_at.isdigit() or abs(time.time() - int(sent_at)) > CALL_AGE_SECONDS_MAX:
        return False
    key = base64.b64decode(secret.removeprefix("whsec_"))
    signed = f"{call_id}.{sent_at}.".encode() + body
    expected = "v1," + base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()
    # While a secret is being changed there are two signatures, separated by a space.
    given = headers.get("webhook-signature", "").split()
    return any(hmac.compare_digest(each.encode(), expected.encode()) for each in given)


class Handler(BaseHTTPRequestHandler):
    """The shop's pages, and the one address that Vintém calls."""

    shop: Shop

    def do_GET(self) -> None:
        """Show the shop, or an order."""
        number = self.path.partition("?")[0].removeprefix("/pedidos/")
        order = self.shop.orders.get(number)
        if order is not None:
            self._show(f"Pedido {order.number}", order_page(order))
        elif self.path == "/":
            self._show_shop()
        else:
            self._show("Não encontrado", "<h1>Não encontrado</h1>", status=404)

    def do_POST(self) -> None:
        """Sell, or hear that something was paid."""
        length = min(int(self.headers.get("content-length") or 0), WEBHOOK_BYTES_MAX)
        body = self.rfile.read(length)
        if self.path == "/comprar":
            self._sell()
        elif self.path == "/webhook":
            headers = {name.lower(): value for name, value in self.headers.items()}
            # Anything but 2xx, and Vintém tries again later.
            self.send_response(204 if self.shop.hear(headers, body) else 401)
            self.end_headers()
        else:
            self._show("Não encontrado", "<h1>Não encontrado</h1>", status=404)

    def _show_shop(self) -> None:
        try:
            product = self.shop.show()
        except AwayError:
            self._show("Loja de Exemplo", AWAY_PAGE, status=503)
            return
        name, price = html.escape(product.name), product.price
        self._show("Loja de Exemplo", SHOP_PAGE.format(name=name, price=price))

    def _sell(self) -> None:
        try:
            order = self.shop.buy()
        except AwayError:
            self._show("Loja de Exemplo", AWAY_PAGE, status=503)
            return
        self.send_response(303)
        self.send_header("location", order.checkout_url)
        self.end_headers()

    def _show(self, title: str, content: str, *, status: int = 200) -> None:
        page = PAGE.format(title=html.escape(title), content=content).encode()
        self.send_response(status)
        self.send_header("content-type", "text/html; charset=utf-8")
        self.send_header("content-length", str(len(page)))
        self.end_headers()
        self.wfile.write(page)


PAGE = """<!doctype html>
<html lang="pt-BR"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>body{{font:18px/1.5 system-ui;max-width:32em;margin:3em auto;padding:0 1em}}
button{{font:inherit;padding:.6em 1.2em}}</style>
{content}
</html>"""
SHOP_PAGE = """<h1>Loja de Exemplo</h1>
<p>Um produto só, e bom.</p>
<h2>{name}</h2>
<p><b>{price}</b></p>
<form method="post" action="/comprar"><button>Comprar</button></form>"""
AWAY_PAGE = """<h1>Voltamos já</h1>
<p>O pagamento está fora do ar neste momento. Nada foi cobrado; tente de novo em instantes.</p>
<p><a href="/">Tentar de novo</a></p>"""


def order_page(order: Order) -> str:
    """Say whether an order is paid, and look again until it is."""
    if order.is_paid:
        return f"<h1>Pedido {order.number} pago</h1><p>Obrigado! Já estamos preparando o envio.</p>"
    link = html.escape(order.checkout_url)
    return (
        f'<meta http-equiv="refresh" content="2"><h1>Pedido {order.number}</h1>'
        f'<p>Aguardando o pagamento. <a href="{link}">Voltar ao pagamento</a></p>'
    )


def main() -> None:
    """Open the shop."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=9000)
    port = parser.parse_args().port
    missing = [name for name in NEEDED if not os.environ.get(name)]
    if missing:
        raise SystemExit(f"Set {', '.join(missing)} first: the README says where to find them.")
    shop = Shop(
        api_url=os.environ.get("API_URL", "http://127.0.0.1:8080"),
        checkout_key=os.environ["CHECKOUT_KEY"],
        postback_secret=os.environ["POSTBACK_SECRET"],
        product_id=os.environ["PRODUCT_ID"],
    )
    server = ThreadingHTTPServer(("127.0.0.1", port), type("Handler", (Handler,), {"shop": shop}))
    shop.own_url = f"http://127.0.0.1:{server.server_port}"
    print(f"The shop is open: {shop.own_url}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
