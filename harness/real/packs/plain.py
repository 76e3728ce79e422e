"""A plain parameter without hooks: the control."""

from shardfuzz_real.pack import Pack


class Plain(Pack):
    name = "plain"
    about = "a plain parameter without hooks (control)"
    calls = ("mul", "linear", "bmm", "grouped_mm", "grouped_mm_no_offs")


PACK = Plain()
