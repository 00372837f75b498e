"""Only the echo of the demo site: `/echo`, `/robots.txt` and the proof of what it is, and nothing else.

`swath serve` has it listen where SWATH_DEMO_URL says, so that `example-http` works on a fresh machine with no network.
"""

from swath.testing.demo_county import pages, routes
from swath.testing.demo_county.messages import TEXT, Request, Response
from swath.web.demo_proof import PROOF_PATH, proof_of

ROBOTS = b"User-agent: *\nAllow: /\n"


class Echo:
    """Answers requests, and is what a connection's handler must be; it counts and spoils nothing."""

    def opened(self, request: Request) -> None:
        pass

    def finished(self, request: Request, status: str) -> None:
        pass

    def delay_seconds(self, request: Request) -> float:  # noqa: ARG002 all are answered at once
        return 0.0

    def respond(self, request: Request) -> Response:
        """Return the answer."""
        if request.refused:
            return pages.refused(request.refused)
        if request.path == PROOF_PATH:
            return Response(200, proof_of(request.query).encode(), TEXT)
        if routes.place_of(request.path) is routes.ROBOTS:
            return Response(200, ROBOTS, TEXT)
        return routes.respond(request) if routes.place_of(request.path).kind == "echo" else pages.NOT_FOUND
