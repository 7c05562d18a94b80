# SPDX-License-Identifier: BSD-3-Clause
"""stepgate.kvstore: keys and values, pushed and pulled as users of MXNet know it. docs/kvstore.md has the rules.

    with stepgate.kvstore.create("dist_sync") as kv:
        kv.set_optimizer("sgd", learning_rate=0.1, rescale_grad=1 / kv.num_workers)
        kv.init("w", w)                  # worker 0's value counts
        for batch in batches:
            kv.pull("w", out=w)
            kv.push("w", gradient(w, batch))
"""
from stepgate.kvstore.entry import Key
from stepgate.kvstore.rows import RowSparse
from stepgate.kvstore.store import KVStore, create

__all__ = ["Key", "KVStore", "RowSparse", "create"]
