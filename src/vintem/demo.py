"""The demo: one company with keys that stay the same, and what a newcomer is told about it."""

import asyncio
import json
import secrets
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryFile
from typing import Final

from rich.console import Console
from rich.markup import escape
from rich.panel import Panel
from rich.table import Table

from vintem.brazil.installments import CardInterest
from vintem.checkout import catalogue
from vintem.checkout import service as checkout
from vintem.checkout.model import Appearance, DiscountType, Product
from vintem.checkout.service import NewSession, WantedItem
from vintem.companies import service as companies
from vintem.companies.keys import new_key
from vintem.companies.model import Company, Environment, KeyType, Storefront
from vintem.kit.clock import utc_now
from vintem.kit.ids import Prefix, new_id
from vintem.launch import (
    Platform,
    kept_pepper,
    migrated,
    prepared,
    write_private,
)
from vintem.ledger.model import Scope
from vintem.members import service as members
from vintem.members.model import Role
from vintem.members.passwords import hashing
from vintem.runtime.crypto import Sealer
from vintem.runtime.db import Connection, Database
from vintem.runtime.processes import stop_signal, unless_stopping
from vintem.settings import Settings, SettingsError
from vintem.transactions.moves import generated_intent

COMPANY_NAME: Final = "Loja Demonstração"
COMPANY_LEGAL_NAME: Final = "Loja Demonstração Ltda."
COMPANY_DOCUMENT: Final = "11222333000181"

KEYS: Final = {
    "testSecretKey": (KeyType.SECRET, Environment.TEST),
    "testCheckoutKey": (KeyType.CHECKOUT, Environment.TEST),
    "liveSecretKey": (KeyType.SECRET, Environment.LIVE),
    "liveCheckoutKey": (KeyType.CHECKOUT, Environment.LIVE),
}


OWNER_NAME: Final = "Dona da Loja"
OWNER_EMAIL: Final = "dona@loja.example"
PASSWORD_BYTES: Final = 15

PRODUCT_NAME: Final = "Curso de Violão"
PRODUCT_CENTS: Final = 14_990
COUPON_CODE: Final = "BEMVINDO"
COUPON_BASIS_POINTS: Final = 1_000


@dataclass(frozen=True, slots=True)
class DemoCheckout:
    """What the demo company sells, and a session that was opened for whoever tries it."""

    product_id: str
    coupon_code: str
    link_token: str
    session_token: str

    def shown(self, base_url: str) -> Mapping[str, str]:
        """What the ready file says of it."""
        return {
            "productId": self.product_id,
            "couponCode": self.coupon_code,
            "paymentLinkToken": self.link_token,
            "checkoutUrl": f"{base_url}/s/{self.session_token}",
        }

    def link_url(self, base_url: str) -> str:
        """Where the payment link leads."""
        return f"{base_url}/l/{self.link_token}"


@dataclass(frozen=True, slots=True)
class DemoOwner:
    """Who signs in to the demo's dashboard."""

    email: str
    password: str | None
    """None once the owner has chosen another, which nobody knows here."""


@dataclass(frozen=True, slots=True)
class DemoCompany:
    """What demo.json keeps: the company's public id, its keys by their name there, and where it is.

    That is where the API was when it last started; commands of the same folder find it by this.
    """

    company_id: str
    keys: Mapping[str, str]
    base_url: str | None = None
    owner: DemoOwner | None = None


async def run_demo(settings: Settings, *, ready_file: Path | None, console: Console) -> None:
    """Start everything on one machine, say how to use it, and stop it all on Ctrl-C."""
    stopping = stop_signal()
    prepare_files(settings.data, ready_file)
    async with AsyncExitStack() as running:
        async with unless_stopping(stopping):
            if settings.database_url:
                warning = "DATABASE_URL is set: the demo company is made in that database."
                console.print(f"[yellow]{warning}[/]")
            console.print("[dim]Starting PostgreSQL …[/]")
            found = await running.enter_async_context(prepared(settings, may_create=True))
            complete = replace(
                found,
                pepper=found.pepper or kept_pepper(settings.data),
                # Who tries the demo wants its calls on the same machine.
                allow_loopback_webhooks=True,
                # The same for the links that are mailed to members.
                mail_to_log=True,
            )
            console.print("[dim]Preparing the database and the demo company …[/]")
            async with migrated(complete) as database:
                pepper = complete.pepper.encode()
                demo = await seed(database, settings.data, pepper=pepper, console=console)
                demo = await seed_owner(database, settings.data, demo)
                storefront = await open_storefront(database, demo.company_id, pepper=pepper)
            console.print("[dim]Starting the API and the worker …[/]")
            platform = Platform(complete, api_processes=1, has_worker=True)
            running.push_async_callback(platform.stop)
            await platform.until_ready()
            located = replace(demo, base_url=platform.base_url)
            write_private(settings.data / "demo.json", shown(located))
            await asyncio.to_thread(
                announce, located, storefront, platform.base_url, ready_file, console
            )
        await stopping.wait()
        console.print("\n[dim]Stopping …[/]")
    console.print("[dim]Everything is stopped; the data stays where it is.[/]")


