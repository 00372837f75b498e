"""Ways to write an address that must not be reached. `{port}` is that of the canaries; all lead to this machine."""

from __future__ import annotations

# ruff: noqa: RUF001 characters that look like others are what this is about


LOOPBACK = (
    *("127.0.0.1", "127.1", "127.0.1", "127.0.0.1.", "127.1.", "127.000.000.001", "2130706433", "017700000001"),
    *("0x7f.1", "0x7f.0.0.1", "0x7f000001", "0X7F000001", "0177.0.0.1", "0177.0.0.01", "0x7f.0x0.0x0.0x1", "127.0x1"),
    *("127.0.0.0x1", "127。0。0。1", "127．0．0．1", "127｡0｡0｡1", "１２７.0.0.1", "①②⑦.⓪.⓪.①", "0x7f。1"),
    *("%31%32%37.0.0.1", "127.0.0.%31", "127%2E0%2E0%2E1", "𝟭𝟮𝟳.𝟬.𝟬.𝟭", "0", "0x0", "0.0.0.0", "00.00.00.00", "0x00.0"),
)
LOOPBACK_6 = (
    *("[::1]", "[0:0:0:0:0:0:0:1]", "[0::1]", "[::0001]", "[::0:1]", "[0000:0000:0000:0000:0000:0000:0000:0001]"),
    *("[::0.0.0.1]", "[::]", "[0:0::0]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[0:0:0:0:0:ffff:127.0.0.1]"),
    *("[::FFFF:7F00:0001]", "[::127.0.0.1]", "[::7f00:1]", "[::ffff:0:7f00:1]", "[64:ff9b::7f00:1]"),
    *("[64:ff9b::127.0.0.1]", "[64:ff9b:1::7f00:1]", "[2002:7f00:1::]", "[2002:7f00:0001::1]", "[::ffff:0.0.0.0]"),
)
LINK_LOCAL = (
    *("169.254.169.254", "169.254.43518", "169.16689662", "0xa9fea9fe", "2852039166", "0251.0376.0251.0376"),
    *("0xA9.0xFE.0xA9.0xFE", "169。254。169。254", "①⑥⑨.②⑤④.①⑥⑨.②⑤④", "169.254.169.254.", "0xa9.254.0251.0xfe"),
    *("[::ffff:169.254.169.254]", "[::ffff:a9fe:a9fe]", "[::169.254.169.254]", "[64:ff9b::a9fe:a9fe]"),
)
# Names, and what they stand for.
NAMES = {
    "localhost": ["127.0.0.1", "::1"],
    "localhost6": ["::1"],
    "sub.localhost": ["127.0.0.1"],
    "metadata.internal": ["169.254.169.254"],
    "127.0.0.1.rebind.example": ["127.0.0.1"],
    "second.example": ["1.1.1.1", "127.0.0.1"],
    "mapped.example": ["::ffff:127.0.0.1"],
    "any.example": ["0.0.0.0"],
    "nat64.example": ["64:ff9b::7f00:1"],
    "six-to-four.example": ["2002:7f00:1::"],
    "compatible.example": ["::127.0.0.1"],
    "teredo.example": ["2001:0:4136:e378:8000:63bf:80ff:fffe"],
}
NAME_SPELLINGS = (
    *NAMES,
    *(
        "LOCALHOST",
        "localhost.",
        "ⓛⓞⓒⓐⓛⓗⓞⓢⓣ",
        "loc%61lhost",
        "lo\u00adcalhost",
        "ｌｏｃａｌｈｏｓｔ",
        "local\u200bhost",
        "𝐥ocalhost",
    ),
)
TRICKS = (
    *("http://site.example@127.0.0.1:{port}/", "http://site.example\\@127.0.0.1:{port}/"),
    *("http://127.0.0.1:{port}\\@site.example/", "http://127.0.0.1:{port}#@site.example/"),
    *(
        "http://127.0.0.1:{port}?@site.example/",
        "http://127.0.0.1:{port}/@site.example",
        "http:\\\\127.0.0.1:{port}\\x",
    ),
    *("http:127.0.0.1:{port}/", "http:/127.0.0.1:{port}/", "http:///127.0.0.1:{port}/", "http:////127.0.0.1:{port}/"),
    *(
        "ht\ttp://127.0.0.1:{port}/",
        "http://127.0.\t0.1:{port}/",
        "\thttp://127.0.0.1:{port}/",
        "HTTP://127.0.0.1:{port}",
    ),
    *("http://127.0.0.1:0{port}/", "https://127.0.0.1:{port}/", "http://me:pw@[::1]:{port}/", "http://:@[::1]:{port}/"),
    *("http://127.0.0.1:{port}/..//x/../", "http://site.example:80@[::1]:{port}/", "//127.0.0.1:{port}/"),
    *("/\\127.0.0.1:{port}/", "\\\\127.0.0.1:{port}\\x", "http://[::1]:{port}\\.site.example/"),
)


def spellings(port: int) -> list[str]:
    hosts = (*LOOPBACK, *LOOPBACK_6, *LINK_LOCAL, *NAME_SPELLINGS)
    return [f"http://{host}:{port}/secret" for host in hosts] + [trick.replace("{port}", str(port)) for trick in TRICKS]
