"""General signatures of block pages, outages and expired sessions: titles, headers, markup and URLs."""

from __future__ import annotations

from typing import Final

from swath.domain.failure import FailureKind

__all__ = [
    "ADDRESSES",
    "FRAMED",
    "HEADERS",
    "MARKS",
    "SURE_MARKS",
    "SURE_TITLE",
    "SUSPICIOUS_WORDS",
    "TITLES",
    "VAGUE_TITLES",
]

_K = FailureKind

HEADERS: Final[dict[str, tuple[str, ...]]] = {
    "cf-mitigated": ("challenge",),
    "x-amzn-waf-action": ("captcha", "challenge"),
}
"""By name, the starts of values: firewalls that say in so many words that they ask for a proof."""

SURE_MARKS: Final[dict[str, FailureKind]] = {
    "_cf_chl_opt": _K.CAPTCHA,  # Cloudflare
    "cf-browser-verification": _K.CAPTCHA,
    'id="challenge-form"': _K.CAPTCHA,
    "captcha-delivery.com": _K.CAPTCHA,  # DataDome
    "px-captcha": _K.CAPTCHA,  # PerimeterX
    "gokuprops": _K.CAPTCHA,  # AWS WAF
    "sec-if-cpt-container": _K.CAPTCHA,  # Akamai
    "/_sec/cp_challenge": _K.CAPTCHA,
    "distil_r_captcha": _K.CAPTCHA,  # Imperva, formerly Distil
    "incapsula incident id": _K.BLOCKED,
    "sucuri_cloudproxy_js": _K.CAPTCHA,
    "sucuri.net/cloudproxy": _K.BLOCKED,
    "<session-expired": _K.SESSION_EXPIRED,
}
"""What stands in the markup of a wall, and nowhere else."""

MARKS: Final[dict[str, FailureKind]] = {
    "cf-challenge": _K.CAPTCHA,
    "awswafintegration": _K.CAPTCHA,
    "geetest_": _K.CAPTCHA,
    "kpsdk": _K.CAPTCHA,  # Kasada
    "ddos-guard": _K.CAPTCHA,
    "_incapsula_resource": _K.BLOCKED,
    "errors.edgesuite.net": _K.BLOCKED,  # Akamai, whose outages refer to it, too
    "cdn-cgi/styles/cf.errors.css": _K.BLOCKED,
    "mod_security": _K.BLOCKED,
    "/orchestrate/chl_page": _K.CAPTCHA,  # Cloudflare
    "/orchestrate/managed": _K.CAPTCHA,
    "/orchestrate/jsch": _K.CAPTCHA,
    "/orchestrate/captcha": _K.CAPTCHA,
}
"""The same, of makers whose scripts watch over good pages, too; they add to what else is found."""

