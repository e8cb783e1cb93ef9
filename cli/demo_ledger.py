"""What the demo fed and what came out, word by word. Pure.

Exactly once shows in the numbers themselves: the counts of one word must be 1, 2, 3 … up to the times it was fed. A
number that comes twice was counted twice, one that is left out was lost.
"""

from collections import Counter
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Flaw:
    """A count that is not what it must be."""

    word: str
    expected: int
    found: int

    def __str__(self) -> str:
        return f"'{self.word}': {self.found} instead of {self.expected}"


@dataclass(slots=True)
class Ledger:
    """The demo's own books. Its only writer is the loop that feeds and reads."""

    fed: Counter[str] = field(default_factory=Counter[str])
    counts: Counter[str] = field(default_factory=Counter[str])
    lines: int = 0
    out_of_order: list[Flaw] = field(default_factory=list[Flaw])

    def feed(self, line: str) -> None:
        """A line went in."""
        self.lines += 1
        self.fed.update(line.lower().split())

    def see(self, word: str, count: int) -> None:
        """A committed count came out."""
        expected = self.counts[word] + 1
        if count != expected:
            self.out_of_order.append(Flaw(word, expected, count))
        self.counts[word] = max(count, self.counts[word])

    @property
    def words_fed(self) -> int:
        """How many words went in."""
        return self.fed.total()

    @property
    def words_counted(self) -> int:
        """How many of them are counted and committed."""
        return self.counts.total()

    @property
    def is_complete(self) -> bool:
        """True when no word is waited for any more."""
        return all(self.counts[word] >= times for word, times in self.fed.items())

    def flaws(self) -> list[Flaw]:
        """Everything that is wrong now: numbers doubled or left out, and words whose count is not what was fed."""
        differ = [
            Flaw(word, self.fed[word], self.counts[word])
            for word in sorted(self.fed.keys() | self.counts.keys())
            if self.fed[word] != self.counts[word]
        ]
        return [*self.out_of_order, *differ]