def prepare_files(data: Path, ready_file: Path | None) -> None:
    """Have a data folder, and no ready file of an earlier run that would lie about this one."""
    try:
        data.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise SettingsError(
            f"The data folder {data} cannot be made: {error.strerror}."
            " Choose another with --data or VINTEM_DATA."
        ) from error
    if ready_file is None:
        return
    try:
        ready_file.unlink(missing_ok=True)
        with TemporaryFile(dir=ready_file.parent):
            pass
    except OSError as error:
        raise SettingsError(
            f"The ready file {ready_file} cannot be written: {error.strerror}."
        ) from error


async def seed(database: Database, data: Path, *, pepper: bytes, console: Console) -> DemoCompany:
    """Have the company and the keys that demo.json names; made the first time, kept after."""
    file = data / "demo.json"
    kept = read_demo(file)
    known = kept or DemoCompany(new_id(Prefix.COMPANY), {})
    is_there = await companies.find_company(database, known.company_id) is not None
    # The keys of a company that is not there yet can still be given to it.
    working = await working_keys(database, known, pepper=pepper) if is_there else known.keys
    keys = {name: working.get(name) or new_key(*kind) for name, kind in KEYS.items()}
    demo = replace(known, keys=keys)
    if demo != kept:
        # The file comes first: a start that dies here finds it, and makes the same company.
        write_private(file, shown(demo))
    if is_there and demo != kept:
        console.print("[yellow]Keys in demo.json do not work here: new ones were made.[/]")

    async def ensure(block: Connection) -> None:
        now = utc_now()
        company = await companies.find_company(block, demo.company_id)
        if company is None:
            company = await companies.create_company(
                block, COMPANY_NAME, public_id=demo.company_id, now=now
            )
        if company.document is None:
            await companies.set_identity(
                block,
                company.public_id,
                document=COMPANY_DOCUMENT,
                legal_name=COMPANY_LEGAL_NAME,
            )
        for name, (key_type, environment) in KEYS.items():
            if is_there and name in working:
                continue
            await companies.create_key(
                block,
                company.company_id,
                key_type=key_type,
                environment=environment,
                key=demo.keys[name],
                label="demo",
                pepper=pepper,
                now=now,
            )

    await database.atomically(ensure)
    return demo


async def seed_owner(database: Database, data: Path, demo: DemoCompany) -> DemoCompany:
    """Have the owner that demo.json names; a password that was changed since is not known."""
    company = await companies.get_company(database, demo.company_id)
    team = await members.list_members(database, company.company_id)
    owners = [member for member in team if member.role is Role.OWNER]
    if owners:
        kept = demo.owner or DemoOwner(owners[0].email, None)
        person = await members.find_person(database, kept.email)
        is_known = (
            kept.password is not None
            and person is not None
            and await hashing.is_right(kept.password, person.password_hash)
        )
        owner = kept if is_known else DemoOwner(owners[0].email, None)
        return replace(demo, owner=owner)
    owner = demo.owner or DemoOwner(OWNER_EMAIL, secrets.token_urlsafe(PASSWORD_BYTES))
    if await members.find_person(database, owner.email) is not None:
        # Another demo of the same database has that name already.
        owner = replace(owner, email=f"dona-{demo.company_id[-8:]}@loja.example")
    made = replace(demo, owner=owner)
    # The file comes first: a start that dies here finds it, and makes the same owner.
    write_private(data / "demo.json", shown(made))
    assert owner.password is not None, "whoever has no owner yet has not changed the password"
    password_hash = await hashing.hash(owner.password)
    async with database.atomic() as block:
        await members.create_person(
            block,
            company.company_id,
            email=owner.email,
            name=OWNER_NAME,
            password_hash=password_hash,
            role=Role.OWNER,
            now=utc_now(),
        )
    return made


async def open_storefront(database: Database, public_id: str, *, pepper: bytes) -> DemoCheckout:
    """Have a product, a coupon, a link and looks, made the first time, and open a session."""
    company = await companies.get_company(database, public_id)
    scope, now = Scope(company.company_id, Environment.TEST), utc_now()
    if not await catalogue.list_products(database, scope):
        await _stock(database, company, scope)
    # Whatever was added since, the first ones are the demo's own.
    product = (await catalogue.list_products(database, scope))[-1]
    link = (await catalogue.list_links(database, scope))[-1]
    coupon = (await catalogue.list_coupons(database, scope))[-1]
    wanted = NewSession(scope=scope, items=[WantedItem(product.product_id)])
    opened = await checkout.create_session(
        database, Sealer(pepper), wanted, generated_intent(), now=now
    )
    assert opened.token is not None, "nobody else has the key"
    return DemoCheckout(product.product_id, coupon.code, link.public_token, opened.token)