TITLES: Final[dict[FailureKind, tuple[str, ...]]] = {
    _K.CAPTCHA: (
        r"just a moment",
        r"one (?:moment,? please|more step)",
        r"please wait",
        r"(?:human|browser|bot|security) (?:check|challenge|verification|detection)(?: required)?",
        r"verification required",
        r"are you (?:a )?(?:human|robot|bot)\??(?: or a robot\??)?",
        r"robot (?:check|or human\??)",
        r"(?:please |let's )?(?:verify|prove|confirm) (?:that )?you(?:'re| are) (?:a )?(?:human|not a robot)",
        r"checking your browser.{0,40}",
        r"captcha(?: (?:required|challenge|check|verification))?",
        r"(?:please )?(?:complete|solve) (?:the|this|a) (?:captcha|security check).{0,30}",
        r"press (?:&|and) hold.{0,40}",
        r"client challenge|challenge validation|ddos-guard|you are being redirected",
        r"pardon our interruption",
    ),
    _K.BLOCKED: (
        r"(?:sorry, )?(?:access|permission|request) (?:is |was |has been )?(?:denied|forbidden|blocked)",
        r"(?:access|request) (?:is |was |has been )?(?:rejected|restricted)",
        r"access to (?:this|the|our) \w{1,10} (?:has been |is |was )?(?:denied|forbidden|blocked|restricted)",
        r"forbidden(?:\W{1,4}access is denied)?",
        r"(?:(?:web )?page )?blocked",
        r"(?:sorry, )?you(?:'ve| have been| are| were) (?:been )?(?:temporarily )?(?:blocked|banned)",
        r"(?:your )?ip (?:address )?(?:has been |is )?(?:blocked|banned|blacklisted)",
        r"you (?:don't|do not) have permission.{0,60}",
        r"attention required!?",
        r"the requested url was rejected.{0,60}",
        r"(?:unusual|suspicious|automated) (?:traffic|activity|access|behaviou?r)(?: detected)?",
        r"bot (?:traffic|activity) detected",
        r"security violation|(?:website|web application) firewall",
        r"(?:content )?not available in your (?:country|region|area)",
        r"acceso denegado|zugriff verweigert|acc\u00e8s (?:refus\u00e9|interdit)|acesso (?:negado|bloqueado|proibido)",
        r"\u8bbf\u95ee\u88ab\u62d2\u7edd|\u62d2\u7edd\u8bbf\u95ee|\u7981\u6b62\u8bbf\u95ee",
    ),
    _K.RATE_LIMITED: (
        r"too many (?:requests|searches|queries|attempts|connections)",
        r"(?:you are being )?rate[ -]limit(?:ed| exceeded| reached)?",
        r"(?:\w{1,10} )?(?:limit|quota) (?:has been )?(?:exceeded|reached)",
        r"(?:please )?slow down",
        r"requests? throttled",
        r"trop de (?:requ\u00eates|recherches)|demasiadas (?:solicitudes|consultas)|zu viele anfragen",
    ),
    _K.SESSION_EXPIRED: (
        r"(?:your )?(?:\w{1,10} )?session (?:has |is |was )?(?:expired|timed? ?out|time-?out|ended|invalid|lost)",
        r"(?:page|link|login) (?:has )?(?:expired|time-?out)",
        r"(?:please )?(?:log|sign)[ -]?(?:in|on)(?: again| required| page| form)?",
        r"(?:please |you must |you need to )?(?:log|sign) ?in to .{1,50}",
        r"(?:log|sign) ?in or (?:register|sign up|join).{0,40}|(?:sign up|join \w{1,20})",
        r"(?:login|authentication|authori[sz]ation) (?:is )?required",
        r"(?:user|member|account|customer|client|guest|secure) (?:log|sign)[ -]?in",
        r"unauthori[sz]ed|not logged in|you have been (?:logged|signed) out",
        r"(?:su |tu )?sesi\u00f3n (?:ha )?(?:expirad[ao]|caducad[ao])|(?:votre )?session (?:a )?expir\u00e9e?",
        r"(?:ihre )?sitzung (?:ist )?abgelaufen|iniciar sesi\u00f3n|connexion|anmelden",
    ),
    _K.MAINTENANCE: (
        r"(?:.{1,40} )?(?:is )?(?:currently |temporarily )?(?:down for|under|undergoing|in) (?:\w{1,14} )?maintenance",
        r"(?:scheduled|planned|site|system|website|emergency|routine|temporary) (?:maintenance|outage)",
        r"maintenance (?:mode|in progress|page|break|window)",
        r"(?:we(?:'ll| will) be |be )?(?:right )?back (?:soon|shortly|online|in a .{1,20})",
        r"(?:.{1,40} )?(?:is |are )?(?:temporarily|currently) (?:offline|closed|down|out of service)(?: for .{1,40})?",
        r"offline|(?:offline|closed) for maintenance",
        r"(?:.{1,30} )?en mantenimiento|wartungsarbeiten|(?:.{1,30} )?en maintenance",
    ),
    _K.SERVER_ERROR: (
        r"server error(?: in '.{0,60}' application)?",
        r"(?:runtime|internal server|application|proxy|system|database|internal|unexpected|unknown|general) error",
        r"error|exception|oops|server busy",
        r"(?:an? )?(?:\w{1,12} )?(?:error|exception|problem) (?:has |was )?(?:been )?(?:occurred|encountered)",
        r"(?:oops|sorry|uh[ -]oh|whoops)?[!,. ]{0,3}(?:an )?something(?:'s| has)? (?:went|gone) wrong.{0,20}",
        r"(?:oops|sorry|uh[ -]oh|whoops)[!,. ]{1,3}(?:an error occurred|we .{1,40})",
        r"bad gateway|gateway time-?out|origin dns error",
        r"(?:service|server|system|site|website|page) (?:is )?(?:temporarily |currently )?unavailable",
        r"http (?:status|error) 5\d\d.{0,60}|5\d\d|whitelabel error page",
        r"(?:web )?server is (?:down|busy|returning an unknown error)",
        r"error establishing a database connection|(?:database|sql|connection) (?:error|timed out)",
        r"traceback \(most recent call last\).{0,20}|fatal error.{0,80}",
        r"\w{1,40}(?:exception|error) at /.{0,80}",
    ),
    _K.NOT_FOUND_PAGE: (
        r"(?:the )?(?:page|file|document|url|resource|file or directory) (?:was |is |could )?not (?:be )?found",
        r"(?:the )?page (?:you \w{1,10}(?: \w{1,10}){0,2} )?(?:cannot|could not|can't|couldn't) be found",
        r"404|(?:http )?404 (?:error|not found)|(?:object|the resource) (?:cannot be |not )found!?",
    ),
}
"""By kind, what a title or heading says if it says nothing else; numbers and words like `error` before it are cut."""

