"""Addresses that strangers give us: public names over https, and nothing that merely looks so."""

from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vintem.kit.urls import (
    URL_CHARACTERS_MAX,
    UrlFault,
    WebUrl,
    parse_page_url,
    parse_web_url,
)

GOOD = {
    "https://loja.example.com": ("loja.example.com", 443),
    "https://loja.example.com/": ("loja.example.com", 443),
    "https://loja.com.br/hook?a=1&b=%20c": ("loja.com.br", 443),
    "https://loja.com.br?a=1": ("loja.com.br", 443),
    "https://loja.com.br:443/hook": ("loja.com.br", 443),
    "https://loja.com.br:8443/hook": ("loja.com.br", 8_443),
    "HTTPS://LOJA.COM.BR/Hook": ("loja.com.br", 443),
    "https://a-b.c-d.com/x": ("a-b.c-d.com", 443),
    "https://3com.com/x": ("3com.com", 443),
    "https://1.2.example.com/x": ("1.2.example.com", 443),
    "https://pão.com.br/x": ("xn--po-sia.com.br", 443),
    "https://xn--po-sia.com.br/x": ("xn--po-sia.com.br", 443),
    "https://xn--strae-oqa.de/x": ("xn--strae-oqa.de", 443),
    "https://loja.xn--p1ai/x": ("loja.xn--p1ai", 443),
    "https://localhost.example.com/": ("localhost.example.com", 443),
    "https://internal.com/": ("internal.com", 443),
    "https://loja.com.br/http://127.0.0.1/": ("loja.com.br", 443),
    "https://loja.com.br/a@b:c": ("loja.com.br", 443),
    f"https://{'a' * 63}.com/": (f"{'a' * 63}.com", 443),
    f"https://loja.com.br/{'x' * (URL_CHARACTERS_MAX - 20)}": ("loja.com.br", 443),
}

NUMBERS = (
    "127.0.0.1",
    "10.0.0.1",
    "192.168.0.1",
    "169.254.169.254",
    "8.8.8.8",
    "0.0.0.0",
    "255.255.255.255",
    "127.1",
    "127.0.1",
    "10.1",
    "0",
    "1",
    "2130706433",
    "3232235521",
    "4294967295",
    "99999999999",
    "0177.0.0.1",
    "0177.1",
    "017700000001",
    "00000177.0.0.1",
    "127.0.0.01",
    "127.000.000.001",
    "0x7f.0.0.1",
    "0x7f.1",
    "0x7f000001",
    "0X7F000001",
    "0x7F.0x0.0x0.0x1",
    "127.0x0.0.1",
    "0x",
    "127.0.0.0x1",
    "127.0.0.1.",
    "2130706433.",
    "0x7f000001.",
    "127.0.0.1..",
    "256.256.256.256",
    "1.2.3.4.5",
    "\uff11\uff12\uff17.\uff10.\uff10.\uff11",
    "127\u30020\u30020\u30021",
    "127\uff0e0\uff0e0\uff0e1",
    "\u2460\u2461\u2466.0.0.1",
    "\U0001d7cf\U0001d7d0\U0001d7d5.0.0.1",
    "\u00b9\u00b2\u2077.0.0.1",
    "\u0661\u0662\u0667.0.0.1",
    "[::1]",
    "[::]",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "[0:0:0:0:0:0:0:1]",
    "[::127.0.0.1]",
    "[fe80::1]",
    "[fe80::1%25eth0]",
    "[fe80::1%eth0]",
    "[fd00::1]",
    "[2001:db8::1]",
    "[64:ff9b::7f00:1]",
    "[2002:7f00:1::]",
    "[::1].",
    "[v1.x]",
    "[127.0.0.1]",
    "[]",
    "[",
    "::1",
    "2001:db8::1",
)

NAMES = (
    "localhost",
    "LOCALHOST",
    "localhost.",
    "localhost.localdomain",
    "x.localhost",
    "x.localhost.",
    "printer.local",
    "db.internal",
    "metadata.google.internal",
    "kubernetes.default.svc.cluster.local",
    "box.lan",
    "box.home",
    "router.home.arpa",
    "1.0.0.127.in-addr.arpa",
    "srv.corp",
    "srv.intranet",
    "srv.private",
    "abc.onion",
    "loja",
    "com",
    "loja.com.br.",
    "loja..com",
    ".loja.com",
    ".",
    "..",
    "-loja.com",
    "loja-.com",
    "lo_ja.com",
    "loja.c",
    "loja.c0m",
    "loja.123",
    "loja.0x7f",
    "*.loja.com",
    "loja.com,evil.com",
    "loja.com;x",
    "loja.com'x",
    'loja.com"x',
    "loja.com|x",
    "loja.com^x",
    "loja.com`x",
    "loja.com{x}",
    "loja.com<x>",
    "lo%6aa.com",
    "127%2e0%2e0%2e1",
    "%31%32%37.0.0.1",
    "loja.com%00.x.com",
    "loja.com%2f.x.com",
    "loja$.com",
    "lo!ja.com",
    "lo(ja).com",
    "lo~ja.com",
    "lo+ja.com",
    "lo=ja.com",
    "lo&ja.com",
    "\u24dbocalhost",
    "\uff4c\uff4f\uff43\uff41\uff4c\uff48\uff4f\uff53\uff54",
    "local\u00adhost",
    "ex\u00adample.com",
    "ex\u200bample.com",
    "ex\u2060ample.com",
    "example\u3002com",
    "example\uff0ecom",
    "exampl\ufe0fe.com",
    "\uff45xample.com",
    "stra\u00dfe.com",
    "x\u202e.com",
    "\u0000.com",
    "a" * 64 + ".com",
    ".".join(["abcdefg"] * 32) + ".com",
)

