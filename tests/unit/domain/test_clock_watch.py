"""When the wall clock is believed: over short runs, starts of the machine, jumps and several hosts."""

import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from swath.domain.clock_watch import CONFIRM_SECONDS, TOLERANCE_SECONDS, ClockReading, ClockWatch, observe

DAY = 86_400.0
START = 1_750_000_000.0

pytestmark = pytest.mark.req("Z10")


class Machine:
    """Both clocks of a machine and what a store on it remembers."""

    def __init__(self) -> None:
        self.starts = 1
        self.boot = 50.0
        self.wall = START
        self.watch: ClockWatch | None = None

    def look(self) -> ClockWatch:
        self.watch = observe(self.watch, ClockReading(f"start-{self.starts}", self.boot, self.wall))
        return self.watch

    def run(self, seconds: float) -> None:
        self.boot += seconds
        self.wall += seconds

    def reboot(self, off_seconds: float = 60.0) -> None:
        self.starts += 1
        self.boot = 20.0
        self.wall += off_seconds + 20.0


def test_nothing_is_confirmed_by_the_first_look_and_an_hour_later_all_up_to_an_hour_ago_is() -> None:
    machine = Machine()
    assert machine.look().confirmed_wall == -math.inf
    machine.run(CONFIRM_SECONDS - 1)
    assert machine.look().confirmed_wall == -math.inf
    machine.run(1)
    assert machine.look().confirmed_wall == START
    machine.run(5 * DAY)
    assert machine.look().confirmed_wall == START + 5 * DAY


@pytest.mark.parametrize("jump", [400 * DAY, -400 * DAY, TOLERANCE_SECONDS + 10, -TOLERANCE_SECONDS - 10])
def test_a_jump_is_noticed_and_nothing_is_confirmed_until_an_hour_after_it(jump: float) -> None:
    machine = Machine()
    machine.look()
    machine.run(2 * CONFIRM_SECONDS)
    before = machine.look()
    machine.run(5)
    machine.wall += jump
    after = machine.look()
    assert after.confirmed_wall == -math.inf
    assert after.jump_after(before) == pytest.approx(jump)
    machine.run(CONFIRM_SECONDS)
    assert machine.look().confirmed_wall == machine.wall - CONFIRM_SECONDS
    assert machine.look().jump_after(after) is None


def test_what_a_time_server_corrects_is_no_jump_even_over_months() -> None:
    machine = Machine()
    for _ in range(100):
        machine.look()
        machine.run(DAY)
        machine.wall -= 5.0
    assert machine.look().confirmed_wall > machine.wall - CONFIRM_SECONDS - TOLERANCE_SECONDS
    assert machine.look().jumps == 0


def test_a_jump_within_a_long_silence_is_noticed() -> None:
    machine = Machine()
    machine.look()
    machine.run(30 * DAY)
    machine.wall += DAY
    assert machine.look().confirmed_wall == -math.inf


def test_a_machine_that_never_runs_for_an_hour_gets_there_over_several_starts() -> None:
    machine = Machine()
    for _ in range(3):
        machine.look()
        machine.run(1_150)
        assert machine.look().confirmed_wall == -math.inf
        machine.reboot(off_seconds=DAY)
    machine.run(100)
    assert machine.look().confirmed_wall >= START


def test_a_machine_of_which_each_start_sees_one_short_run_gets_there_too() -> None:
    machine, starts = Machine(), 0
    machine.look()
    while machine.look().confirmed_wall == -math.inf:
        machine.reboot(off_seconds=DAY)
        machine.run(900)
        starts += 1
        assert starts <= 10
    assert starts >= 6, "one start gives ten minutes at most"


def test_a_start_with_the_wall_clock_behind_begins_anew_and_one_with_it_ahead_gives_ten_minutes_at_most() -> None:
    machine = Machine()
    machine.look()
    machine.run(2 * CONFIRM_SECONDS)
    machine.look()
    machine.reboot()
    machine.wall += 400 * DAY
    machine.run(CONFIRM_SECONDS)
    assert machine.look().confirmed_wall < START + 2 * CONFIRM_SECONDS
    machine.reboot()
    machine.wall -= 400 * DAY
    assert machine.look().confirmed_wall == -math.inf


def test_two_hosts_that_disagree_confirm_nothing_and_two_that_agree_do() -> None:
    """Each is a start of the machine to the other."""
    for skew, confirmed in ((0.5, True), (DAY, False)):
        watch = None
        for second in range(0, int(2 * CONFIRM_SECONDS), 30):
            reading = ClockReading("a", 900.0 + second, START + second)
            other = ClockReading("b", 70_000.0 + second, START + second + skew)
            watch = observe(observe(watch, reading), other)
        assert watch is not None
        assert (watch.confirmed_wall > 0) == confirmed


def test_what_is_remembered_stays_small() -> None:
    machine = Machine()
    for _ in range(3_000):
        machine.look()
        machine.run(0.5)
        machine.reboot(off_seconds=0.0)
    assert len(machine.look().spans) <= 400


def test_a_look_that_comes_late_changes_nothing() -> None:
    """Two processes read the clocks and then take their turns."""
    machine = Machine()
    machine.look()
    machine.run(100)
    watch = machine.look()
    assert observe(watch, ClockReading("start-1", machine.boot - 3, machine.wall - 3)) == watch


def test_it_is_saved_at_once_when_it_matters_and_else_once_a_minute() -> None:
    machine = Machine()
    first = machine.look()
    assert first.worth_saving_after(None)
    machine.run(59)
    assert not machine.look().worth_saving_after(first)
    machine.run(1)
    assert machine.look().worth_saving_after(first)
    machine.wall += DAY
    assert machine.look().worth_saving_after(first)


steps = st.lists(
    st.tuples(st.sampled_from(["run", "jump", "reboot", "look"]), st.floats(0, 3 * CONFIRM_SECONDS)), max_size=40
)


@example([("run", 9257.153243633014), ("look", 0.0), ("run", 7077.0), ("look", 0.0), ("look", 0.0)])  # rounding
@given(steps)
def test_uptime_never_goes_back_and_nothing_is_confirmed_that_is_not_an_hour_old(
    taken: list[tuple[str, float]],
) -> None:
    machine, uptime = Machine(), 0.0
    for what, amount in taken:
        match what:
            case "run":
                machine.run(amount)
            case "jump":
                machine.wall += (amount - CONFIRM_SECONDS) * 300
            case "reboot":
                machine.reboot(amount)
            case _:
                watch = machine.look()
                assert watch.uptime >= uptime
                assert watch.confirmed_wall <= machine.wall - CONFIRM_SECONDS + TOLERANCE_SECONDS
                uptime = watch.uptime
