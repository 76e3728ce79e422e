"""The rank program: runs one case on real FSDP2, one thread a rank, inside shardfuzz_worker.

Read in this order: run.py (what a rank does), model.py (the module made from a case), observe.py
(what is recorded and where), reference.py (the plain module on one device), world.py (process
groups), pack.py (what a pack is), shortcuts.py (what most runs leave out). Native helpers come from
the module `_shardfuzz`, built into the worker.
"""