WHOLE = {
    UrlFault.SCHEME: (
        "http://loja.com.br/",
        "ftp://loja.com.br/",
        "file:///etc/passwd",
        "gopher://loja.com.br/",
        "javascript:alert(1)",
        "data:text/plain,x",
        "//loja.com.br/",
        "loja.com.br/hook",
        "/hook",
        "",
        "https",
        "https:",
        "https:loja.com.br",
        "https:/loja.com.br",
        "://loja.com.br",
        "ws://loja.com.br/",
        "wss://loja.com.br/",
        "httpss://loja.com.br/",
        "dict://loja.com.br:11211/",
        "ldap://loja.com.br/",
        "view-source:https://loja.com.br/",
        "HTTP://loja.com.br/",
    ),
    UrlFault.USERINFO: (
        "https://me@loja.com.br/",
        "https://me:secret@loja.com.br/",
        "https://@loja.com.br/",
        "https://:@loja.com.br/",
        "https://loja.com.br@127.0.0.1/",
        "https://loja.com.br:443@evil.com/",
        "https://loja.com.br%40@evil.com/",
        "https://a@b@loja.com.br/",
    ),
    UrlFault.FRAGMENT: (
        "https://loja.com.br/#x",
        "https://loja.com.br/#",
        "https://loja.com.br#@evil.com/",
        "https://loja.com.br/?a#b",
    ),
    UrlFault.PORT: (
        "https://loja.com.br:80/",
        "https://loja.com.br:22/",
        "https://loja.com.br:8080/",
        "https://loja.com.br:0/",
        "https://loja.com.br:65536/",
        "https://loja.com.br:0443/",
        "https://loja.com.br:+443/",
        "https://loja.com.br:-443/",
        "https://loja.com.br:44.3/",
        "https://loja.com.br:/",
        "https://loja.com.br:x/",
        "https://loja.com.br:4_43/",
        "https://loja.com.br:\uff14\uff14\uff13/",
        "https://loja.com.br:443443/",
        "https://loja.com.br:0x1bb/",
    ),
    UrlFault.CHARACTERS: (
        "https://loja.com.br/a b",
        " https://loja.com.br/",
        "https://loja.com.br/ ",
        "https://loja.com.br/\n",
        "https://loja.com.br/\r\nHost: evil",
        "https://lo\tja.com.br/",
        "ht\ntps://loja.com.br/",
        "https://loja.com.br\\@evil.com/",
        "https:\\\\loja.com.br/",
        "https://loja.com.br/\x00",
        "https://loja.com.br/\x7f",
        "https://loja.com.br/\x85",
        "https://loja.com.br/\u00a0",
        "https://loja.com.br/p\u00e3o",
        "https://loja.com.br/?q=\u00e9",
        "\x01https://loja.com.br/",
        "https://loja.com.br/\u202e",
        "https://loja.com.br/\ud800",
    ),
    UrlFault.TOO_LONG: (f"https://loja.com.br/{'x' * URL_CHARACTERS_MAX}",),
}


@pytest.mark.parametrize("text", GOOD)
@pytest.mark.parametrize("allows_loopback", [False, True])
def test_a_public_name_over_https_is_called(text: str, allows_loopback: bool) -> None:
    host, port = GOOD[text]
    parsed = parse_web_url(text, allows_loopback=allows_loopback)
    assert parsed == WebUrl(text, "https", host, port)


@pytest.mark.parametrize("host", NUMBERS)
@pytest.mark.parametrize("rest", ["/", ":443/hook", ""])
def test_an_address_in_numbers_is_not_called_however_it_is_written(host: str, rest: str) -> None:
    assert isinstance(parse_web_url(f"https://{host}{rest}", allows_loopback=False), UrlFault)


@pytest.mark.parametrize("host", NAMES)
def test_what_is_no_public_name_is_not_called(host: str) -> None:
    for rest in ("/", ":8443/hook", "?x"):
        assert isinstance(parse_web_url(f"https://{host}{rest}", allows_loopback=False), UrlFault)