SURE_TITLE: Final = r"server error in '.{0,60}' application|whitelabel error page"
"""Those that no other page has, however much stands below."""

VAGUE_TITLES: Final[frozenset[str]] = frozenset({"error", "exception", "oops", "oops!", "blocked", "please wait"})
"""Those that say little."""

ADDRESSES: Final[dict[str, FailureKind]] = {
    "/sorry/": _K.CAPTCHA,
    "captcha": _K.CAPTCHA,
    "/challenge": _K.CAPTCHA,
    "/blocked": _K.BLOCKED,
    "accessdenied": _K.BLOCKED,
    "access-denied": _K.BLOCKED,
    "sessionexpired": _K.SESSION_EXPIRED,
    "session-expired": _K.SESSION_EXPIRED,
    "timeout": _K.SESSION_EXPIRED,
    "/login": _K.SESSION_EXPIRED,
    "/logon": _K.SESSION_EXPIRED,
    "/signin": _K.SESSION_EXPIRED,
    "authwall": _K.SESSION_EXPIRED,
    "maintenance": _K.MAINTENANCE,
    "aspxerrorpath=": _K.SERVER_ERROR,
    "/error": _K.SERVER_ERROR,
}
"""What the address says to which redirects have led."""

FRAMED: Final[tuple[bytes, ...]] = (b"xpired", b"aintenance")
"""Looked for in pages that hold a lot: the messages that sites set into their usual frame. A capital is cut off."""

SUSPICIOUS_WORDS: Final[tuple[str, ...]] = (
    *(
        "captcha",
        "human",
        "robot",
        "moment",
        "verif",
        "check",
        "challenge",
        "one more",
        "hold",
        "wait",
        "ddos",
        "pardon",
    ),
    *("denied", "forbidden", "block", "reject", "restrict", "banned", "attention", "unusual", "suspicious", "firewall"),
    *(
        "violation",
        "permission",
        "automated",
        "not available",
        "blacklist",
        "denegado",
        "negado",
        "bloqueado",
        "proibido",
        "\u62d2\u7edd",
        "\u7981\u6b62",
        "verweigert",
        "refus",
        "interdit",
        "bot ",
    ),
    *("too many", "limit", "slow down", "throttled", "quota", "trop de", "demasiadas", "zu viele"),
    *(
        "session",
        "log",
        "sign",
        "join",
        "expired",
        "time",
        "authori",
        "required",
        "sesi",
        "sitzung",
        "connexion",
        "anmelden",
    ),
    *(
        "maint",
        "mantenimiento",
        "redirected",
        "back",
        "offline",
        "closed",
        "down",
        "outage",
        "wartung",
        "out of service",
    ),
    *("error", "exception", "gateway", "unavailable", "wrong", "oops", "status 5", "500", "502", "503", "504", "busy"),
    *("occurred", "encountered", "sorry", "uh-oh", "uh oh", "whoops", "traceback"),
    *("not found", "404", "be found"),
)
"""What makes a title or heading worth a look; every title of the table holds one."""
