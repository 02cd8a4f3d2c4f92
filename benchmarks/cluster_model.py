"""Efficiency of checks on many hosts, by a model of the submitting process, its hosts and its real policy.

    python benchmarks/cluster_model.py [--engine slurm]             # 100 hosts, 10,000 candidates of 5 s
    python benchmarks/cluster_model.py --costs FILE --hosts 30      # other costs, from a file and options
    python benchmarks/cluster_model.py --sweeps [NAME ...]          # from where on it is under 90 %, and why
    python benchmarks/cluster_model.py --check FILE                 # beside a measured run

Events are drawn by `--seed`: `--runs` of them, the median counts. `--json FILE` keeps all that was computed.
Sizes of shards come from `hosts/cluster/shard_size.py` itself; the rules for lost hosts are written again.

The process of a place stays between shards. With Ray nobody looks at jobs; with Slurm the submitting process
looks at each of them ten times a second, and a worker looks as often for its next shard.

Efficiency is the sum of all check seconds over places times makespan; the other time of the places is told by
cause. Makespan begins with the bundle, and ends when the last candidate's verdict is stored. The submitting
process is one server: it takes preparations, messages and submissions in the order of their arrival. Rows
with a submitting process that is busy for more than nine tenths of the time are rough: its threads take turns
in fact, and nobody has measured how slow they get then.

A file of `--costs` is a JSON object with any fields of `Scenario`: those that it does not have keep their
values, options go before it. One of `--check` is such an object, or a list of them, with `measured_s` and
perhaps `name`: seconds from when the bundle is made until the last candidate was judged. Fields that a
measured run should have:

    hosts, slots, candidates: of the run.
    known_s, prepare_s: CPU of the submitting process for one candidate: until its constants are known, and
        from then until it waits for a host.
    fresh_s: of a host, for a shard with candidates whose constants it did not know.
    message_s, messages: CPU for a message, and how many a candidate has (`checking`, `step`s, `judged`).
    bundle_mb, out_mb_s, in_mb_s: size of the bundle, and rates of the links.
    start_s: from the submission of a shard until a new worker of the engine has it; again_s: one that stays.
    first_s: overhead_s of `ended`, of the first shard of a process whose host has its baseline.
    baseline_s: overhead_s of a host's first shard, less first_s.
    overhead_s: of a later shard of the same process.
    warm_s: by which the first check of a process is longer than others.
    checks_s: list of seconds of single checks, drawn from with replacement; else check_s and its spread.

Measured on one machine, under load: costs of the submitting process (400 and 1,600 candidates, messages of
real shards sent by a double of the engine), `messages`, `overhead_s` (one place, 16 candidates), `fresh_s`;
`cut_s` and `ledger_s` by the same statements alone, with 10,000 and 80,000 candidates. `baseline_s`,
`first_s` and `warm_s` are those of seven real cases (`real_cases/host_costs.py`) with checks of 1 to 9 s;
nine of ten bundles of the 30 repositories of all cases are smaller than `bundle_mb`. Slurm's `start_s` and
`follow_s` are from an earlier run of submitit's local jobs.
Assumed: links, Ray's `start_s`, spread, stragglers, losses, that each later candidate has a constant which
its host does not know, and that it costs the submitting process as much as others, only later.

Not in the model: more than 1,000 places (as many threads wait for messages), slots of a host that slow each
other down, traffic of jobs and messages on the links, repairs, and the race. A candidate's check with fresh
inputs, which a shard makes at its end, is a part of its one check here.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import partial
from heapq import heappop, heappush
from itertools import count, pairwise
from math import inf, log
from pathlib import Path
from random import Random
from statistics import fmean, median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from codeflash_parallel.hosts.cluster.shard_size import ShardCosts, shard_size

#: As in `host_cluster`, which a test compares: shards prepared ahead, losses before a candidate goes alone.
AHEAD, ALONE = 3, 2
#: The same: seconds after which it is counted again how many candidates are to come.
COUNT_S = 1.0
#: As in `check_coordinator`: candidates that are prepared ahead at least.
LEAST_AHEAD = 100
#: As in `check_coordinator`: candidates whose constants are told before the first shard is sent.
TOLD = 500
#: Of the submitting process that follows more jobs than it can: its thread gets its turn among theirs.
LEAST_SPEED = 0.2
AIM = 0.9
#: Of the makespan, that the submitting process is busy: with more, the model is rough.
ROUGH = 0.9
#: A second cause that has grown by less is not told.
WORTH_NAMING = 0.01
HOUR_S = 3600.0

#: The next remedy, by the cause of other time than that of checks.
REMEDIES = {
    "bundle": "send what a host does not have yet, or let hosts fetch the bundle from each other",
    "baseline": "make the baseline on one host and send it to those with the same environment",
    "start": "let one job of the engine take several shards",
    "first": "keep the process of a place between shards, or open places while candidates are prepared",
    "overhead": "submit a shard before the last one ends",
    "fresh": "make inputs of new constants only, and keep those of the others",
    "preparation": "prepare in several processes",
    "submitter": "prepare in several processes",
    "uneven": "make the last shards smaller, or take back candidates that a host has not begun",
    "stragglers": "give the last candidates to two hosts at once",
    "lost": "make shards shorter where hosts are lost often, and start new hosts sooner",
}
CAUSES = tuple(REMEDIES)


@dataclass(frozen=True, kw_only=True, slots=True)
class Scenario:
    """Candidates, hosts and costs. Seconds are wall time on a host and CPU time of the submitting process.

    Attributes:
        told: candidates whose constants are told to the hosts before the first shard; those of the others
            are told with the next shard, and each has one that is new.
        known_s: of one candidate, until its constants are known: of those that are told before the first
            shard is sent, of others in their turn, before `prepare_s`.
        prepare_s: of one candidate, one after the other, from then until it waits for a host.
        message_s: of one message.
        messages: of one candidate; a shard has two more.
        submit_s: of one shard.
        cut_s: of one shard, for each candidate that waits.
        dispatch_s: of one look at what waits and what is free.
        ledger_s: of such a look in which candidates are counted, for each candidate of the run.
        follow_s: CPU of the submitting process for each job and second, by which all else is slower: Slurm's
            jobs are looked at ten times a second.
        linger_s: that the dispatcher waits for more candidates, as in `host_cluster`.
        pack_mb_s: rate at which the bundle is made.
        out_mb_s: of the submitting host's link, which all transfers share.
        in_mb_s: of each host's link.
        latency_s: of a message, and of a submission.
        idle_s: after which a process without a shard ends, as in `host_run`, or in `slurm_executor`.
        baseline_s: of a host's first shard, fresh inputs included; its other shards wait for it.
        start_s: until a new worker of the engine has a shard; the policy does not see it.
        again_s: until one that has done others has it.
        first_s: mean overhead of the first shard of a process: its start, servers, choice of what is timed.
        overhead_s: mean overhead of a later one; both have a lognormal spread of `overhead_sigma`.
        fresh_s: mean of fresh inputs, which a shard makes anew if its host did not know the constants of one
            of its candidates; the policy takes it for overhead. In a shard that makes the baseline it is a
            part of that.
        warm_s: by which the first check of a process takes longer; the policy takes that for checks.
        check_s: mean of a check, with a lognormal spread of `check_sigma`.
        straggler_share: of the checks, each of which takes `straggler_factor` times `check_s`.
        passing_share: of the candidates, whose verdicts are sent at the end of their shard.
        checks_s: measured checks, in the place of that distribution.
        loss_per_h: probability that a host is lost within an hour.
        notice_s: until that is known.
        replace_s: from then until another host is in its place; `inf`: none.
    """

    candidates: int = 10_000
    hosts: int = 100
    slots: int = 1
    told: int = TOLD
    known_s: float = 0.004
    prepare_s: float = 0.002
    message_s: float = 0.001
    messages: int = 4
    submit_s: float = 0.005
    cut_s: float = 0.00000012
    dispatch_s: float = 0.002
    ledger_s: float = 0.0000008
    follow_s: float = 0.0
    linger_s: float = 0.05
    bundle_mb: float = 10.0
    pack_mb_s: float = 50.0
    out_mb_s: float = 125.0
    in_mb_s: float = 125.0
    latency_s: float = 0.001
    idle_s: float = 20.0
    baseline_s: float = 12.0
    start_s: float = 0.02
    again_s: float = 0.02
    first_s: float = 3.0
    overhead_s: float = 0.05
    overhead_sigma: float = 0.3
    fresh_s: float = 2.3
    warm_s: float = 1.0
    check_s: float = 5.0
    check_sigma: float = 0.5
    straggler_share: float = 0.005
    straggler_factor: float = 5.0
    passing_share: float = 0.5
    checks_s: tuple[float, ...] = ()
    loss_per_h: float = 0.01
    notice_s: float = 30.0
    replace_s: float = 120.0

    @property
    def places(self) -> int:
        return self.hosts * self.slots

    def durations(self, random: Random) -> list[float]:
        """Draw the seconds of every check."""
        if self.checks_s:
            return random.choices(self.checks_s, k=self.candidates)
        usual = [drawn(random, self.check_s, self.check_sigma) for _ in range(self.candidates)]
        longest = self.check_s * self.straggler_factor
        return [longest if random.random() < self.straggler_share else seconds for seconds in usual]


#: What an engine's jobs cost.
ENGINES: dict[str, dict[str, Any]] = {
    "ray": {},
    "slurm": {"start_s": 1.0, "again_s": 0.1, "idle_s": 5.0, "follow_s": 0.0015},
}


def drawn(random: Random, mean: float, sigma: float) -> float:
    """Draw from a lognormal distribution with this mean."""
    return mean * random.lognormvariate(-sigma * sigma / 2, sigma) if mean else 0.0


def scenario_of(document: dict[str, Any], base: Scenario) -> Scenario:
    """Return a scenario with the fields of a document.

    Raises:
        SystemExit: it has another one.
    """
    known = {one.name for one in fields(Scenario)}
    if unknown := sorted(set(document) - known):
        raise SystemExit(f"No field of a scenario: {', '.join(unknown)}. There are: {', '.join(known)}.")
    changed: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in document.items()}
    return replace(base, **changed)


# --- the model -------------------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class Candidate:
    """A candidate. `judged` counts its verdicts: one, or none if it was given up."""

    number: int
    check_s: float
    passes: bool
    losses: int = 0
    judged: int = 0
    is_given_up: bool = False

    @property
    def is_done(self) -> bool:
        return self.is_given_up or self.judged > 0


@dataclass(slots=True, eq=False)
class Place:
    """A slot of a host: since when its time has gone where.

    Attributes:
        kept_until: a shard that comes until then has the process of the last one.
    """

    host: Host
    cause: str = "bundle"
    since: float = 0.0
    idle_until: dict[str, float] = field(default_factory=dict)
    shard: Shard | None = None
    kept_until: float = -1.0


@dataclass(slots=True, eq=False)
class Host:
    """A host, until it is lost.

    Attributes:
        is_listed: the engine says that it is there.
        has: what it has of bundle and baseline.
        waiting: its shards that wait for one of them, in the order of their arrival.
        told: number of candidates of whose constants it has made fresh inputs.
    """

    is_up: bool = True
    is_listed: bool = True
    has: set[str] = field(default_factory=set)
    waiting: dict[str, list[Callable[[], None]]] = field(default_factory=dict)
    told: int = 0


@dataclass(slots=True, eq=False)
class Shard:
    """A shard on a place.

    Attributes:
        begun: candidates whose check was begun.
        makes_baseline: fresh inputs included.
        unsent: those that have passed; their verdicts come at the end.
        told: number of candidates whose constants it was told.
    """

    candidates: list[Candidate]
    place: Place
    begun: int = 0
    began_s: float = 0.0
    first_s: float = 0.0
    check_began_s: float = 0.0
    is_lost: bool = False
    makes_baseline: bool = False
    unsent: list[Candidate] = field(default_factory=list)
    told: int = 0

    @property
    def unbegun(self) -> int:
        return len(self.candidates) - self.begun


class Events:
    """Actions in the order of their times; of the same time, in the order in which they were put in."""

    def __init__(self) -> None:
        self.now = 0.0
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count()

    def after(self, seconds: float, action: Callable[[], None]) -> None:
        heappush(self._heap, (self.now + seconds, next(self._numbers), action))

    def step(self) -> bool:
        """Do the next action; return whether there was one."""
        if not self._heap:
            return False
        self.now, _, action = heappop(self._heap)
        action()
        return True


class Server:
    """The submitting process: it does one thing at a time, in the order of arrival."""

    def __init__(self, events: Events) -> None:
        self._events = events
        self._free_s = self.busy_s = 0.0
        self.speed = 1.0

    def do(self, seconds: float, then: Callable[[], None]) -> None:
        seconds /= self.speed
        self.busy_s += seconds
        self._free_s = max(self._free_s, self._events.now) + seconds
        self._events.after(self._free_s - self._events.now, then)


class Link:
    """A link that its transfers share evenly, each of them no faster than the other end's own link."""

    def __init__(self, events: Events, rate: float, each: float) -> None:
        self._events, self._rate, self._each = events, rate, each
        self._numbers, self._turn = count(), 0
        self._sent = self._since = 0.0  # what each transfer would have got since the beginning
        self._ends: list[tuple[float, int, Callable[[], None]]] = []

    def send(self, size: float, then: Callable[[], None]) -> None:
        self._pass()
        heappush(self._ends, (self._sent + size, next(self._numbers), then))
        self._plan()

    def _speed(self) -> float:
        return min(self._each, self._rate / len(self._ends))

    def _pass(self) -> None:
        if self._ends:
            self._sent += (self._events.now - self._since) * self._speed()
        self._since = self._events.now

    def _plan(self) -> None:
        self._turn += 1
        if self._ends:
            left = max(0.0, self._ends[0][0] - self._sent)
            self._events.after(left / self._speed(), partial(self._end, self._turn))

    def _end(self, turn: int) -> None:
        if turn != self._turn:
            return
        self._pass()
        end, _, then = heappop(self._ends)
        self._sent = max(self._sent, end)
        self._plan()
        then()