@pytest.mark.parametrize(
    ("fault", "text"), [(fault, text) for fault, texts in WHOLE.items() for text in texts]
)
def test_an_address_of_another_form_is_not_called_and_the_fault_is_named(
    fault: UrlFault, text: str
) -> None:
    assert parse_web_url(text, allows_loopback=False) is fault


def test_the_commonest_faults_of_a_host_are_named() -> None:
    for host in ("127.0.0.1", "2130706433", "0x7f.1", "[::1]"):
        assert parse_web_url(f"https://{host}/", allows_loopback=False) is UrlFault.IP_LITERAL
    for host in ("localhost", "loja", "db.internal"):
        assert parse_web_url(f"https://{host}/", allows_loopback=False) is UrlFault.HOST


LOOPBACK = {
    "http://127.0.0.1:9000/hook": ("http", "127.0.0.1", 9_000),
    "http://127.255.0.9/": ("http", "127.255.0.9", 80),
    "https://127.0.0.1/": ("https", "127.0.0.1", 443),
    "http://[::1]:1/": ("http", "::1", 1),
    "http://localhost:65535/": ("http", "localhost", 65_535),
    "http://LocalHost/": ("http", "localhost", 80),
    "http://loja.com.br:8080/": ("http", "loja.com.br", 8_080),
}


@pytest.mark.parametrize("text", LOOPBACK)
def test_where_it_is_allowed_the_machine_itself_is_called(text: str) -> None:
    scheme, host, port = LOOPBACK[text]
    assert parse_web_url(text, allows_loopback=True) == WebUrl(text, scheme, host, port)
    assert isinstance(parse_web_url(text, allows_loopback=False), UrlFault)


def test_the_allowance_opens_nothing_else() -> None:
    own = {"127.0.0.1", "[::1]", "localhost", "LOCALHOST"}
    for host in set(NUMBERS + NAMES) - own:
        for scheme in ("http", "https"):
            parsed = parse_web_url(f"{scheme}://{host}/", allows_loopback=True)
            assert isinstance(parsed, UrlFault), host
    for fault, texts in WHOLE.items():
        for text in texts:
            if fault is not UrlFault.PORT and not text.lower().startswith("http://"):
                assert parse_web_url(text, allows_loopback=True) is fault
    for port in ("0", "65536", "-1", "x", ""):
        parsed = parse_web_url(f"http://localhost:{port}/", allows_loopback=True)
        assert parsed is UrlFault.NO_PORT


PAGES = {
    "https://loja.com.br/#/obrigado": ("loja.com.br", 443),
    "https://loja.com.br#@evil.com/": ("loja.com.br", 443),
    "https://loja.com.br/?a#b#c?d": ("loja.com.br", 443),
    "https://loja.com.br:1/": ("loja.com.br", 1),
    "https://loja.com.br:65535/#": ("loja.com.br", 65_535),
}


@pytest.mark.parametrize("text", PAGES)
def test_a_browser_opens_any_port_and_any_part_of_a_page(text: str) -> None:
    host, port = PAGES[text]
    assert parse_page_url(text, allows_loopback=False) == WebUrl(text, "https", host, port)
    assert isinstance(parse_web_url(text, allows_loopback=False), UrlFault)


def test_a_browser_is_sent_nowhere_else_that_is_not_called() -> None:
    for host in NUMBERS + NAMES:
        for rest in ("/", ":8080/", "#x"):
            found = parse_page_url(f"https://{host}{rest}", allows_loopback=False)
            assert isinstance(found, UrlFault), host
    for fault, texts in WHOLE.items():
        for text in texts:
            if fault not in {UrlFault.PORT, UrlFault.FRAGMENT}:
                assert parse_page_url(text, allows_loopback=False) is fault
    for port in ("0", "65536", "-1", "x", "", "0443", "+443", "44.3", "4_43"):
        found = parse_page_url(f"https://loja.com.br:{port}/", allows_loopback=False)
        assert found is UrlFault.NO_PORT
    for end in ("\n", " ", "\u202e", "p\u00e3o", "\\"):
        found = parse_page_url(f"https://loja.com.br/#{end}", allows_loopback=False)
        assert found is UrlFault.CHARACTERS


def test_at_least_a_hundred_hostile_forms_are_tried() -> None:
    assert len(NUMBERS) + len(NAMES) + sum(map(len, WHOLE.values())) > 150


@given(st.text(max_size=60).map("https://{}".format) | st.text(max_size=60))
def test_no_text_makes_the_reader_fail_and_what_it_accepts_is_what_others_read(text: str) -> None:
    parsed = parse_web_url(text, allows_loopback=False)
    if isinstance(parsed, WebUrl):
        read = urlsplit(text)
        assert (read.scheme, read.username, read.fragment) == ("https", None, "")
        assert read.hostname is not None
        assert parsed.host == read.hostname.encode("idna").decode().lower()
        assert not parsed.host.replace(".", "").isdigit()
