"""Words of the market that a newcomer meets first, each in one sentence. This is the only list of them: the "?" beside
a word shows its sentence, the glossary's page shows all, and `docs/glossary.md` begins with the same table."""

from __future__ import annotations

from collections.abc import Mapping

WORDS: Mapping[str, str] = {
    "slot": "A slot is the unit of time of a pool: what is bought and sold is one unit for one slot.",
    "unit": "A unit is one worker or one parameter server, or one of whatever else a server has a number of.",
    "cell": "A cell is units on a named server that belong to you: your own jobs run there first, and free.",
    "interval": "An interval is one decision about all waiting jobs; it deals out some slots, and then the next one "
    "follows.",
    "floor": "The floor is what a job would have got if its owner were alone with its own cells; the market may only "
    "improve on it.",
    "projected": "A projected start at home is the one of now: where a tenant has its plans renewed, each interval "
    "plans it anew until the job runs.",
    "price": "The price of a unit rises with how much of what is for sale is sold; it is posted before a job meets it.",
    "rented": "Rented units belong to somebody else, and the job that runs on them pays their owners slot by slot.",
    "unsold": "Unsold units stand idle in a slot: nobody's job runs on them, whether they were for sale or not.",
    "held": "Held credits are set aside for what a job was awarded, until each slot is paid for or refunded.",
    "own part": "The own part of a payment is what its payer would get back as one of the owners of what is for sale.",
    "instant lane": "The instant lane answers a job at once and sells what is left, at a price; it gives no floor.",
    "reward": "The reward is what an owner earned from others for what it offered, per whole cluster and slot.",
}
