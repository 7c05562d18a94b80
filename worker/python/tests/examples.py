#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""examples.py run SCRIPT FOLDER NAME [APPLY...]   runs an example with each optimizer, one after the other in this process; leaves FOLDER/NAME-APPLY-OPTIMIZER.json
examples.py compare FOLDER LEAST                  each of them has the losses of the single process, and there are as many as that"""
import glob
import json
import os
import runpy
import sys

OPTIMIZERS = ("sgd", "momentum", "adam", "adamw", "rmsprop")
LIMIT = 1e-6
FEW = ["--images", "470", "--batch", "48", "--epochs", "1", "--seed", "3"]  # ten steps; the last one is shared unevenly


def run(script: str, folder: str, name: str, *applies: str) -> None:
    for apply in applies or ("",):
        for optimizer in OPTIMIZERS:
            result = os.path.join(folder, f"{name}-{apply}-{optimizer}.json")
            sys.argv = [script, *FEW, "--optimizer", optimizer, "--json", result, *(["--apply", apply] if apply else [])]
            runpy.run_path(script, run_name="__main__")


def losses(path: str) -> list[float]:
    with open(path, encoding="ascii") as file:
        found = json.load(file)["losses"]
    assert len(found) == 10 and min(found) < found[0], (path, found)
    return found


def compare(folder: str, least: str) -> None:
    compared, seen = 0, set()
    for optimizer in OPTIMIZERS:
        alone = losses(os.path.join(folder, f"single--{optimizer}.json"))
        assert tuple(alone) not in seen, f"{optimizer} is like another one"
        seen.add(tuple(alone))
        for path in glob.glob(os.path.join(folder, f"job-*-{optimizer}.json")):
            worst = max(abs(a - b) for a, b in zip(alone, losses(path)))
            print(f"{os.path.basename(path)[:-5]}: {worst:.1e}")
            assert worst < LIMIT, f"{path}: {worst}"
            compared += 1
    assert compared == int(least), compared


{"run": run, "compare": compare}[sys.argv[1]](*sys.argv[2:])
