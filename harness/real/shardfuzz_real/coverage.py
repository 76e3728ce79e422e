"""Coverage of chosen modules: which lines and branches the runs of a worker reach.

On only where the worker is started with --coverage FILE. Then `install` puts a finder before
Python's own, which loads the chosen modules in rewritten form (coverage_rewrite.py): each line and
branch has a number and stores 1 at that place of a buffer, which is FILE mapped into memory. So
another process sees what was reached, also of a worker that died. `begin` is called when start-up
is over: what modules reach while they are imported counts for nothing.

Guarantees: numbers depend on the sources and the order of imports alone, so all workers of a build
have the same. Compiled files (.pyc) are neither read nor written. Refuses, with what to do: modules
that are imported already, that have no source, or with more counters than the buffer has room for.

Use:  install(buffer, modules); import torch ...; begin(); table()
"""

import importlib.machinery
import importlib.util
import os
import sys

from . import coverage_rewrite

# What stands between a case and its bytes: FSDP2, and the files of the subclasses that packs use.
MODULES = (
    "torch.distributed.fsdp._fully_shard.*",
    "torchao.prototype.moe_training.tensor",
    "torchao.float8.fsdp_utils",
)


class _Module:
    def __init__(self, name, file, import_statements):
        self.name, self.file, self.import_statements = name, file, import_statements


class _Loader(importlib.machinery.SourceFileLoader):
    """Python's own, but for the tree that is compiled; never a .pyc file."""

    def __init__(self, name, path, state):
        super().__init__(name, path)
        self._state = state

    def get_code(self, fullname):
        path = self.get_filename(fullname)
        return compile(
            self._state.rewritten(fullname, path, self.get_data(path)), path, "exec", dont_inherit=1
        )

    def exec_module(self, module):
        self._state.adopt(module.__dict__)
        super().exec_module(module)


class Coverage:
    """State and finder in one. `names`: modules, or packages as "name.*" with all below."""

    def __init__(self, hits, names):
        self._shared = hits
        self._hits = bytearray(len(hits))  # until begin()
        self._names = names
        self._namespaces = []
        self.modules = []
        self.counters = []  # (index into modules, Counter)

    # --- import ----------------------------------------------------------------------------------

    def wants(self, name):
        return any(_matches(pattern, name) for pattern in self._names)

    def find_spec(self, name, path=None, target=None):
        if not self.wants(name):
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is None:
            return None
        if type(spec.loader) is not importlib.machinery.SourceFileLoader:
            raise ImportError(
                f"coverage: {name} has no Python source ({spec.origin}): leave it out of --cover",
                name=name,
            )
        spec.loader = self.loader(name, spec.origin)
        return spec

    def loader(self, name, path):
        return _Loader(name, path, self)

    def rewritten(self, name, path, source):
        first = len(self.counters)
        result = coverage_rewrite.rewrite(source, path, first)
        if first + len(result.counters) > len(self._shared):
            raise ImportError(
                f"coverage: {name} and what came before have {first + len(result.counters)} "
                f"counters, with room for {len(self._shared)}: cover fewer modules",
                name=name,
            )
        self.modules.append(_Module(name, _file_name(name, path), result.import_statements))
        self.counters += [(len(self.modules) - 1, counter) for counter in result.counters]
        return result.tree

    def adopt(self, namespace):
        self._point(namespace, self._hits)
        self._namespaces.append(namespace)

    @staticmethod
    def _point(namespace, hits):
        namespace[coverage_rewrite.HITS] = hits
        namespace[coverage_rewrite.MARK] = hits.__setitem__

    # --- use -------------------------------------------------------------------------------------

    def begin(self):
        covered = [module.name for module in self.modules]
        for pattern in self._names:
            if not any(_matches(pattern, name) for name in covered):
                raise ImportError(
                    f"coverage: nothing named {pattern} was imported: check its spelling, or leave "
                    "it out of --cover"
                )
        self._hits = self._shared
        for namespace in self._namespaces:
            self._point(namespace, self._hits)

    def table(self):
        """{"files": [[name, statements at import]], "counters": [[file, kind, line, ...]]}."""
        return {
            "files": [[module.file, module.import_statements] for module in self.modules],
            "counters": [
                [file, c.kind, c.line, c.last_line, c.function, c.text, c.before, c.guard]
                for file, c in self.counters
            ],
        }


def _matches(pattern, name):
    if pattern.endswith(".*"):
        return name == pattern[:-2] or name.startswith(pattern[:-1])
    return name == pattern


def _file_name(name, path):
    """As it is within site-packages: no folder of this machine."""
    parts = name.split(".")
    if os.path.basename(path) == "__init__.py":
        return "/".join([*parts, "__init__.py"])
    return "/".join([*parts[:-1], os.path.basename(path)])


_current = None


def install(hits, modules=()):
    """`hits`: a writable buffer of bytes; `modules`: more than MODULES."""
    global _current
    made = Coverage(hits, (*MODULES, *modules))
    early = sorted(name for name in sys.modules if made.wants(name))
    if early:
        raise ImportError(
            f"coverage: {early[0]} is imported already, so its lines cannot be counted: ask for "
            "coverage when the worker starts (--coverage FILE), before anything imports it"
        )
    sys.meta_path.insert(0, made)
    _current = made


def loader(name, path):
    """For a file that is no module on the path; None where coverage is off."""
    return None if _current is None else _current.loader(name, path)


def is_on():
    return _current is not None


def begin():
    _current.begin()


def table():
    return _current.table()
