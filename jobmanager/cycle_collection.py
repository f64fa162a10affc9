"""How often Python looks for objects that only refer to each other, in the server.

Almost everything the server makes is freed at once, when its last reference goes. Python's cyclic
garbage collector looks for the rest: by default each time that 700 more objects were made than
freed. A batch of requests makes tens of thousands of objects that are all needed until its commit,
so the collector walks through them again and again and finds nothing.
"""

import gc

_YOUNG = 20_000
"""So many objects before Python looks through them, which takes about 10 ms. An object has
about 200 bytes: about 4 MB of garbage can wait for the next look.
"""
_MIDDLE, _OLD = 10, 10
"""As Python has them: each tenth time it also looks through the survivors of the last ten times."""


def collect_rarely() -> None:
    """To be called once, when the server has started. The objects that exist by then (modules,
    routes, tables) live as long as the process, so the collector need not visit them any more:
    a visit of all of them would stop every request for a tenth of a second.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG, _MIDDLE, _OLD)
