"""Phrases in the text of block pages, outages and expired sessions. In lower case.

Each has a keyword, and its pattern is only matched near that keyword, so no text makes matching slow.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from swath.domain.failure import FailureKind

__all__ = ["PHRASES", "Phrase"]


class Phrase(NamedTuple):
    """`weight`: 5 for what a page says of this very visit, 3 for what may also be said of others; more decides.

    `to_visitor`: records say it of people and places, too, so it weighs as much only where the page speaks to us.
    """

    word: str
    pattern: str
    weight: int = 3
    to_visitor: bool = False


_K = FailureKind
_P = Phrase
_FEW: Final = r"(?:[\w'-]{1,14} ){0,4}"  # words in between
_NOW: Final = r"(?<!will be )(?<!may be )(?<!to be )"  # and not some day
_BEEN: Final = r"(?:has|have|was|were|is|are|been)(?: been)?(?: temporarily| permanently| automatically)?"
_MUST: Final = r"(?:please|must|need to|have to)(?: first)?"
_GEO: Final = r"(?:available|accessible|blocked|restricted|allowed) (?:in|from|for|to) (?:\w{1,9} in )?your"
# What a visitor may log in for, and sees the page without it.
_NO_EXTRA: Final = r"(?! to (?:save|subscribe|bookmark|comment|post|rate|review|track|follow|manage|add|edit|claim)\b)"
_AGAIN: Final = r"(?:again|to (?:continue|view|access|see|proceed))"

PHRASES: Final[dict[FailureKind, tuple[Phrase, ...]]] = {
    _K.CAPTCHA: (
        _P(
            "human",
            r"(?:verify|confirm|prove|ensure|check|sure)(?:ing)? (?:that )?you(?:'re| are) (?:a )?(?:\w{1,9} )?human",
            5,
        ),
        _P("human", r"are you (?:a )?human|human (?:verification|challenge)|you are human by"),
        _P("robot", r"you(?:'re| are) not a robot|are you a robot"),
        _P("not a robot", r"not a robot", 2),
        _P("bot", r"you(?:'re| are) not (?:a |an )?(?:automated )?bots?\b"),
        _P(
            "captcha",
            rf"(?:complete|solve|enter|pass|answer|fill)(?: in| out)? {_FEW}captcha|captcha (?:below|to continue)",
        ),
        _P("security check", r"(?:complete|pass|perform)(?:ing)? (?:the|this|a) security check"),
        _P("security check", r"security check to (?:access|continue)"),
        _P("challenge", rf"(?:complete|solve|pass|answer) {_FEW}challenge"),
        _P("checking", r"checking (?:if the site connection is secure|your browser)", 5),
        _P("security", r"review the security of your connection|performing security verification", 5),
        _P("javascript", r"enable javascript and cookies to continue|turn javascript on and reload", 5),
        _P("hold", r"press (?:&|and) hold"),
        _P("characters", r"(?:type|enter) the characters|characters (?:you see|shown|in the)"),
        _P("slide", r"slide (?:the \w{1,10} |right )?to (?:complete|verify|continue)"),
        _P("puzzle", rf"(?:complete|solve) {_FEW}puzzle"),
        _P("automatic", r"this process is automatic"),
        _P("verif", r"(?:please|to continue,?) verify (?:yourself|your identity|you)|waiting for verification"),
    ),
    _K.BLOCKED: (
        _P("you", r"you(?:'ve| have) been (?:temporarily |permanently )?(?:blocked|banned)", 5),
        _P("blocked", rf"{_BEEN} blocked", to_visitor=True),
        _P("banned", rf"{_BEEN} banned", to_visitor=True),
        _P("block", r"why (?:have i been|was i) blocked|block (?:id|reference)\W"),
        _P(
            "denied",
            r"(?:access|permission|request) (?:to \w{1,10} \w{1,12} )?(?:has been |is |was )?denied",
            to_visitor=True,
        ),
        _P("permission", r"you (?:don't|do not) have (?:permission|authori[sz]ation) to (?:access|view)", 5),
        _P("rejected", r"requested url was rejected|your request (?:was|has been|is) rejected", 5),
        _P("support id", r"your support id is", 5),
        _P("incident", r"incident (?:id|number)", to_visitor=True),
        _P("unusual", r"unusual (?:traffic|activity|number of requests|behaviou?r)", to_visitor=True),
        _P("suspicious", r"suspicious (?:activity|behaviou?r|traffic|requests?)", to_visitor=True),
        _P(
            "automated", r"automated (?:requests?|quer(?:y|ies)|access|traffic|tools?|software|scraping|scripts?|means)"
        ),
        _P(
            "bot",
            r"(?:think|believe|suspect) (?:that )?you (?:were|are|might be|may be) an? (?:automated )?(?:ro)?bot",
            5,
        ),
        _P("scrap", r"scraping (?:is|of|activity)|prevent scraping"),
        _P("your country", rf"{_GEO} country", 5),
        _P("your region", rf"{_GEO} region", 5),
        _P("your location", rf"{_GEO} location"),
        _P("outside", r"from outside (?:of )?the (?:united states|u\.?s)"),
        _P(
            "your ip",
            r"your ip(?: address)? (?:\S{1,45} )?(?:has been|is|was) (?:blocked|banned|flagged|listed|denied)",
            5,
        ),
        _P("firewall", r"(?:web application|website) firewall|blocked by (?:the |our )?firewall"),
        _P("security", r"triggered the security solution|security (?:service|policy) to protect"),
        _P("robots", r"(?:robots|spiders|scrapers) (?:\w{1,9} ){0,3}not (?:welcome|allowed|permitted)"),
        _P("attack id", r"attack id"),
        _P("denegado", r"acceso denegado"),
        _P("bloquead", r"ha sido bloquead[oa]|foi bloquead[oa]", to_visitor=True),
        _P("negado", r"acesso negado"),
        _P("permiss\u00e3o", r"(?:n\u00e3o tem|sem) permiss\u00e3o (?:para|de) (?:acess|ver|visualiz)", 5),
        _P(
            "\u62d2\u7edd",
            r"\u8bbf\u95ee\u88ab\u62d2\u7edd|\u62d2\u7edd\u8bbf\u95ee|\u8bf7\u6c42(?:\u5df2)?\u88ab\u62d2\u7edd",
        ),
        _P("\u62e6\u622a", r"(?:\u8bf7\u6c42|\u8bbf\u95ee).{0,6}\u62e6\u622a", 5),
        _P("error 10", r"error (?:code:? )?10(?:06|07|08|09|10|12|20)\b"),
    ),
    _K.RATE_LIMITED: (
        _P("too many", r"too many (?:requests|searches|queries|attempts|connections|lookups)"),
        _P("limit", r"rate[ -]limit(?:ed| exceeded| reached)"),
        _P("limit", r"(?:request|search|query|daily|hourly|usage) limit", to_visitor=True),
        _P("limit", r"(?:reached|exceeded) (?:the|your|our) (?:\w{1,12} ){0,3}limit|limit (?:has been |was )?exceeded"),
        _P("exceeded", rf"exceeded (?:the|your|our) {_FEW}number of {_FEW}(?:requests|searches|queries|lookups)", 5),
        _P("quota", r"quota (?:has been )?(?:exceeded|reached)|exceeded (?:the|your) quota"),
        _P("slow", r"(?:please )?slow down", to_visitor=True),
        _P("\u9891\u7e41", r"(?:\u8bbf\u95ee|\u8bf7\u6c42|\u64cd\u4f5c)(?:\u8fc7\u4e8e|\u592a)\u9891\u7e41", 5),
        _P("too quickly", r"(?:requests|searches|searching|requesting|browsing) (?:\w{1,9} ){0,2}too quickly"),
        _P("1015", r"error (?:code:? )?1015\b", 5),
        _P("before", r"wait (?:a|\d{1,4}|at least) .{0,20}before (?:trying|searching|sending|submitting|making)"),
        _P("trop de", r"trop de (?:requ\u00eates|recherches)"),
        _P("demasiadas", r"demasiadas (?:solicitudes|consultas|peticiones)"),
        _P("high volume", r"high volume of (?:requests|searches) from"),
    ),
    _K.SESSION_EXPIRED: (
        _P(
            "session",
            r"your (?:\w{1,10} )?session (?:has |is |was )?(?:been )?(?:expired|timed? ?out|ended|terminated|lost)",
            5,
        ),
        _P(
            "expired", r"(?:session|login|token|page) (?:has |is |was |may have |appears to have )?(?:already )?expired"
        ),
        _P(
            "session",
            r"(?:the|user|this|current) session (?:has |is |was )?(?:been )?(?:timed? ?out|terminated|lost)",
        ),
        _P("session", r"(?:the|user|this|current) session (?:has |is |was )?(?:been )?ended", to_visitor=True),
        _P(
            "session",
            r"session (?:is |was )?(?:no longer (?:valid|active)|invalid|not (?:found|valid))|invalid session",
        ),
        _P("timed out", r"timed out (?:due|because|after)|you(?:'ve| have) (?:been )?timed out"),
        _P("inactivity", r"(?:due to|because of|period of|minutes of) inactivity"),
        _P("out", r"(?:you have been|you've been|you were) (?:automatically )?(?:logged|signed) out", 5),
        _P("log", rf"{_MUST} (?:re-?)?log ?(?:in|on)\b{_NO_EXTRA}|log ?(?:in|on) {_AGAIN}"),
        _P("sign", rf"{_MUST} sign ?in\b{_NO_EXTRA}|sign in {_AGAIN}"),
        _P("logged", r"(?:must|need to|have to) be logged in|you are not (?:currently )?logged in"),
        _P("signed", r"(?:must|need to|have to) be signed in|you are not (?:currently )?signed in"),
        _P("required", r"(?:login|authentication) (?:is )?required"),
        _P(
            "viewstate",
            r"validation of viewstate|viewstate (?:mac )?(?:validation |verification )?failed|viewstate is invalid",
            40,
        ),
        _P("sesi\u00f3n", r"su sesi\u00f3n ha (?:caducado|expirado)|inici(?:e|ar) sesi\u00f3n", 5),
        _P("session", r"votre session (?:a expir\u00e9|est expir\u00e9e)", 5),
        _P("start", r"(?:start|begin) (?:a new session|over|your search (?:again|over))"),
    ),
    _K.MAINTENANCE: (
        _P(
            "maintenance",
            rf"{_NOW}(?:down|offline|closed|unavailable|out of service) {_FEW}(?:for|due to|during) {_FEW}maintenance",
            5,
            to_visitor=True,
        ),
        _P(
            "maintenance",
            r"(?:under|undergoing|performing|conducting|in) (?:\w{1,14} ){0,3}maintenance",
            to_visitor=True,
        ),
        _P("maintenance", rf"maintenance {_FEW}(?:in progress|mode)"),
        _P("maintenance", r"(?:scheduled|system|routine|emergency|planned|nightly) maintenance", to_visitor=True),
        _P("upgrad", rf"(?:undergoing|performing|for|during|while we|as we) {_FEW}upgrad\w{{1,4}}"),
        _P("updat", rf"(?:undergoing|performing|down for|offline for|while we) {_FEW}updat\w{{1,4}}"),
        _P("improv", rf"(?:while|as) we {_FEW}improv\w{{1,4}}"),
        _P("back", r"(?:be|is|are) (?:right )?back (?:soon|shortly|online|up|in a|later|at|by|on)", to_visitor=True),
        _P("check back", r"check back (?:soon|later|shortly|in)"),
        _P("offline", r"(?:temporarily|currently|is|are|been taken) offline", to_visitor=True),
        _P("out of service", r"(?:temporarily|currently|is|are) out of service", to_visitor=True),
        _P("down", r"(?:temporarily|currently) down\b", to_visitor=True),
        _P("closed", r"(?:temporarily|currently) closed", to_visitor=True),
        _P("outage", r"(?:scheduled|planned|system) outage", to_visitor=True),
        _P("mantenimiento", r"(?:en|labores de|tareas de|por) mantenimiento"),
        _P("maintenance", r"en (?:cours de )?maintenance"),
        _P("nightly", r"nightly (?:processing|backup|batch|update)"),
        _P(
            "available",
            r"(?:is|are) (?:only )?(?:available|open) (?:only )?(?:between|from|during) (?:the hours|\d)",
            to_visitor=True,
        ),
        _P("available", r"(?:will be|should be) available (?:again|after|at|on|by)", to_visitor=True),
    ),
    _K.SERVER_ERROR: (
        _P("server error in", r"server error in '.{0,60}' application", 5),
        _P("traceback", r"traceback \(most recent call last\)"),
        _P("stack trace", r"stack trace\b"),
        _P("exception", r"(?:unhandled|uncaught|following) exception|exception (?:report|details|occurred)"),
        _P("exception", r"\w{1,40}\.\w{1,40}exception\b"),
        _P("java.", r"\bat (?:java|javax|org|com|sun)\.[\w.$]{3,60}\("),
        _P("error", r"(?:error|errors|problem) (?:has |was |have )?(?:been )?(?:occurred|encountered)"),
        _P(
            "error",
            rf"encountered an? {_FEW}error|(?:fatal|parse|internal server|runtime|application|database) error\b",
        ),
        _P("ora-", r"\bora-\d{5}", 5),
        _P("sql", r"sqlstate\[|sql syntax|sql server driver|mysql server has gone"),
        _P("ole db", r"ole db provider"),
        _P("wrong", r"something (?:went|has gone) wrong"),
        _P(
            "unavailable",
            r"(?:temporarily|currently|service|server) (?:is )?(?:temporarily |currently )?unavailable",
            to_visitor=True,
        ),
        _P(
            "unable",
            r"(?:currently|temporarily|is|was|are|were) unable to (?:service|process|handle|complete|retrieve)",
        ),
        _P(
            "connect",
            rf"(?:could not|unable to|cannot|can't|failed to) (?:connect|establish) {_FEW}(?:database|server|db)\b",
        ),
        _P("upstream", r"upstream (?:server|connect error|request timeout)|no healthy upstream"),
        _P("proxy", r"proxy server received an invalid"),
        _P(
            "technical",
            r"(?:experiencing|due to|having) (?:\w{1,12} ){0,2}technical (?:difficult|problem|issue)\w{0,5}",
        ),
        _P("administrator", r"contact the (?:server|system|web ?site|site) administrator"),
        _P("object reference", r"object reference not set", 5),
        _P("busy", r"(?:server|system|site) is (?:too |currently |very )?busy"),
        _P("overloaded", r"(?:server|system|site) is (?:temporarily |currently )?overloaded"),
        _P("try", r"please try (?:your request )?again (?:later|in a few|shortly)"),
    ),
    _K.NOT_FOUND_PAGE: (
        _P("looking for", r"(?:page|resource) you (?:are|were) looking for"),
        _P("not found on", r"was not found on this server"),
        _P("requested", r"page you (?:have )?requested (?:\w{1,9} ){0,2}not (?:be )?(?:found|exist)"),
    ),
}
"""By kind. One page may say several; three count."""
