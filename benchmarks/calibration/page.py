"""The figures of a calibration as Markdown. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from calibration.campaigns import Campaign
from calibration.exact import Rate, agree

#: What the page of a calibration is written behind.
MARK = "<!-- From here on written by benchmarks/race_calibration.py. -->"

Row = Sequence[str]


def table(header: Row, rows: Iterable[Row]) -> str:
    """Return a Markdown table, its first column to the left."""
    rule = ["---", *(["---:"] * (len(header) - 1))]
    return "\n".join("| " + " | ".join(row) + " |" for row in (header, rule, *rows))


def with_figures(page: str, figures: str) -> str:
    """Return a page with everything behind its mark replaced."""
    before, mark, _ = page.partition(MARK)
    if not mark:
        raise ValueError(f"the page has no line {MARK!r}")
    return f"{before}{mark}\n\n{figures.rstrip()}\n"


@dataclass(frozen=True, kw_only=True, slots=True)
class Column:
    """A rate over campaigns: what is counted, among which of them."""

    title: str
    hit: Callable[[Campaign], bool]
    among: Callable[[Campaign], bool] = lambda _: True

    def rate(self, campaigns: Iterable[Campaign]) -> Rate:
        """Return how often it happened."""
        return Rate.of(self.hit(found) for found in campaigns if self.among(found))


FALSE = Column(title="false winners", hit=lambda c: c.is_false)
FOUND = Column(title="fastest found", hit=lambda c: c.is_found, among=lambda c: max(c.gains) > 1)
CLOSE = Column(
    title="winner within 2 % of the fastest",
    hit=lambda c: c.is_close,
    among=lambda c: bool(c.named) and max(c.gains) > 1,
)
NOISY = Column(title="too noisy", hit=lambda c: c.verdict == "too_noisy")
COLUMNS = (FALSE, FOUND, CLOSE, NOISY)


def coverage(campaigns: Iterable[Campaign]) -> Rate:
    """Return how often the bounds of a confirmed candidate held its true speedup."""
    return Rate.of(claim.is_covered for found in campaigns for claim in found.claims)


@dataclass(frozen=True, kw_only=True, slots=True)
class Aim:
    """A bar that the race is to reach, and what was measured."""

    text: str
    rate: Rate
    bar: float
    at_least: bool = True

    @property
    def row(self) -> Row:
        """Its line in the table; the rate itself is held against the bar, not its bounds."""
        share = self.rate.hits / self.rate.tries
        reached = share >= self.bar if self.at_least else share <= self.bar
        sign = "≥" if self.at_least else "≤"
        return [self.text, f"{sign} {100 * self.bar:g} %", str(self.rate), "reached" if reached else "missed"]


def aims_of(cases: Mapping[str, Sequence[Campaign]]) -> list[Aim]:
    """Return the aims for drawn campaigns of one background load; those without a try are left out."""
    whole = [found for campaigns in cases.values() for found in campaigns]
    null, alone, among = (cases.get(name, []) for name in ("8 identical", "1.05 alone", "1.03 among 8"))
    aims = [
        Aim(text="a false winner among 8 identical", rate=FALSE.rate(null), bar=0.01, at_least=False),
        Aim(text="1.05 alone is found", rate=FOUND.rate(alone), bar=0.95),
        Aim(text="1.03 among 8 is found", rate=FOUND.rate(among), bar=0.95),
        Aim(text="the winner is within 2 % of the fastest", rate=CLOSE.rate(whole), bar=0.99),
        Aim(text="bounds hold the truth", rate=coverage(whole), bar=0.95),
        Aim(text="too noisy", rate=NOISY.rate(whole), bar=0.10, at_least=False),
    ]
    return [aim for aim in aims if aim.rate.tries]


def counted(number: int, noun: str) -> str:
    """Return a number with its noun."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def campaigns_table(cases: Mapping[str, Sequence[Campaign]], first: str) -> str:
    """Return one line for each kind of campaign."""
    titles = [column.title for column in COLUMNS]
    header = [first, *titles, "bounds hold the truth", "rounds", "seconds: median", "90 % below"]
    return table(header, [[name, *_cells(found)] for name, found in cases.items() if found])


def _cells(campaigns: Sequence[Campaign]) -> list[str]:
    seconds = sorted(found.wall_s for found in campaigns)
    return [
        *(str(column.rate(campaigns)) for column in COLUMNS),
        str(coverage(campaigns)),
        f"{median(found.rounds for found in campaigns):.0f}",
        f"{median(seconds):.1f}",
        f"{seconds[int(0.9 * (len(seconds) - 1))]:.1f}",
    ]


def contradictions(
    drawn: Mapping[str, Sequence[Campaign]], live: Mapping[str, Sequence[Campaign]]
) -> list[str]:
    """Return which rates of live campaigns and of drawn ones exclude each other, one sentence each."""
    found = []
    for name in drawn.keys() & live.keys():
        for column in (FALSE, FOUND):
            one, other = column.rate(drawn[name]), column.rate(live[name])
            if not agree(one, other):
                found.append(f"{name}, {column.title}: drawn {one}, live {other}.")
    return sorted(found)
