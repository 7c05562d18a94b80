#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""training.py [CASE...] -- what scripts do beside the plain loop, each against one process that does the same with the whole batch in ordinary PyTorch. All cases are models of one job."""
import copy
import sys
from typing import Any, Callable, Iterator, Optional

import torch
from torch import nn

import stepgate
import stepgate.torch
from expect import raised
from stepgate import Code, Verdict

LIMIT = 1e-12  # all in float64
Network = Callable[[], nn.Module]


def noise(step: int, *shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1000 + step))


def made(network: Network, seed: int = 5) -> nn.Module:
    torch.manual_seed(seed)
    return network()


def wrapped(optimizer: torch.optim.Optimizer, module: Optional[nn.Module], **options: Any) -> stepgate.torch.Optimizer:
    return stepgate.torch.Optimizer(optimizer, module, **options)


def same(what: str, ours: nn.Module, theirs: nn.Module, limit: float = LIMIT) -> None:
    for (name, a), b in zip(ours.state_dict().items(), theirs.state_dict().values()):
        worst = (a.double() - b.double()).abs().max().item()
        assert worst <= limit, f"{what}: {name} differs by {worst}"


class Both:
    """A network in the job and the same in ordinary PyTorch, with an optimizer each."""

    def __init__(self, network: Network, optimizer: Callable[[nn.Module], torch.optim.Optimizer], **options: Any) -> None:
        self.theirs, rank = made(network), stepgate.torch.job().rank
        self.ours = made(network, 5 + rank)  # worker 0's values count
        self.plain = optimizer(self.theirs)
        self.optimizer = wrapped(optimizer(self.ours), self.ours, **options)

    def sides(self) -> Iterator[tuple[nn.Module, torch.optim.Optimizer, Callable[..., Any]]]:
        yield self.theirs, self.plain, lambda *batch: batch if len(batch) > 1 else batch[0]
        yield self.ours, self.optimizer, self.optimizer.share


def small() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))


def train(both: Both, steps: range) -> None:
    for network, optimizer, share in both.sides():
        for step in steps:
            optimizer.zero_grad()
            network(share(noise(step, 12, 6))).square().mean().backward()
            optimizer.step()


def gan() -> None:
    """Two networks, two optimizers, each with its own steps; backward goes through both."""
    def side(generator: nn.Module, critic: nn.Module, g: Any, d: Any, hold: Any, share: Callable[..., Any]) -> None:
        loss = nn.BCEWithLogitsLoss()
        for step in range(6):
            d.zero_grad()
            real, z = share(noise(step, 12, 4) + 2, noise(50 + step, 12, 3))
            with hold(d):
                out = critic(real)
                loss(out, torch.ones_like(out)).backward()
            fake = generator(z)
            out = critic(fake.detach())
            loss(out, torch.zeros_like(out)).backward()
            d.step()
            g.zero_grad()
            with hold(d):  # of the critic nothing is wanted here
                out = critic(fake)
                loss(out, torch.ones_like(out)).backward()
            if g is not g_plain:
                share(z)  # the weight of the part
            g.step()

    def generator() -> nn.Module:
        return nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 4))

    def critic() -> nn.Module:
        return nn.Sequential(nn.Linear(4, 8), nn.LeakyReLU(0.2), nn.Linear(8, 1))

    theirs = made(generator), made(critic)
    ours = made(generator), made(critic)
    g_plain = torch.optim.Adam(theirs[0].parameters(), lr=0.01, betas=(0.5, 0.9))
    d_plain = torch.optim.RMSprop(theirs[1].parameters(), lr=0.01)
    g = wrapped(torch.optim.Adam(ours[0].parameters(), lr=0.01, betas=(0.5, 0.9)), ours[0], name="generator")
    d = wrapped(torch.optim.RMSprop(ours[1].parameters(), lr=0.01), ours[1], name="critic")
    side(*theirs, g_plain, d_plain, lambda _: torch.enable_grad(), lambda *batch: batch if len(batch) > 1 else batch[0])
    side(*ours, g, d, lambda optimizer: optimizer.hold(), d.share)
    same("generator", ours[0], theirs[0])
    same("critic", ours[1], theirs[1])