class Account:
    """Seconds of the places by cause. Idle ones are told by why no place could have been busy then."""

    IDLE = "idle"

    def __init__(self, events: Events) -> None:
        self._events = events
        self.spent = dict.fromkeys(("check", *CAUSES), 0.0)
        self._reasons = dict.fromkeys(("preparation", "submitter", "uneven", "stragglers", "lost"), 0.0)
        self._reason, self._since = "preparation", 0.0

    def reason(self, name: str) -> None:
        """Say why a place that is idle from now on is so."""
        now = self._events.now
        self._reasons[self._reason] += now - self._since
        self._reason, self._since = name, now

    def turn(self, place: Place, cause: str) -> None:
        """Close what a place has spent its time with, and open the next account."""
        now = self._events.now
        self.reason(self._reason)
        if place.cause == self.IDLE:
            for name, clock in self._reasons.items():
                self.spent[name] += clock - place.idle_until[name]
        else:
            self.spent[place.cause] += now - place.since
        place.cause, place.since = cause, now
        if cause == self.IDLE:
            place.idle_until = dict(self._reasons)

    def move(self, seconds: float, source: str, target: str) -> None:
        self.spent[source] -= seconds
        self.spent[target] += seconds


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """One run of the model.

    Attributes:
        shares: of places times makespan, by cause, `check` among them; their sum is one.
        judged: candidates with a verdict; `given_up`: those that were lost too often.
        short: share of the shards that were made smaller than the policy wants, of what was prepared.
        submitter: share of the makespan in which the submitting process was busy.
    """

    makespan_s: float
    efficiency: float
    shares: dict[str, float]
    judged: int
    given_up: int
    shards: int
    lost_hosts: int
    short: float
    submitter: float

    @property
    def cause(self) -> str:
        return max(CAUSES, key=lambda name: self.shares[name])