async def _stock(database: Database, company: Company, scope: Scope) -> None:
    now = utc_now()
    await companies.set_storefront(
        database,
        company.company_id,
        Storefront(display_name=COMPANY_NAME, support_email="ajuda@loja.example"),
    )
    interest = CardInterest(monthly_rate_basis_points=299, free_installments=3)
    await companies.set_card_interest(database, company.public_id, interest)
    # The product comes last: a start that dies before it stocks again.
    if not await catalogue.list_coupons(database, scope):
        await catalogue.create_coupon(
            database, scope, COUPON_CODE, DiscountType.PERCENTAGE, COUPON_BASIS_POINTS, now=now
        )
    looks = Appearance(version=1, display_name=COMPANY_NAME)
    await catalogue.publish_appearance(database, scope, looks, now=now)
    product_id = new_id(Prefix.PRODUCT)
    await catalogue.create_link(database, scope, name=PRODUCT_NAME, product_id=product_id, now=now)
    await catalogue.change_product(
        database,
        Product(
            company_id=scope.company_id,
            product_id=product_id,
            environment=scope.environment,
            name=PRODUCT_NAME,
            unit_amount=PRODUCT_CENTS,
            created_at=now,
            updated_at=now,
        ),
        now=now,
    )


async def working_keys(
    database: Database, demo: DemoCompany, *, pepper: bytes
) -> Mapping[str, str]:
    """The keys that still open something, by their name in demo.json."""
    now = utc_now()
    return {
        name: key
        for name, key in demo.keys.items()
        if await companies.is_working_key(database, key, pepper=pepper, now=now)
    }


def read_demo(file: Path) -> DemoCompany | None:
    """Read demo.json, or nothing when there is none yet."""
    if not file.exists():
        return None
    content = json.loads(file.read_text())
    keys = {name: content[name] for name in KEYS}
    owner = content.get("dashboard")
    return DemoCompany(
        content["companyId"],
        keys,
        content.get("baseUrl"),
        None if owner is None else DemoOwner(owner["email"], owner["password"]),
    )


def shown(demo: DemoCompany) -> Mapping[str, object]:
    """What demo.json and the ready file hold."""
    content: dict[str, object] = {
        "baseUrl": demo.base_url,
        "companyId": demo.company_id,
        **demo.keys,
    }
    if demo.owner is not None:
        content["dashboard"] = {
            "url": None if demo.base_url is None else f"{demo.base_url}/dashboard",
            "email": demo.owner.email,
            "password": demo.owner.password,
        }
    return content


def announce(
    demo: DemoCompany,
    storefront: DemoCheckout,
    base_url: str,
    ready_file: Path | None,
    console: Console,
) -> None:
    """Tell scripts and people that it runs, and how to use it."""
    if ready_file is not None:
        write_private(ready_file, {**shown(demo), **storefront.shown(base_url)})
    console.print(welcome(demo, storefront, base_url))
    for words, line in (
        ("A checkout to pay in your browser:", storefront.shown(base_url)["checkoutUrl"]),
        (
            "Your first call, ready to paste:",
            f'curl -s {base_url}/v1/balance -H "x-api-key: {demo.keys["testSecretKey"]}"',
        ),
    ):
        console.print(f"{words}\n")
        # Printed without wrapping or markup, so that it can be copied whole.
        console.print(line, style="bold green", soft_wrap=True, highlight=False, markup=False)
        console.print()
    console.print("[dim]Press Ctrl-C to stop.[/]")


def welcome(demo: DemoCompany, storefront: DemoCheckout, base_url: str) -> Panel:
    """Draw the box with everything a newcomer needs."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row("API", f"[bold cyan]{base_url}[/]")
    table.add_row("Reference", f"[cyan]{base_url}/docs[/]")
    table.add_row("Company", demo.company_id)
    table.add_row("Test secret key", f"[yellow]{demo.keys['testSecretKey']}[/]")
    table.add_row("Test checkout key", f"[yellow]{demo.keys['testCheckoutKey']}[/]")
    table.add_row("Product", f"{storefront.product_id}, coupon {storefront.coupon_code}")
    table.add_row("Payment link", f"[cyan]{storefront.link_url(base_url)}[/]")
    if demo.owner is not None:
        table.add_row("Dashboard", f"[bold cyan]{base_url}/dashboard[/]")
        table.add_row("Sign in as", escape(demo.owner.email))
        password = demo.owner.password
        known = "the one you have chosen" if password is None else f"[yellow]{password}[/]"
        table.add_row("Password", known)
    table.add_row("Webhooks", "in test they may also go to this machine, over http")
    return Panel(table, title="[bold]Vintém is running[/]", border_style="green", expand=False)
