"""A pack file that cannot be loaded (for tests)."""

raise RuntimeError("this pack is broken on purpose")
