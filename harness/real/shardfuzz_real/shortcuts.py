"""What costs a tenth of a run and decides nothing: PyTorch's profiler ranges and pytree's general
walk.

Most runs go without them. A share of the cases, every second replay and every run that confirms
another take PyTorch and torchao as they are, and must give the same trace (P11). On the standard
bench case the two together are worth 15 % of a run.
"""

import sys

import torch
import torch.autograd.profiler
import torch.profiler
import torch.utils._pytree as pytree
from torch.distributed.fsdp._fully_shard import _fsdp_param_group


class _NoRange:
    """In place of torch.profiler.record_function, while nobody profiles."""

    __slots__ = ()

    def __init__(self, name, args=None):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


def _is_plain_leaf(kind):
    return kind not in pytree.SUPPORTED_NODES and not hasattr(kind, "_fields")


def _map_only(kind, function, tree):
    """pytree.tree_map_only for trees of tuples, lists and dicts; others go to the original."""
    node = type(tree)
    if node is tuple:
        return tuple([_map_only(kind, function, item) for item in tree])
    if node is list:
        return [_map_only(kind, function, item) for item in tree]
    if node is dict:
        return {key: _map_only(kind, function, item) for key, item in tree.items()}
    if isinstance(tree, kind):
        return function(tree)
    return tree if _is_plain_leaf(node) else pytree.tree_map_only(kind, function, tree)


class _QuickPytree:
    """torch.utils._pytree with the quick tree_map_only."""

    tree_map_only = staticmethod(_map_only)

    def __getattr__(self, name):
        return getattr(pytree, name)


_quick_pytree = _QuickPytree()
_WRAPPERS = "torchao.prototype.moe_training.tensor"


def _places():
    """(module, name, what stands there in a run with shortcuts)."""
    yield _fsdp_param_group, "record_function", _NoRange
    yield torch.profiler, "record_function", _NoRange
    yield torch.autograd.profiler, "record_function", _NoRange
    wrappers = sys.modules.get(_WRAPPERS)
    if getattr(wrappers, "pytree", None) is pytree:
        yield wrappers, "pytree", _quick_pytree


_saved = None  # [(module, name, what PyTorch has there, ours)]; None before the first run
_in_use = False


def use(wanted):
    """Before a run; the ranks share one interpreter, so this holds for all of them."""
    global _saved, _in_use
    if _saved is None:
        _saved = [(module, name, getattr(module, name), ours) for module, name, ours in _places()]
    if wanted == _in_use:
        return
    _in_use = wanted
    for module, name, theirs, ours in _saved:
        setattr(module, name, ours if wanted else theirs)