class Words(nn.Module):
    """An embedding whose gradients are sparse, and a layer."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.layer = nn.Embedding(40, 5, sparse=True), nn.Linear(5, 2)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        return self.layer(self.table(words).mean(1))


def words(step: int) -> torch.Tensor:
    return torch.randint(0, 20 + step, (12, 3), generator=torch.Generator().manual_seed(step))


def sparse() -> None:
    """Rows travel, not the table, with an optimizer on the ps; workers that apply it take the table for dense."""
    def moved() -> int:
        return stepgate.torch.job().stats.bytes_pushed

    for options in ({"rows_max": {"table.weight": 36}}, {"apply": "workers"}):
        both = Both(Words, lambda network: torch.optim.SGD(network.parameters(), lr=0.5), **options)
        before = moved()
        for network, optimizer, share in both.sides():
            for step in range(6):
                optimizer.zero_grad()
                network(share(words(step))).square().mean().backward()
                optimizer.step()
        same(f"sparse {options}", both.ours, both.theirs)
        dense = 6 * 40 * 5 * 8
        assert (moved() - before < dense) == ("apply" not in options), f"{options}: {moved() - before} bytes were pushed"
    table = Both(lambda: nn.Embedding(30, 4, sparse=True), lambda network: torch.optim.SparseAdam(list(network.parameters()), lr=0.1))
    for network, optimizer, share in table.sides():
        for step in range(5):
            optimizer.zero_grad()
            network(share(words(step) % 30)).square().mean().backward()
            optimizer.step()
    same("SparseAdam", table.ours, table.theirs)


class Odd(nn.Module):
    """A weight that is used twice, one that is frozen, one that only some steps use, and one that none does."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.last = nn.Linear(6, 6, bias=False), nn.Linear(6, 6), nn.Linear(6, 2)
        self.second.weight = self.first.weight
        self.frozen, self.rare, self.unused = nn.Linear(6, 6), nn.Linear(2, 2), nn.Linear(2, 2)
        self.frozen.requires_grad_(False)

    def forward(self, x: torch.Tensor, rarely: bool) -> torch.Tensor:
        out = self.last(torch.tanh(self.second(torch.tanh(self.first(self.frozen(x))))))
        return self.rare(out) if rarely else out


def odd() -> None:
    """Groups with rates and decays of their own, a scheduler, gradients that add up over two backward passes; on the ps, and by workers."""
    def groups(network: nn.Module) -> list[dict[str, Any]]:
        biases = [one for name, one in network.named_parameters() if name.endswith("bias") and one.requires_grad]
        weights = [one for name, one in network.named_parameters() if name.endswith("weight") and one.requires_grad]
        return [{"params": biases, "weight_decay": 0.0, "lr": 0.3}, {"params": weights}]

    def optimizer_of(network: nn.Module) -> torch.optim.Optimizer:
        return torch.optim.SGD(groups(network), lr=0.1, weight_decay=0.01, momentum=0.9)

    for options in ({}, {"apply": "workers"}, {"push": "step"}):
        both = Both(Odd, optimizer_of, **options)
        for network, optimizer, share in both.sides():
            scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
            for step in range(6):
                optimizer.zero_grad(set_to_none=False)
                if step == 0 and optimizer is both.plain:  # the mean over all workers is a gradient also where nobody has one
                    for parameter in network.parameters():
                        parameter.grad = torch.zeros_like(parameter) if parameter.requires_grad else None
                with optimizer.hold() if optimizer is both.optimizer else torch.enable_grad():
                    (network(share(noise(step, 12, 6)), step % 2 == 0).square().mean() / 2).backward()
                (network(share(noise(90 + step, 12, 6)), False).square().mean() / 2).backward()
                optimizer.step()
                scheduler.step()
        same(f"odd {options}", both.ours, both.theirs)
        assert torch.equal(both.ours.first.weight, both.ours.second.weight), "a weight that is shared"
    both = Both(small, lambda network: torch.optim.Adam(network.parameters(), lr=0.01))
    for network, optimizer, share in both.sides():
        scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=8)
        for step in range(7):
            optimizer.zero_grad()
            network(share(noise(step, 12, 6))).square().mean().backward()
            optimizer.step()
            scheduler.step()
    same("a rate and betas that change in each step", both.ours, both.theirs)
    both.optimizer.param_groups[0]["maximize"] = True
    assert raised(stepgate.Error, both.optimizer.step).code == Code.ENOTSUP


def normed() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, 2))