class ClusterModel:
    """One run on many hosts. `run` is called once."""

    def __init__(self, scenario: Scenario, seed: object) -> None:
        self._is = scenario
        self._random = Random(f"{seed} shards")
        self._losses = Random(f"{seed} losses")
        self._events = Events()
        self._server = Server(self._events)
        self._link = Link(self._events, scenario.out_mb_s, scenario.in_mb_s)
        self._account = Account(self._events)
        self._costs = ShardCosts()
        passing = Random(f"{seed} passing")
        self.candidates = [
            Candidate(number=number, check_s=seconds, passes=passing.random() < scenario.passing_share)
            for number, seconds in enumerate(scenario.durations(Random(f"{seed} checks")))
        ]
        self._hosts = [Host() for _ in range(scenario.hosts)]
        # One place of each host first: shards are spread.
        self._places = [Place(host) for _ in range(scenario.slots) for host in self._hosts]
        self._free: deque[Place] = deque()
        self._waiting: deque[Candidate] = deque()
        self._ahead = max(LEAST_AHEAD, AHEAD * scenario.places * max(1, shard_size(1 << 30, 1, ShardCosts())))
        self._prepared = self._done = self._running = self._shards = self._short = self._lost_hosts = 0
        self._is_preparing = self._is_wanted = self._is_dispatching = False
        self._unbegun = self._checking = self._missing = 0
        self._counted_s = -COUNT_S

    def run(self) -> Outcome:
        self._events.after(self._is.bundle_mb / self._is.pack_mb_s, self._begin)
        while self._done < len(self.candidates) and self._events.step():
            pass
        for place in self._places:
            self._account.turn(place, Account.IDLE)
        judged = [one for one in self.candidates if one.judged]
        makespan_s = self._events.now
        whole_s = makespan_s * self._is.places
        return Outcome(
            makespan_s=makespan_s,
            efficiency=sum(one.check_s for one in judged) / whole_s,
            shares={name: spent / whole_s for name, spent in self._account.spent.items()},
            judged=len(judged),
            given_up=len(self.candidates) - len(judged),
            shards=self._shards,
            lost_hosts=self._lost_hosts,
            short=self._short / max(1, self._shards),
            submitter=self._server.busy_s / makespan_s,
        )

    def _begin(self) -> None:
        for place in self._places:
            self._release(place)
        for host in self._hosts:
            self._expect_loss(host)
        self._server.do(self._is.known_s * min(self._is.told, len(self.candidates)), self._prepare)

    def _note(self) -> None:
        """Note why places are idle, if they are."""
        if self._waiting:
            reason = "submitter"
        elif self._prepared < len(self.candidates):
            reason = "preparation"
        elif self._unbegun:
            reason = "uneven"
        elif self._checking:
            reason = "stragglers"
        else:
            reason = "lost" if self._missing else "submitter"
        self._account.reason(reason)

    # --- the submitting process ------------------------------------------------------------------------

    def _prepare(self) -> None:
        """Prepare the next candidate, unless enough of them are ahead."""
        if self._is_preparing or self._prepared == len(self.candidates):
            return
        if self._prepared - self._done < self._ahead:
            self._is_preparing = True
            known_s = 0.0 if self._prepared < self._is.told else self._is.known_s
            self._server.do(known_s + self._is.prepare_s, self._has_prepared)

    def _has_prepared(self) -> None:
        self._is_preparing = False
        self._waiting.append(self.candidates[self._prepared])
        self._prepared += 1
        self._note()
        self._want_dispatch()
        self._prepare()

    def _want_dispatch(self) -> None:
        self._is_wanted = True
        if not self._is_dispatching:
            self._is_dispatching = True
            self._events.after(self._is.linger_s, self._look)

    def _look(self) -> None:
        self._is_wanted, seconds = False, self._is.dispatch_s
        if self._events.now >= self._counted_s + COUNT_S:
            self._counted_s = self._events.now
            seconds += self._is.ledger_s * len(self.candidates)
        self._server.do(seconds, self._dispatch)

    def _dispatch(self) -> None:
        places = sum(self._is.slots for host in self._hosts if host.is_listed)
        while self._waiting and self._running < places:
            waiting = len(self._waiting)
            shard = self._cut(places)
            self._submit(shard, self._is.submit_s + self._is.cut_s * waiting)
        self._note()
        self._is_dispatching = False
        if self._is_wanted:
            self._want_dispatch()

    def _cut(self, places: int) -> list[Candidate]:
        """Take the next shard, as `host_cluster` does."""
        losses = self._waiting[0].losses
        left = len(self._waiting) + len(self.candidates) - self._prepared
        size = shard_size(left, places, self._costs) if losses < ALONE else 1
        self._short += size > len(self._waiting) and self._prepared < len(self.candidates)
        first = [self._waiting.popleft() for _ in range(min(size, len(self._waiting)))]
        self._waiting.extendleft(reversed([one for one in first if one.losses != losses]))
        return [one for one in first if one.losses == losses]

    def _submit(self, candidates: list[Candidate], seconds: float) -> None:
        place = self._free.popleft()
        shard = place.shard = Shard(candidates, place, told=max(self._prepared, self._is.told))
        self._shards += 1
        self._follow(1)
        self._unbegun += shard.unbegun
        self._account.turn(place, "submitter" if place.host.is_up else "lost")
        if not place.host.is_up:
            self._lose(shard)
        sent = partial(self._events.after, self._is.latency_s, partial(self._start, shard))
        self._server.do(seconds, sent)

    def _follow(self, jobs: int) -> None:
        self._running += jobs
        self._server.speed = max(LEAST_SPEED, 1 - self._running * self._is.follow_s)

    def _receive(self, messages: int, then: Callable[[], None]) -> None:
        """Have the submitting process take messages that a host sends now."""
        take = partial(self._server.do, messages * self._is.message_s, then)
        self._events.after(self._is.latency_s, take)

    def _has_judged(self, one: Candidate) -> None:
        one.judged += 1
        self._done += 1
        self._prepare()

    def _has_ended(self, shard: Shard, overhead_s: float, checks_s: float) -> None:
        self._costs.add(overhead_s, checks_s, len(shard.candidates))
        self._follow(-1)
        self._want_dispatch()

    def _has_lost(self, shard: Shard) -> None:
        """Queue again what a lost shard has not judged; one that was lost alone too often is given up."""
        left = [one for one in shard.candidates if not one.is_done]
        self._missing -= len(left)
        for one in left:
            one.losses += 1
            one.is_given_up = len(shard.candidates) == 1 and one.losses > ALONE
        self._done += sum(one.is_given_up for one in left)
        self._waiting.extendleft(reversed([one for one in left if not one.is_given_up]))
        self._follow(-1)
        self._note()
        self._want_dispatch()

    # --- the hosts -------------------------------------------------------------------------------------

    def _release(self, place: Place) -> None:
        place.shard = None
        self._account.turn(place, Account.IDLE)
        self._free.append(place)

    def _start(self, shard: Shard) -> None:
        if not shard.is_lost:
            self._account.turn(shard.place, "start")
            is_kept = self._events.now <= shard.place.kept_until
            seconds = self._is.again_s if is_kept else self._is.start_s
            self._events.after(seconds, partial(self._begin_shard, shard, is_kept=is_kept))

    def _begin_shard(self, shard: Shard, *, is_kept: bool) -> None:
        if shard.is_lost:
            return
        shard.began_s = self._events.now
        if is_kept:
            self._open(shard, is_first=False)
            return
        host, overhead = shard.place.host, partial(self._open, shard, is_first=True)
        baseline = partial(self._make, shard, "baseline", overhead)
        self._make(shard, "bundle", baseline) if "baseline" not in host.has else overhead()

    def _make(self, shard: Shard, thing: str, then: Callable[[], None]) -> None:
        """Go on once the host has its bundle or baseline: the first shard makes it, and others wait."""
        host = shard.place.host
        if shard.is_lost:
            return
        if thing in host.has:
            then()
            return
        self._account.turn(shard.place, thing)
        is_first = thing not in host.waiting
        shard.makes_baseline |= is_first and thing == "baseline"
        host.waiting.setdefault(thing, []).append(then)
        made = partial(self._has_made, host, thing)
        if is_first and thing == "bundle":
            self._link.send(self._is.bundle_mb, made)
        elif is_first:
            self._events.after(self._is.baseline_s, made)

    def _has_made(self, host: Host, thing: str) -> None:
        host.has.add(thing)
        for go_on in host.waiting.pop(thing):
            go_on()

    def _open(self, shard: Shard, *, is_first: bool) -> None:
        if shard.is_lost:
            return
        self._account.turn(shard.place, "first" if is_first else "overhead")
        self._receive(1, _nothing)
        mean = self._is.first_s if is_first else self._is.overhead_s
        overhead_s = drawn(self._random, mean, self._is.overhead_sigma)
        warm_s = self._is.warm_s if is_first else 0.0
        check = partial(self._check_first, shard, warm_s)
        if shard.makes_baseline:
            shard.place.host.told = shard.told
        is_fresh = all(one.number < shard.place.host.told for one in shard.candidates)
        self._events.after(overhead_s, check if is_fresh else partial(self._make_fresh, shard, check))

    def _make_fresh(self, shard: Shard, then: Callable[[], None]) -> None:
        if not shard.is_lost:
            self._account.turn(shard.place, "fresh")
            shard.place.host.told = shard.told
            self._events.after(drawn(self._random, self._is.fresh_s, self._is.overhead_sigma), then)

    def _check_first(self, shard: Shard, warm_s: float) -> None:
        if shard.is_lost:
            return
        if shard.place.cause == "fresh" and warm_s:
            self._account.turn(shard.place, "first")
        shard.first_s = self._events.now
        self._receive(1, _nothing)
        self._events.after(warm_s, partial(self._check, shard))

    def _check(self, shard: Shard) -> None:
        """Check the next candidate of a shard."""
        if shard.is_lost:
            return
        if not shard.begun:
            self._account.turn(shard.place, "check")
        else:
            self._receive(1, _nothing)
        one = shard.candidates[shard.begun]
        shard.begun += 1
        shard.check_began_s = self._events.now
        self._unbegun -= 1
        self._checking += 1
        self._note()
        self._events.after(one.check_s, partial(self._has_checked, shard, one))

    def _has_checked(self, shard: Shard, one: Candidate) -> None:
        if shard.is_lost:
            return
        self._checking -= 1
        if one.passes:
            shard.unsent.append(one)
            self._receive(self._is.messages - 2, _nothing)
        else:
            self._receive(self._is.messages - 1, partial(self._has_judged, one))
        if shard.unbegun:
            self._check(shard)
            return
        self._note()
        for passed in shard.unsent:
            self._receive(1, partial(self._has_judged, passed))
        overhead_s, checks_s = shard.first_s - shard.began_s, self._events.now - shard.first_s
        self._receive(1, partial(self._has_ended, shard, overhead_s, checks_s))
        shard.place.kept_until = self._events.now + self._is.idle_s
        self._release(shard.place)

    # --- losses ----------------------------------------------------------------------------------------

    def _expect_loss(self, host: Host) -> None:
        if self._is.loss_per_h > 0:
            rate = -log(1 - self._is.loss_per_h) / HOUR_S
            self._events.after(self._losses.expovariate(rate), partial(self._lose_host, host))

    def _lose_host(self, host: Host) -> None:
        host.is_up = False
        self._lost_hosts += 1
        places = [place for place in self._places if place.host is host]
        for place in places:
            if place.shard is not None:
                self._lose(place.shard)
            self._account.turn(place, "lost")
        # What it has sent before arrives before that.
        notice_s = max(self._is.notice_s, self._is.latency_s)
        self._events.after(notice_s, partial(self._miss_host, host, places))

    def _lose(self, shard: Shard) -> None:
        """Lose a shard with its host, with the check that it is in and the verdicts that are not sent."""
        shard.is_lost = True
        self._unbegun -= shard.unbegun
        is_in_check = shard.place.cause == "check"
        self._checking -= is_in_check
        self._missing += shard.unbegun + is_in_check + len(shard.unsent)
        self._account.move(sum(one.check_s for one in shard.unsent), "check", "lost")
        if is_in_check:
            self._account.move(self._events.now - shard.check_began_s, "check", "lost")
        self._note()

    def _miss_host(self, host: Host, places: Sequence[Place]) -> None:
        host.is_listed = False
        for place in places:
            if place.shard is None:
                self._free.remove(place)
            else:
                self._server.do(self._is.message_s, partial(self._has_lost, place.shard))
                place.shard = None
        if self._is.replace_s < inf:
            self._events.after(self._is.replace_s, partial(self._replace_host, host, places))

    def _replace_host(self, host: Host, places: Iterable[Place]) -> None:
        other = Host()
        self._hosts[self._hosts.index(host)] = other
        for place in places:
            place.host, place.kept_until = other, -1.0
            self._release(place)
        self._expect_loss(other)
        self._want_dispatch()


