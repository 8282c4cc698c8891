"""A process that asks and tells in an experiment with a window until it is killed."""

from __future__ import annotations

import random
import sys
from pathlib import Path

from bestarm import Experiment


def main(url: str, acknowledged: str, seed: str) -> None:
    rng = random.Random(seed)
    with Experiment.open(url, "shop") as experiment, Path(acknowledged).open("a") as file:
        mine: list[int] = []
        while True:
            mine += experiment.ask(4).ids
            for number in rng.sample(mine, min(6, len(mine))):
                reward = rng.choice([0.0, 0.5, 1.0])
                receipt = experiment.tell(number, reward)
                if receipt.recorded:
                    print(number, reward, receipt.late, file=file, flush=True)
            mine = mine[-20:]


if __name__ == "__main__":
    main(*sys.argv[1:])
