"""Words that the small tasks are made of, and drawing from them."""

from random import Random
from typing import Final

NAMES: Final = tuple(
    "anna bela carl dora emil fred gina hugo ines jonas klara leon mina nils olga paul rosa sven tina udo vera willi "
    "xenia yuri zoe".split()
)
THINGS: Final = tuple(
    "apple bread candle drum engine flute glove hammer iron jar kettle lamp mirror needle oven pencil quilt ribbon "
    "shovel table umbrella vase wheel yarn zipper basket carpet dagger ladder magnet".split()
)
CITIES: Final = tuple(
    "athens berlin cairo dublin essen florence geneva hanoi istanbul jena kyoto lima madrid nairobi oslo prague quito "
    "rome sofia tunis utrecht vienna warsaw xian york zagreb".split()
)
FOLDERS: Final = tuple("notes drafts reports photos music plans letters recipes scripts archive inbox maps".split())
HOSTS: Final = tuple(
    f"{kind}-{number:02d}" for kind in ("web", "db", "mail", "cache", "auth") for number in range(1, 9)
)
FAULTS: Final = ("disk full", "connection refused", "timeout after 30 s", "permission denied", "checksum mismatch")
FINE: Final = ("request served", "backup done", "user logged in", "cache warmed", "health check ok", "file stored")


def clock(rng: Random, num: int) -> list[str]:
    """Times of day in rising order, no two equal."""
    seconds = sorted(rng.sample(range(86_400), num))
    return [f"{at // 3600:02d}:{at // 60 % 60:02d}:{at % 60:02d}" for at in seconds]


def lines(*texts: str) -> str:
    """A text of these lines."""
    return "".join(f"{text}\n" for text in texts)
