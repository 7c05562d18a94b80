#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""torch_optimizers.py PROGRAM -- formula=torch gives PyTorch's numbers.

PROGRAM (optimizer-steps) prints a training. Each of its steps is done again by torch.optim, from the same state with the same gradient;
both results may differ by 4 units in the last place of the larger of what was there and what was added."""
import os
import subprocess
import sys

os.environ["ATEN_CPU_CAPABILITY"] = "default"  # the same operations on every processor, none of them fused
try:
    import torch
except ImportError:
    sys.exit("PyTorch is needed: apt-get install python3-torch")

ULPS = 4
STEPS = 100
# Of a slot of stepgate: what torch.optim calls it.
SGD = {"momentum": "momentum_buffer"}
ADAGRAD = {"accumulator": "sum"}
RMSPROP = {"mean_square": "square_avg", "momentum": "momentum_buffer"}
ADAM = {"first_moment": "exp_avg", "second_moment": "exp_avg_sq"}
# The keys of the model; the optimizer of torch.optim, its options and its slots; the l2 decay that it does not do itself.
CASES = [
    ("optimizer=sgd learning_rate=0.1", torch.optim.SGD, {"lr": 0.1}, {}, 0),
    ("optimizer=sgd learning_rate=0.1 l2_decay=0.001", torch.optim.SGD, {"lr": 0.1, "weight_decay": 0.001}, {}, 0),
    ("optimizer=momentum learning_rate=0.05 momentum=0.9", torch.optim.SGD, {"lr": 0.05, "momentum": 0.9}, SGD, 0),
    ("optimizer=momentum learning_rate=0.05 l2_decay=0.001", torch.optim.SGD,
     {"lr": 0.05, "momentum": 0.9, "weight_decay": 0.001}, SGD, 0),
    ("optimizer=nesterov learning_rate=0.05 momentum=0.8", torch.optim.SGD,
     {"lr": 0.05, "momentum": 0.8, "nesterov": True}, SGD, 0),
    ("optimizer=adagrad", torch.optim.Adagrad, {}, ADAGRAD, 0),
    ("optimizer=adagrad learning_rate=0.3 initial_accumulator=0.2 epsilon=1e-3 l2_decay=0.001", torch.optim.Adagrad,
     {"lr": 0.3, "initial_accumulator_value": 0.2, "eps": 1e-3, "weight_decay": 0.001}, ADAGRAD, 0),
    ("optimizer=rmsprop", torch.optim.RMSprop, {}, RMSPROP, 0),
    ("optimizer=rmsprop learning_rate=0.02 rho=0.9 momentum=0.9 epsilon=1e-4", torch.optim.RMSprop,
     {"lr": 0.02, "alpha": 0.9, "momentum": 0.9, "eps": 1e-4}, RMSPROP, 0),
    ("optimizer=rmsprop l2_decay=0.001", torch.optim.RMSprop, {"weight_decay": 0.001}, RMSPROP, 0),
    ("optimizer=adam", torch.optim.Adam, {"lr": 0.01}, ADAM, 0),
    ("optimizer=adam learning_rate=0.002 beta1=0.8 beta2=0.99 epsilon=1e-3 l2_decay=0.001", torch.optim.Adam,
     {"lr": 0.002, "betas": (0.8, 0.99), "eps": 1e-3, "weight_decay": 0.001}, ADAM, 0),
    ("optimizer=adamw weight_decay=0", torch.optim.AdamW, {"lr": 0.01, "weight_decay": 0}, ADAM, 0),
    ("optimizer=adamw", torch.optim.AdamW, {"lr": 0.01}, ADAM, 0),
    ("optimizer=adamw learning_rate=0.003 weight_decay=0.1 l2_decay=0.001", torch.optim.AdamW,
     {"lr": 0.003, "weight_decay": 0.1}, ADAM, 0.001),
]


def training(program, keys):
    """What the program prints: from the name and number of each line to a tensor."""
    lines = subprocess.run([program, "formula=torch"] + keys.split(), check=True, stdout=subprocess.PIPE, text=True).stdout
    states = {}
    for line in lines.splitlines():
        name, number, *values = line.split()
        states[name, int(number)] = torch.tensor([float.fromhex(value) for value in values], dtype=torch.float64).float()
    return states


def distance(old, ours, theirs):
    """The largest difference, in units in the last place of the larger of what was there and what was added."""
    old, ours, theirs = old.double(), ours.double(), theirs.double()
    _, exponent = torch.frexp(torch.maximum(old.abs(), (theirs - old).abs()).clamp(min=2.0 ** -126))
    difference = ((ours - theirs).abs() / torch.pow(2.0, exponent.double() - 24)).max().item()
    return difference if difference == difference else float("inf")


def compare(program, keys, kind, options, slots, l2):
    """The largest difference over all steps; slots that torch does not keep (a momentum of 0) must stay as they were."""
    states = training(program, keys)
    var = torch.nn.Parameter(states["var", 0].clone())
    optimizer = kind([var], **options)
    worst = 0
    for step in range(STEPS):
        kept = optimizer.state[var]
        with torch.no_grad():
            var.copy_(states["var", step])
            for ours, theirs in slots.items():
                if kept.get(theirs) is not None:
                    kept[theirs].copy_(states[ours, step])
        gradient = states["gradient", step]
        var.grad = gradient + l2 * states["var", step] if l2 else gradient.clone()
        optimizer.step()
        worst = max(worst, distance(states["var", step], states["var", step + 1], var.detach()))
        for ours, theirs in slots.items():
            result = optimizer.state[var].get(theirs)
            result = states[ours, step] if result is None else result
            worst = max(worst, distance(states[ours, step], states[ours, step + 1], result))
    return worst


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    torch.set_num_threads(1)
    bad = 0
    for keys, kind, options, slots, l2 in CASES:
        worst = compare(sys.argv[1], keys, kind, options, slots, l2)
        bad += worst > ULPS
        print(f"{'ok    ' if worst <= ULPS else 'FAILED'} {worst:6.2f} ulp  {kind.__name__:8} {keys}")
    return 1 if bad else 0


sys.exit(main())
