"""Crypto withdrawals: every kind of wallet, a quote that is kept, and books in two currencies."""

from datetime import timedelta
from decimal import Decimal

import pytest

from support.api import assert_refused
from vintem.brazil.wallets import Coin, Network
from vintem.kit.clock import utc_now
from vintem.kit.errors import ErrorCode
from vintem.providers.payouts import Quote
from vintem.withdrawals.model import purchase, quantity_text
from withdrawals.till import WALLET, Till, crypto_body

VALID = [
    ("BTC", "BTC", "1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa"),
    ("BTC", "BTC", "1BvBMSEYstWetqTFn5Au4m4GFg7xJaNVN2"),
    ("BTC", "BTC", "3J98t1WpEZ73CNmQviecrnyiWrnqRhWNLy"),
    ("BTC", "BTC", "BC1QW508D6QEJXTDG4Y5R3ZARVARY0C5XW7KV8F3T4"),
    ("BTC", "BTC", "bc1qrp33g0q5c5txsp9arysrx4k6zdkfs4nce4xj0gdcccefvpysxf3qccfmv3"),
    ("BTC", "BTC", "bc1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqzk5jj0"),
    ("BTC", "BTC", "bc1p5cyxnuxmeuwuvkwfem96lqzszd02n6xdcjrs20cac6yqjjwudpxqkedrcr"),
    ("USDT", "TRC20", "TJRabPrwbZy45sbavfcjinPJC18kjpRTv8"),
    ("USDT", "ERC20", "0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359"),
    ("USDT", "POLYGON", "0xdbF03B407c01E7cD3CBea99509d93f8DDDC8C6FB"),
    ("USDT", "BEP20", "0xD1220A0cf47c7B9Be7A2E6BA89F429762e7b9aDb"),
]
INVALID = [
    ("BTC", "BTC", "bc1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqh2y7hd"),
    ("BTC", "BTC", "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kemeawh"),
    ("BTC", "BTC", "BC130XLXVLHEMJA6C4DQV22UAPCTQUPFHLXM9H8Z3K2E72Q4K9HCZ7VQ7ZWS8R"),
    ("BTC", "BTC", "1BvBMsEYstWetqTFn5Au4m4GFg7xJaNVN2"),
    ("BTC", "BTC", WALLET),
    ("USDT", "TRC20", "TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t"),
    ("USDT", "TRC20", WALLET),
    ("USDT", "ERC20", "0xdAC17F958D2ee523a2206206994597C13D831ec7"),
    ("USDT", "ERC20", "0x5AAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"),
    ("USDT", "POLYGON", "0x" + "0" * 40),
    ("USDT", "BEP20", "TJRabPrwbZy45sbavfcjinPJC18kjpRTv8"),
]


@pytest.mark.parametrize(("coin", "network", "address"), VALID)
async def test_each_kind_of_wallet_is_paid(
    till: Till, coin: str, network: str, address: str
) -> None:
    body = crypto_body(coin=coin, walletNetwork=network, walletAddress=address)
    made = (await till.ask(body)).data
    assert (made["coin"], made["walletNetwork"]) == (coin, network)
    assert made["walletAddress"].lower() == address.lower()
    assert (made["pixKey"], made["pixKeyType"], made["endToEndId"]) == (None, None, None)
    await till.work()
    await till.work(after=3)
    done = await till.read(made["id"])
    assert (done["status"], done["endToEndId"]) == ("completed", None)
    assert len(done["txHash"].removeprefix("0x")) == 64
    assert done["confirmations"] >= 3
    assert await till.balance() == {"available": 90_000}
    await till.check()


@pytest.mark.parametrize(("coin", "network", "address"), INVALID)
async def test_a_wrong_wallet_is_refused(till: Till, coin: str, network: str, address: str) -> None:
    body = crypto_body(coin=coin, walletNetwork=network, walletAddress=address)
    reply = await till.ask(body)
    assert_refused(reply, ErrorCode.INVALID_WALLET_ADDRESS, status=422)
    assert await till.balance() == {"available": 100_000}


async def test_the_books_balance_in_reais_and_in_the_asset(till: Till) -> None:
    await till.charge("crypto_withdrawal", fixed=0)
    made = (await till.ask(crypto_body(54_321))).data
    assert (made["exchangeRate"], made["cryptoAmount"]) == ("5.4321", "100.000000")
    await till.work()
    await till.work(after=3)
    posting = await till.database.fetchrow(
        "select codes, amounts from posting where company_id = $1 and kind = 'withdrawal_paid'",
        till.company_id,
    )
    assert posting is not None
    assert dict(zip(posting["codes"], posting["amounts"], strict=True)) == {
        "payout": -54_321,
        "fx": 54_321,
    }
    asset = await till.database.fetchrow(
        "select * from asset_posting where company_id = $1", till.company_id
    )
    assert asset is not None
    assert asset["asset"] == "USDT.ERC20"
    assert dict(zip(asset["codes"], asset["amounts"], strict=True)) == {
        "fx": -100_000_000,
        "crypto": 100_000_000,
    }
    assert (asset["exchange_rate"], asset["rate_source"]) == ("5.4321", "sandbox")
    assert asset["quoted_at"] <= utc_now()
    await till.check()


async def test_an_old_quote_is_renewed_before_it_is_sent(till: Till) -> None:
    made = (await till.ask(crypto_body(54_321))).data
    await till.database.execute(
        """
        update withdrawal set exchange_rate = '1', asset_units = 543210000,
            quoted_at = quoted_at - interval '5 minutes 1 second'
        where company_id = $1
        """,
        till.company_id,
    )
    await till.work()
    sent = await till.read(made["id"])
    assert sent["status"] == "processing"
    assert (sent["exchangeRate"], sent["cryptoAmount"]) == ("5.4321", "100.000000")
    await till.work(after=3)
    assert await till.status(made["id"]) == "completed"
    await till.check()


async def test_a_young_quote_is_kept(till: Till) -> None:
    made = (await till.ask(crypto_body(54_321))).data
    await till.database.execute(
        "update withdrawal set exchange_rate = '5.4', asset_units = 100594444"
        " where company_id = $1",
        till.company_id,
    )
    await till.work(after=299)
    assert (await till.read(made["id"]))["exchangeRate"] == "5.4"


def bought(coin: Coin, network: Network, rate: str, cents: int) -> tuple[int, str]:
    quote = Quote(coin, Decimal(rate), "test", utc_now() - timedelta(seconds=1))
    found = purchase(network, quote, net_amount=cents)
    return found.units, quantity_text(found)


@pytest.mark.parametrize(
    ("coin", "network", "rate", "cents", "units", "quantity"),
    [
        (Coin.USDT, Network.TRC20, "5.4321", 54_321, 100_000_000, "100.000000"),
        (Coin.USDT, Network.ERC20, "3", 1_000, 3_333_333, "3.333333"),
        (Coin.USDT, Network.BEP20, "3", 1_000, 3_333_333 * 10**12, "3.333333"),
        (Coin.BTC, Network.BTC, "350000", 100, 285, "0.00000285"),
        (Coin.BTC, Network.BTC, "350000.55", 9_999_999_999, 28571383670, "285.71383670"),
    ],
)
def test_what_is_bought_is_cut_and_counted_in_the_smallest_unit(
    coin: Coin, network: Network, rate: str, cents: int, units: int, quantity: str
) -> None:
    assert bought(coin, network, rate, cents) == (units, quantity)