def _nothing() -> None:
    """Do nothing but take the submitting process's time."""


# --- scenarios and sweeps --------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """Runs of one scenario with several seeds: the one of the median efficiency, and means of the shares."""

    name: str
    scenario: Scenario
    middle: Outcome
    shares: dict[str, float]

    @property
    def efficiency(self) -> float:
        return self.middle.efficiency

    def document(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "scenario": asdict(self.scenario),
            "median": asdict(self.middle),
            "shares": self.shares,
        }


def row_of(name: str, scenario: Scenario, options: argparse.Namespace) -> Row:
    seeds = [f"{options.seed} {number}" for number in range(options.runs)]
    runs = sorted((ClusterModel(scenario, seed).run() for seed in seeds), key=lambda run: run.efficiency)
    shares = {name: fmean(run.shares[name] for run in runs) for name in runs[0].shares}
    return Row(name=name, scenario=scenario, middle=runs[(len(runs) - 1) // 2], shares=shares)


@dataclass(frozen=True, kw_only=True, slots=True)
class Sweep:
    """One thing that changes, from values that are good for efficiency to bad ones.

    Attributes:
        scenarios: by their names.
    """

    title: str
    scenarios: dict[str, dict[str, Any]]


def varied(name: str, values: Iterable[float], form: str = "{:g}") -> dict[str, dict[str, Any]]:
    return {form.format(value): {name: value} for value in values}


#: Candidates for each place in a sweep; with fewer, what every host does once is the first cause.
EACH = 300
HOSTS = (10, 30, 100, 200, 300, 500, 1000)
SWEEPS = {
    "candidates": Sweep(
        title="candidates",
        scenarios=varied("candidates", (100_000, 30_000, 20_000, 10_000, 5_000, 3_000, 1_000), "{:,}"),
    ),
    "hosts": Sweep(
        title=f"hosts, {EACH} candidates for each",
        scenarios={f"{n:,}": {"hosts": n, "candidates": n * EACH} for n in HOSTS},
    ),
    "hosts-fixed": Sweep(
        title=f"hosts, {100 * EACH:,} candidates in all", scenarios=varied("hosts", HOSTS, "{:,}")
    ),
    "slots": Sweep(
        title=f"slots of 100 hosts, {EACH} candidates for each",
        scenarios={f"{n}": {"slots": n, "candidates": 100 * n * EACH} for n in (1, 2, 3, 4, 8)},
    ),
    "check": Sweep(
        title="seconds of a check; `baseline_s` and `warm_s` in proportion",
        scenarios={
            f"{s:g}": {"check_s": s, "baseline_s": 2.4 * s, "warm_s": s / 5}
            for s in (60, 30, 10, 5, 2, 1, 0.5)
        },
    ),
    "bundle": Sweep(
        title="MB of the bundle", scenarios=varied("bundle_mb", (1, 10, 30, 100, 200, 300, 1000), "{:,}")
    ),
    "stragglers": Sweep(
        title="stragglers: their share, and how much longer they take",
        scenarios={
            f"{share:.1%}, {factor}x": {"straggler_share": share, "straggler_factor": float(factor)}
            for share, factor in (
                (0, 1),
                (0.005, 5),
                (0.02, 5),
                (0.01, 10),
                (0.01, 30),
                (0.01, 60),
                (0.01, 100),
            )
        },
    ),
    "spread": Sweep(
        title="spread of checks, sigma of their logarithm",
        scenarios=varied("check_sigma", (0, 0.25, 0.5, 1, 1.5, 2)),
    ),
    "prepare": Sweep(
        title="seconds of a preparation",
        scenarios=varied("prepare_s", (0.0001, 0.001, 0.01, 0.02, 0.03, 0.04, 0.06, 0.1)),
    ),
    "known": Sweep(
        title="seconds of a candidate until its constants are known",
        scenarios=varied("known_s", (0, 0.002, 0.004, 0.01, 0.02, 0.03, 0.04, 0.05)),
    ),
    "ledger": Sweep(
        title="seconds of a look through the ledger, for each candidate",
        scenarios=varied("ledger_s", (0, 0.0000008, 0.000002, 0.000004, 0.000008)),
    ),
    "message": Sweep(
        title="seconds of a message",
        scenarios=varied("message_s", (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05)),
    ),
    "start": Sweep(
        title="seconds until the engine's worker has a shard",
        scenarios=varied("start_s", (0, 1, 3, 10, 30, 60)),
    ),
    "first": Sweep(
        title="seconds of the first shard of a process", scenarios=varied("first_s", (0, 3, 10, 30, 60, 100))
    ),
    "overhead": Sweep(
        title="seconds of a later shard", scenarios=varied("overhead_s", (0, 0.05, 1, 3, 10, 20, 30, 60))
    ),
    "told": Sweep(
        title="candidates whose constants are told",
        scenarios=varied("told", (0, 500, 2_000, 10_000, 30_000), "{:,}"),
    ),
    "fresh": Sweep(
        title="seconds of fresh inputs for new constants",
        scenarios=varied("fresh_s", (0, 2.3, 5, 10, 20, 30, 60)),
    ),
    "baseline": Sweep(
        title="seconds of a host's baseline", scenarios=varied("baseline_s", (0, 10, 25, 50, 100, 200))
    ),
    "loss": Sweep(
        title="probability that a host is lost within an hour",
        scenarios=varied("loss_per_h", (0, 0.01, 0.05, 0.1, 0.3, 0.6)),
    ),
}


def default_rows(base: Scenario, options: argparse.Namespace) -> list[Row]:
    """Return rows with 1, 4 and 8 slots: with the same candidates, and with as many for each place."""
    rows = [row_of("as given", base, options)]
    for slots in (4, 8):
        rows.append(row_of(f"{slots} slots a host", replace(base, slots=slots), options))
        more = replace(base, slots=slots, candidates=base.candidates * slots)
        rows.append(row_of(f"{slots} slots a host, {slots}x candidates", more, options))
    return rows


#: One cost at a time is taken away.
WITHOUT: dict[str, dict[str, Any]] = {
    "bundle": {"bundle_mb": 0.0},
    "baseline": {"baseline_s": 0.0},
    "fresh inputs for new constants": {"fresh_s": 0.0},
    "start and overhead of shards": dict.fromkeys(("start_s", "first_s", "overhead_s", "warm_s"), 0.0),
    "preparation": {"known_s": 0.0, "prepare_s": 0.0},
    "messages, jobs, dispatch": dict.fromkeys(
        ("message_s", "submit_s", "cut_s", "dispatch_s", "ledger_s", "follow_s", "latency_s"), 0.0
    ),
    "stragglers": {"straggler_share": 0.0},
    "spread of checks, stragglers": {"straggler_share": 0.0, "check_sigma": 0.0},
    "losses": {"loss_per_h": 0.0},
}


def without_rows(base: Scenario, options: argparse.Namespace) -> list[Row]:
    return [row_of(f"without {name}", replace(base, **costs), options) for name, costs in WITHOUT.items()]


def table(title: str, rows: Sequence[Row]) -> str:
    """Return a Markdown table: shares are percent of all time of the places."""
    head = (title, "makespan, s", "efficiency", *CAUSES, "shards a place", "submitter busy")
    lines = [f"| {' | '.join(head)} |", f"| --- |{' ---: |' * (len(head) - 1)}"]
    for row in rows:
        run = row.middle
        cells = (
            *(row.name, f"{run.makespan_s:,.0f}", f"{run.efficiency:.1%}"),
            *(f"{100 * row.shares[name]:.1f}" for name in CAUSES),
            *(f"{run.shards / row.scenario.places:.1f}", f"{run.submitter:.0%}"),
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def finding(rows: Sequence[Row]) -> str:
    """Return between which rows efficiency gets too low on either side of the best one, why, and the remedy.

    The cause is the one that has grown most since the best row.
    """
    best = max(rows, key=lambda row: row.efficiency)
    if not is_enough(best):
        return f"Under {AIM:.0%} everywhere, at most {best.efficiency:.1%} ({best.name}). {cause_of(best)}"
    at, told = rows.index(best), []
    for side in (rows[at:], rows[at::-1]):
        for last, first in pairwise(side):
            if not is_enough(first):
                until = f"At least {AIM:.0%} until {last.name} ({last.efficiency:.1%}), under it from"
                told.append(f"{until} {first.name} on ({first.efficiency:.1%}). {cause_of(first, best)}")
                break
    return "\n".join(told) or f"At least {min(row.efficiency for row in rows):.1%} everywhere."


def is_enough(row: Row) -> bool:
    return round(row.efficiency, 3) >= AIM


def cause_of(row: Row, best: Row | None = None) -> str:
    """Return why a row is too low, compared with a better one, and the remedy."""
    grown = {name: row.shares[name] - (best.shares[name] if best else 0.0) for name in CAUSES}
    cause, other = sorted(CAUSES, key=lambda name: -grown[name])[:2]
    told = f"{cause} ({row.shares[cause]:.1%} of the places' time)"
    if grown[other] >= WORTH_NAMING:
        told = f"{told}, then {other} ({row.shares[other]:.1%})"
    largest = max(CAUSES, key=lambda name: row.shares[name])
    if largest not in {cause, other}:
        told = f"{told}; the largest share is still {largest} ({row.shares[largest]:.1%})"
    if cause in {"start", "first", "overhead", "fresh"} and row.middle.short > 1 / 2:
        told = f"preparation: {row.middle.short:.0%} of the shards were small for want of candidates; {told}"
        cause = "preparation"
    rough = " The submitting process is saturated: rough." if row.middle.submitter > ROUGH else ""
    return f"Cause: {told}. Next remedy: {REMEDIES[cause]}.{rough}"


def sweep(name: str, base: Scenario, options: argparse.Namespace) -> list[Row]:
    rows = [row_of(at, replace(base, **changed), options) for at, changed in SWEEPS[name].scenarios.items()]
    print(f"\n### {SWEEPS[name].title}\n\n{table(name, rows)}\n\n{finding(rows)}", flush=True)
    return rows


# --- beside a measured run -------------------------------------------------------------------------------


def compared(document: dict[str, Any], base: Scenario, options: argparse.Namespace) -> dict[str, Any]:
    """Return the seconds of the model and of a measured run, and their ratio."""
    measured_s = float(document["measured_s"])
    own = {name: value for name, value in document.items() if name not in {"measured_s", "name"}}
    scenario = scenario_of(own, base)
    runs = [ClusterModel(scenario, f"{options.seed} {number}").run() for number in range(options.runs)]
    seconds = [run.makespan_s for run in runs]
    return {
        "name": document.get("name", f"{scenario.hosts} x {scenario.slots}, {scenario.candidates}"),
        "measured_s": measured_s,
        "model_s": median(seconds),
        "least_s": min(seconds),
        "most_s": max(seconds),
        "ratio": median(seconds) / measured_s,
        "efficiency": median(run.efficiency for run in runs),
    }


def check(options: argparse.Namespace, base: Scenario) -> list[dict[str, Any]]:
    read = json.loads(options.check.read_text(encoding="utf-8"))
    found = [compared(one, base, options) for one in (read if isinstance(read, list) else [read])]
    print("| run | measured, s | model, s | of all seeds | model / measured | efficiency in the model |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for one in found:
        seeds = f"{one['least_s']:.1f} to {one['most_s']:.1f}"
        print(
            f"| {one['name']} | {one['measured_s']:.1f} | {one['model_s']:.1f} | {seeds} "
            f"| {one['ratio']:.2f} | {one['efficiency']:.1%} |"
        )
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--engine", choices=list(ENGINES), default="ray", help="costs of its jobs")
    parser.add_argument("--costs", type=Path, help="JSON file with fields of the scenario")
    parser.add_argument("--sweeps", nargs="*", choices=list(SWEEPS), help="these, or all")
    parser.add_argument("--check", type=Path, help="JSON file of measured runs")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--runs", type=int, default=3, help="with a seed each")
    parser.add_argument("--json", type=Path, help="file that all figures are written to")
    given = parser.add_argument_group("fields of the scenario")
    for one in fields(Scenario):
        kind = {"int": int, "float": float}.get(str(one.type))
        if kind is not None:
            given.add_argument(f"--{one.name.replace('_', '-')}", type=kind, help=f"default: {one.default}")
    options = parser.parse_args(arguments)
    known = dict(ENGINES[options.engine])
    known |= json.loads(options.costs.read_text(encoding="utf-8")) if options.costs else {}
    own = {one.name: getattr(options, one.name, None) for one in fields(Scenario)}
    known |= {name: value for name, value in own.items() if value is not None}
    base = scenario_of(known, Scenario())
    document: dict[str, Any] = {
        "seed": options.seed,
        "runs": options.runs,
        "engine": options.engine,
        "scenario": asdict(base),
    }
    if options.check:
        document["check"] = check(options, base)
    elif options.sweeps is not None:
        several = base if "candidates" in known else replace(base, candidates=base.places * EACH)
        document["sweeps"] = {
            name: [row.document() for row in sweep(name, several, options)]
            for name in options.sweeps or SWEEPS
        }
    else:
        rows, without = default_rows(base, options), without_rows(base, options)
        print(table(f"{base.hosts} hosts, {base.candidates:,} candidates", rows))
        print(f"\n{finding(rows[:1])}\n\n{table('one cost taken away', without)}")
        document["rows"] = [row.document() for row in (*rows, *without)]
    if options.json:
        options.json.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
