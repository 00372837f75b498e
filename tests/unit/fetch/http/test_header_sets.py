import pytest

from swath.domain.site_policy import SitePolicy
from swath.fetch.http.client.headers import headers_for
from swath.fetch.http.messages import UnrestrictedGate
from tests.unit.fetch.http.sites import answer, session

pytestmark = pytest.mark.req("H1")
PAGE = "http://county.example/"


def of(**fields: object) -> dict[str, str]:
    return dict(headers_for(SitePolicy.model_validate(fields)))


def test_by_default_we_say_who_we_are() -> None:
    assert "swath" in of()["User-Agent"]


@pytest.mark.parametrize(("browser", "mark"), [("chrome", "Chrome/"), ("firefox", "Firefox/")])
def test_a_browsers_headers_agree_with_one_another(browser: str, mark: str) -> None:
    headers = of(header_set=browser)
    assert mark in headers["User-Agent"]
    assert headers["Sec-Fetch-Mode"] == "navigate"
    assert ("sec-ch-ua" in headers) == (browser == "chrome")


@pytest.mark.parametrize(
    ("imitated", "mark"), [("chrome_143", "Chrome/143.0"), ("Chrome143", "Chrome/143.0"), ("firefox_146", "rv:146.0")]
)
def test_a_browser_that_is_imitated_below_http_has_its_own_headers(imitated: str, mark: str) -> None:
    headers = of(impersonate=imitated)
    assert mark in headers["User-Agent"]
    assert imitated.lower().startswith("firefox") or '"143"' in headers["sec-ch-ua"]


def test_the_operators_user_agent_wins() -> None:
    assert of(header_set="chrome", user_agent="county-audit/1 (audit@county.example)")["User-Agent"] == (
        "county-audit/1 (audit@county.example)"
    )


def test_a_user_agent_cannot_smuggle_a_header() -> None:
    with pytest.raises(ValueError, match="pattern"):
        SitePolicy.model_validate({"user_agent": "x\r\nX-Other: y"})


async def test_the_session_sends_the_sites_own_and_the_author_has_the_last_word() -> None:
    class Chrome(UnrestrictedGate):
        def policy(self, url: str) -> SitePolicy:
            return SitePolicy.model_validate({"header_set": "chrome"})

    web, transport = session({PAGE: answer(PAGE)}, gate=Chrome())
    await web.get(PAGE)
    assert "Chrome/" in (transport.header("User-Agent") or "")
    await web.get(PAGE, headers={"user-agent": "mine"})
    assert transport.header("User-Agent") == "mine"