def statistics() -> None:
    """A batch normalisation's: the mean of all workers', worker 0's, or each worker's own; here against copies of the network, one for each worker."""
    job = stepgate.torch.job()
    for buffers in ("mean", "rank0", "own"):
        network = made(normed)
        copies = [made(normed) for _ in range(job.size)]
        optimizer = wrapped(torch.optim.SGD(network.parameters(), lr=0.1), network, buffers=buffers)
        for step in range(4):
            batch = noise(step, 12, 6)
            for rank, one in enumerate(copies):
                one.zero_grad()
                one(batch[12 * rank // job.size:12 * (rank + 1) // job.size]).square().mean().backward()
            with torch.no_grad():
                for parameters in zip(*[one.parameters() for one in copies]):
                    mean = sum(one.grad for one in parameters) / job.size
                    for one in parameters:
                        one -= 0.1 * mean
                for tensors in zip(*[one.buffers() for one in copies]):
                    if buffers != "own" and tensors[0].dtype == torch.float64:
                        chosen = sum(tensors) / job.size if buffers == "mean" else tensors[0].clone()
                        for one in tensors:
                            one.copy_(chosen)
            optimizer.zero_grad()
            network(optimizer.share(batch)).square().mean().backward()
            optimizer.step()
            network.eval()
            with torch.no_grad():  # evaluation between steps changes nothing
                network(batch)
            network.train()
            same(f"buffers {buffers}", network, copies[job.rank])


def mixed() -> None:
    """A scaled loss, as for mixed precision: who meets an infinity makes everybody skip the step, and the scale is the same everywhere."""
    both = Both(small, lambda network: torch.optim.Adam(network.parameters(), lr=0.01), non_finite="skip")
    scaler = stepgate.torch.GradScaler(both.optimizer, init_scale=1024.0, growth_interval=3)
    scales = []
    for step in range(7):
        batch = noise(step, 12, 6)
        if step != 3:
            both.plain.zero_grad()
            both.theirs(batch).square().mean().backward()
            both.plain.step()
        both.optimizer.zero_grad()
        loss = both.ours(both.optimizer.share(batch)).square().mean()
        if step == 3 and both.optimizer.rank == 1:
            loss = loss * float("inf")
        scaler.scale(loss).backward()
        mean = scaler.step(both.optimizer, mean=loss.detach())
        scaler.update()
        scales.append(scaler.get_scale())
        assert (both.optimizer.info.verdict == Verdict.SKIPPED) == (step == 3) == bool(mean.isnan()), (step, both.optimizer.info.verdict)
    assert scales == [1024, 1024, 2048, 1024, 1024, 1024, 2048], scales
    same("a scaled loss", both.ours, both.theirs)
    kept = scaler.state_dict()
    scaler.load_state_dict({**kept, "scale": 8.0})
    assert scaler.get_scale() == 8
    raised(ValueError, lambda: stepgate.torch.GradScaler(Both(small, lambda network: torch.optim.SGD(network.parameters(), lr=0.1)).optimizer))

    network = made(small).float()  # computed in bfloat16, kept in float32
    optimizer, losses = wrapped(torch.optim.SGD(network.parameters(), lr=0.2), network, non_finite="skip"), []
    scaler = stepgate.torch.GradScaler(optimizer)
    for _ in range(20):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = network(optimizer.share(noise(1, 12, 6).float())).float().square().mean()
        scaler.scale(loss).backward()
        losses.append(scaler.step(optimizer, mean=loss.detach()).item())
        scaler.update()
    assert losses[-1] < 0.2 * losses[0], losses


def kept() -> None:
    """state_dict: what the ps have goes on in ordinary PyTorch; what workers have comes back."""
    for make in (lambda network: torch.optim.AdamW(network.parameters(), lr=0.02), lambda network: torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9),
                 lambda network: torch.optim.RMSprop(network.parameters(), lr=0.01, momentum=0.5)):
        both = Both(small, make)
        train(both, range(4))
        network, optimizer = made(small, 1), None
        network.load_state_dict(both.ours.state_dict())
        optimizer = make(network)
        optimizer.load_state_dict(both.optimizer.state_dict())
        for step in range(4, 8):
            optimizer.zero_grad()
            network(noise(step, 12, 6)).square().mean().backward()
            optimizer.step()
        train(both, range(4, 8))
        same("ps' state", network, both.theirs)
        assert raised(stepgate.Error, lambda: both.optimizer.load_state_dict(both.optimizer.state_dict())).code == Code.ENOTSUP
        assert raised(stepgate.Error, lambda: both.ours.load_state_dict(both.theirs.state_dict())).code == Code.ENOTSUP
        groups = both.plain.state_dict()["param_groups"]
        both.optimizer.load_state_dict({"state": {}, "param_groups": [{**groups[0], "lr": 0.123}]})
        both.optimizer.step()
        assert both.optimizer.param_groups[0]["lr"] == 0.123
    both = Both(small, lambda network: torch.optim.Adamax(network.parameters(), lr=0.02))  # the ps do not know it
    train(both, range(3))
    saved = copy.deepcopy((both.ours.state_dict(), both.optimizer.state_dict()))
    train(both, range(3, 6))
    network = made(small, 77)
    network.load_state_dict(saved[0])
    optimizer = torch.optim.Adamax(network.parameters(), lr=1)
    optimizer.load_state_dict(saved[1])
    again = wrapped(optimizer, network)
    for step in range(3, 6):
        again.zero_grad()
        network(again.share(noise(step, 12, 6))).square().mean().backward()
        again.step()
    same("workers' state", network, both.theirs)
    raised(stepgate.Error, lambda: wrapped(optimizer, network, apply="ps", name="never"))


def loaded() -> None:
    """Batches from processes that are forked while the job is there."""
    both = Both(small, lambda network: torch.optim.SGD(network.parameters(), lr=0.1))
    data = torch.utils.data.TensorDataset(noise(3, 48, 6))
    for network, optimizer, _ in both.sides():
        shares = both.optimizer.shares if optimizer is both.optimizer else iter
        for _ in range(2):
            for batch in shares(torch.utils.data.DataLoader(data, 12, num_workers=2)):
                optimizer.zero_grad()
                network(batch[0] if isinstance(batch, (list, tuple)) else batch).square().mean().backward()
                optimizer.step()
    same("DataLoader", both.ours, both.theirs)


def refused() -> None:
    """What would make wrong numbers is an exception that says what to do."""
    both = Both(small, lambda network: torch.optim.SGD(network.parameters(), lr=0.1))
    network, optimizer = both.ours, both.optimizer
    before = copy.deepcopy(network)

    def backward() -> None:
        network(optimizer.share(noise(1, 12, 6))).square().mean().backward()

    backward()
    assert "hold()" in raised(stepgate.Error, backward).remedy
    assert "hold()" in raised(stepgate.Error, optimizer.zero_grad).remedy
    optimizer.abandon()
    optimizer.zero_grad()
    backward()
    nn.utils.clip_grad_norm_(network.parameters(), 0.1)
    assert 'push="step"' in raised(stepgate.Error, optimizer.step).remedy
    raised(stepgate.Error, lambda: optimizer.add_param_group({"params": [nn.Parameter(torch.zeros(1))]}))
    raised(stepgate.Error, lambda: copy.deepcopy(optimizer))
    same("after steps that were refused", network, before, 0.0)
    assert raised(stepgate.Error, lambda: wrapped(torch.optim.Adamax(network.parameters()), network, apply="ps", name="never")).code == Code.ENOTSUP
    assert raised(stepgate.Error, lambda: wrapped(torch.optim.Adamax(network.parameters()), network, update="async", name="never")).code == Code.ENOTSUP

    clipped = Both(small, lambda module: torch.optim.SGD(module.parameters(), lr=0.1), push="step")
    for module, one, share in clipped.sides():
        for step in range(3):
            module.zero_grad(set_to_none=True)  # gradients that are not in their slots find their way
            module(share(noise(step, 12, 6))).square().mean().backward()
            for parameter in module.parameters():
                parameter.grad.mul_(0.5)
            one.step()
    same("gradients that are changed before step()", clipped.ours, clipped.theirs)


def early() -> None:
    """Backward pushes the last layer's gradients before it computes the first one's; with push="step" it pushes none."""
    for push, expected in (("backward", [2, 4]), ("step", [0, 0])):
        both, seen = Both(small, lambda network: torch.optim.SGD(network.parameters(), lr=0.1), push=push), []
        before = both.optimizer.job.stats.pushes
        both.ours[0].weight.register_hook(lambda _: seen.append(both.optimizer.job.stats.pushes - before))
        both.ours(noise(1, 12, 6)).square().mean().backward()
        seen.append(both.optimizer.job.stats.pushes - before)
        assert seen[0] >= expected[0] and seen[0] <= 3 * (push == "backward") and seen[1] == expected[1], (push, seen)
        both.optimizer.step()


def modes() -> None:
    """Where workers do not wait for each other a script is the same, and learns."""
    for keys in ({"replicas_to_aggregate": 1}, {"update": "tf", "replicas_to_aggregate": 1}, {"update": "async"}, {"update": "bounded", "bound": 3},
                 {"replicas_to_aggregate": 2 * stepgate.torch.job().size}):
        network = made(normed)
        optimizer = wrapped(torch.optim.SGD(network.parameters(), lr=0.05), network, **keys)
        batch = noise(1, 12, 6)
        first = made(normed)(batch).square().mean().item()  # others may have begun already
        for _ in range(40):
            optimizer.zero_grad()
            network(optimizer.share(batch)).square().mean().backward()
            optimizer.step()
        last = network(batch).square().mean().item()
        assert last < 0.7 * first, (keys, first, last)


def left() -> None:
    """The network and its values outlive the job."""
    both = Both(small, lambda network: torch.optim.SGD(network.parameters(), lr=0.1))
    train(both, range(3))
    stepgate.torch.job().barrier()
    stepgate.torch.job().close()
    same("after the job", both.ours, both.theirs)
    raised(stepgate.ArgumentError, both.optimizer.step)
    both.ours.load_state_dict(both.theirs.state_dict())
    both.ours(noise(1, 12, 6)).square().mean().backward()


CASES = {case.__name__: case for case in (gan, sparse, odd, statistics, mixed, kept, loaded, early, refused, modes, left)}


def main() -> None:
    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(1)
    for name in sys.argv[1:] or CASES:
        CASES[name]()
        print(f"{name} well", flush=True)


main()
