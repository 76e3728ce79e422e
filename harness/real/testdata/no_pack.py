"""A pack file that forgets to define PACK (for tests)."""

from shardfuzz_real.pack import Pack


class Forgotten(Pack):
    name = "forgotten"
