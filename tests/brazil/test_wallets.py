"""Wallet addresses: the published vectors, valid and not, and what we refuse although it is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vintem.brazil.keccak import keccak_256
from vintem.brazil.wallets import (
    DECIMALS,
    NETWORKS,
    TOKEN_CONTRACTS,
    Coin,
    Network,
    normalise_address,
    parse_network,
    with_checksum,
)

BITCOIN = [
    "1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa",
    "1BvBMSEYstWetqTFn5Au4m4GFg7xJaNVN2",
    "1BoatSLRHtKNngkdXEeobR76b53LETtpyT",
    "3J98t1WpEZ73CNmQviecrnyiWrnqRhWNLy",
    "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4",
    "bc1qrp33g0q5c5txsp9arysrx4k6zdkfs4nce4xj0gdcccefvpysxf3qccfmv3",
    "bc1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqzk5jj0",
    "bc1p5cyxnuxmeuwuvkwfem96lqzszd02n6xdcjrs20cac6yqjjwudpxqkedrcr",
]
BITCOIN_TEST = [
    "mipcBbFg9gMiCh81Kj8tqqdgoZub1ZJRfn",
    "2MzQwSSnBHWHqSAqtTVQ6v47XtaisrJa1Vc",
    "tb1qw508d6qejxtdg4y5r3zarvary0c5xw7kxpjzsx",
]
ETHEREUM = [
    "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed",
    "0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359",
    "0xdbF03B407c01E7cD3CBea99509d93f8DDDC8C6FB",
    "0xD1220A0cf47c7B9Be7A2E6BA89F429762e7b9aDb",
]
TRON = "TJRabPrwbZy45sbavfcjinPJC18kjpRTv8"
ETHEREUM_NETWORKS = [Network.ERC20, Network.POLYGON, Network.BEP20]


def live(network: Network, text: str) -> str | None:
    return normalise_address(network, text, is_live=True)


@pytest.mark.parametrize("address", BITCOIN)
def test_each_form_of_bitcoin_is_taken(address: str) -> None:
    assert live(Network.BTC, address) == address


def test_bech32_in_capitals_is_the_same_address() -> None:
    capitals = "BC1QW508D6QEJXTDG4Y5R3ZARVARY0C5XW7KV8F3T4"
    assert live(Network.BTC, capitals) == capitals.lower()
    assert live(Network.BTC, capitals.replace("BC1Q", "bc1Q")) is None


@pytest.mark.parametrize(
    "address",
    [
        pytest.param(
            "bc1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqh2y7hd", id="bech32 of v1"
        ),
        pytest.param("bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kemeawh", id="bech32m of v0"),
        pytest.param(
            "bc1p38j9r5y49hruaue7wxjce0updqjuyyx0kh56v8s25huc6995vvpql3jow4", id="bad character"
        ),
        pytest.param(
            "BC130XLXVLHEMJA6C4DQV22UAPCTQUPFHLXM9H8Z3K2E72Q4K9HCZ7VQ7ZWS8R", id="version 17"
        ),
        pytest.param("bc1pw5dgrnzv", id="program of one byte"),
        pytest.param("BC1QR508D6QEJXTDG4Y5R3ZARVARYV98GJ9P", id="v0 of a wrong length"),
        pytest.param("bc1gmk9yu", id="no program"),
        pytest.param("1BvBMsEYstWetqTFn5Au4m4GFg7xJaNVN2", id="wrong checksum"),
        pytest.param("BC1SW50QGDZ25J", id="v16, which nobody can spend"),
        pytest.param("bc1zw508d6qejxtdg4y5r3zarvaryvaxxpcs", id="v2, which nobody can spend"),
        pytest.param("1111111111111111111114oLvT2", id="the hash of nothing"),
        pytest.param(TRON, id="of another chain"),
        pytest.param(ETHEREUM[0], id="of yet another"),
        pytest.param("", id="empty"),
        pytest.param(" 1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa", id="a blank before it"),
        pytest.param("1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfN0", id="a zero, which base58 has not"),
        pytest.param("bc1" + "q" * 200, id="too long"),
    ],
)
def test_a_wrong_address_of_bitcoin_is_refused(address: str) -> None:
    assert live(Network.BTC, address) is None
    assert normalise_address(Network.BTC, address, is_live=False) is None


@pytest.mark.parametrize("address", BITCOIN_TEST)
def test_an_address_of_a_test_network_is_for_the_sandbox_only(address: str) -> None:
    assert live(Network.BTC, address) is None
    assert normalise_address(Network.BTC, address, is_live=False) == address


@pytest.mark.parametrize("network", ETHEREUM_NETWORKS)
@pytest.mark.parametrize("address", ETHEREUM)
def test_the_mixed_case_of_ethereum_checks_itself(network: Network, address: str) -> None:
    assert live(network, address) == address
    assert live(network, "0x" + address[2:].lower()) == address
    assert live(network, "0x" + address[2:].upper()) == address
    first = next(place for place in range(2, 42) if address[place].isalpha())
    spoilt = address[:first] + address[first].swapcase() + address[first + 1 :]
    assert live(network, spoilt) is None
    assert live(network, address[:-1]) is None
    assert live(network, address[2:]) is None


@pytest.mark.parametrize("network", ETHEREUM_NETWORKS)
def test_the_zero_address_and_the_token_s_own_contract_are_refused(network: Network) -> None:
    assert live(network, "0x" + "0" * 40) is None
    assert live(network, TOKEN_CONTRACTS[network]) is None
    assert live(network, with_checksum(TOKEN_CONTRACTS[network])) is None


def test_the_published_contract_of_ethereum_is_the_one_refused() -> None:
    assert with_checksum(TOKEN_CONTRACTS[Network.ERC20]) == (
        "0xdAC17F958D2ee523a2206206994597C13D831ec7"
    )


def test_tron_takes_its_own_addresses_only() -> None:
    assert live(Network.TRC20, TRON) == TRON
    assert live(Network.TRC20, "TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t") is None
    assert live(Network.TRC20, "T9yD14Nj9j7xAB4dbGeiX9h8unkKHxuWwb") is None
    assert live(Network.TRC20, TRON[:-1] + "9") is None
    assert live(Network.TRC20, BITCOIN[0]) is None
    assert live(Network.TRC20, ETHEREUM[0]) is None


def test_a_coin_goes_over_its_own_networks_only() -> None:
    assert parse_network(Coin.BTC, "BTC") is Network.BTC
    assert parse_network(Coin.BTC, "TRC20") is None
    assert parse_network(Coin.USDT, "BTC") is None
    assert parse_network(Coin.USDT, "SOL") is None
    assert parse_network(Coin.USDT, "trc20") is None
    for network in NETWORKS[Coin.USDT]:
        assert parse_network(Coin.USDT, network) is network
    assert set(DECIMALS) == set(Network)


@pytest.mark.parametrize(
    ("message", "digest"),
    [
        (b"", "c5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470"),
        (b"abc", "4e03657aea45a94fc7d47ba826c8d667c0d1e6e33a64a036ec44f58fa12d6c45"),
    ],
)
def test_keccak_gives_the_published_digests(message: bytes, digest: str) -> None:
    assert keccak_256(message).hex() == digest


def test_keccak_pads_a_message_that_almost_fills_a_block() -> None:
    digests = {keccak_256(b"a" * size) for size in range(130, 140)}
    assert len(digests) == 10


@given(st.text(max_size=95), st.sampled_from(Network), st.booleans())
def test_no_text_breaks_the_reading(text: str, network: Network, is_live: bool) -> None:
    address = normalise_address(network, text, is_live=is_live)
    assert address is None or normalise_address(network, address, is_live=is_live) == address


@given(st.sampled_from([*BITCOIN, *BITCOIN_TEST]), st.data())
def test_one_other_character_makes_an_address_of_bitcoin_wrong(
    address: str, data: st.DataObject
) -> None:
    place = data.draw(st.integers(0, len(address) - 1))
    other = data.draw(st.sampled_from("023456789acdefghjklmnpqrstuvwxyz"))
    if other != address[place]:
        spoilt = address[:place] + other + address[place + 1 :]
        assert normalise_address(Network.BTC, spoilt, is_live=False) is None
