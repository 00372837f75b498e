"""Between connection and pages: counts each request, lets the switches spoil it, and serves the site's own `/_site`.

What is asked of `/_site` is neither counted nor spoiled, so that a test can look and turn switches at any time.
"""

import json

from swath.testing.demo_county import pages, routes
from swath.testing.demo_county.counters import Counters
from swath.testing.demo_county.messages import JSON, TEXT, Request, Response
from swath.testing.demo_county.switches import Dice, Fault, Switches
from swath.web.demo_proof import proof_of

_CONTROL = "/_site/"


class Responder:
    """The site without its sockets: answers requests, and is what a connection's handler must be."""

    def __init__(self, switches: Switches) -> None:
        self.counters = Counters()
        self.dice = Dice(switches)

    def opened(self, request: Request) -> None:
        if request.path.startswith(_CONTROL):
            return
        place = routes.place_of(request.path)
        request.open_request = self.counters.opened(place.kind, request.session())
        if place.parcel_id and self.dice.switches.count_parcels:
            self.counters.count_parcel(place.kind, place.parcel_id)

    def finished(self, request: Request, status: str) -> None:
        if request.open_request is not None:
            self.counters.finished(request.open_request, status)
            request.open_request = None

    def delay_seconds(self, request: Request) -> float:
        return 0.0 if request.open_request is None else self.dice.delay_seconds()

    def respond(self, request: Request) -> Response | None:
        """Return the answer, or nothing if the connection is to be cut instead."""
        if request.refused:
            return pages.refused(request.refused)
        if request.open_request is None:
            return self._control(request)
        if routes.place_of(request.path) is routes.ROBOTS:
            return self._robots()
        fault = self.dice.fault()
        if fault is None:
            return routes.respond(request)
        return None if fault == "drop" else self._spoiled(fault)

    def _robots(self) -> Response:
        switches = self.dice.switches
        return Response(switches.robots_status, switches.robots.encode(), TEXT)

    def _spoiled(self, fault: Fault) -> Response:
        if fault == "rate_limited":
            return pages.too_many_requests(self.dice.switches.retry_after_seconds)
        if fault == "blocked":
            return pages.BLOCKED
        return pages.MAINTENANCE if fault == "maintenance" else pages.RUNTIME_ERROR

    def _control(self, request: Request) -> Response:
        method = "GET" if request.method == "HEAD" else request.method
        match method, request.path.removeprefix(_CONTROL):
            case "GET", "proof":
                return Response(200, proof_of(request.query).encode(), TEXT)
            case "GET", "switches":
                return _json(self.dice.switches.as_dict())
            case "POST", "switches":
                return self._turn_switches(request)
            case "GET", "counters":
                return _json(self.counters.as_dict())
            case "POST", "counters/reset":
                self.counters.reset()
                return _json(self.counters.as_dict())
            case "GET", "timestamps":
                return _json([round(stamp, 6) for stamp in self.counters.timestamps])
            case "GET", "parcels":
                return _json(self.counters.by_parcel)
        return _json({"error": f"{request.method} {request.path}: no such control"}, status=404)

    def _turn_switches(self, request: Request) -> Response:
        try:
            changes = json.loads(request.body)
            if not isinstance(changes, dict):
                return _json({"error": "an object of switches is expected"}, status=400)
            self.dice.turn(self.dice.switches.changed(changes))
        except (ValueError, RecursionError) as error:
            return _json({"error": str(error)}, status=400)
        return _json(self.dice.switches.as_dict())


def _json(value: object, *, status: int = 200) -> Response:
    return Response(status, json.dumps(value).encode(), JSON)
