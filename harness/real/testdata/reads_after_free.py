"""A pack that goes wrong on purpose: backward reads the unsharded parameter's data after its reshard.

It keeps a plain alias of the gathered data, which autograd does not know of, and reads it in the
backward of the output, before FSDP2 gathers again... 
"""
