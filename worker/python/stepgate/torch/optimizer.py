# SPDX-License-Identifier: BSD-3-Clause
"""Optimizer: makes a training script one worker of several."""
from __future__ import annotations

import contextlib
from typing import Any, Callable, Iterable, Iterator, Optional, Union

import torch

from stepgate.error import Rewound, error
from stepgate.job import Job
from stepgate.library import library
from stepgate.options import Value
from stepgate.structure import Code, Kind, StepInfo, Verdict
from stepgate.torch import membership
from stepgate.torch.binding import Buffer, Dense, Number, Sparse
from stepgate.torch.recipe import ANOTHER_WAY, Recipe
from stepgate.torch.tensor import TYPES, need_host
from stepgate.variable import Variable
from stepgate.wait import wait

Binding = Union[Dense, Sparse]
_SPARSE = (torch.nn.Embedding, torch.nn.EmbeddingBag)
LATER = "it was pushed when backward had it: put backward passes that are not the last before step() into `with optimizer.hold():`"


def _after_backward(parameter: torch.nn.Parameter, function: Callable[[], None]) -> object:
    """Calls it whenever a backward pass has added to parameter.grad; for as long as the result lives."""
    if hasattr(parameter, "register_post_accumulate_grad_hook"):
        return parameter.register_post_accumulate_grad_hook(lambda _: function())
    node = parameter.expand_as(parameter).grad_fn.next_functions[0][0]
    return node, node.register_hook(lambda *_: function())


def _allow(*_: object) -> None:
    """What a guard is in a copy of the network."""


def _allowed() -> Callable[..., None]:
    return _allow


class _Guard:
    """Refuses to load into parameters that are the ps's memory, as long as they are. A copy of the network, also one in a file, has parameters of its own."""

    def __init__(self, job: Job) -> None:
        self._job = job

    def __call__(self, *_: object) -> None:
        if not self._job.closed:
            raise error(Code.ENOTSUP, "the parameters are the ps's, and cannot be loaded into", "load before the optimizer is wrapped; or " + ANOTHER_WAY)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[()]]:
        return _allowed, ()


class Optimizer(torch.optim.Optimizer):
    """Wraps an optimizer of torch.optim, and is one: a script that calls zero_grad, backward and step trains with all workers of the job.

        optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
        optimizer = stepgate.torch.Optimizer(optimizer, network)

    Parameters and buffers of the module become those of worker 0. Backward pushes each gradient as soon as it is there; step() declares what has none absent, finishes the
    contribution, waits until the step is taken, and pulls its parameters.

    module     the network: names, buffers and what is not trained; without it there are the optimizer's parameters alone
    job        default: joined by what the environment says; one for all optimizers of a process
    name       of the model, the same on every worker; default: the module's class
    apply      "ps": the ps apply the optimizer (SGD, Adam, AdamW, RMSprop, Adagrad, SparseAdam); "workers": each worker does, with the mean of the gradients, any optimizer.
               Default: the ps if they can
    push       "backward", or "step": step() pushes, so that gradients may be changed before it
    buffers    "mean", "rank0", or "own": what becomes of float buffers that workers change, such as a batch normalisation's
    rows_max   of embeddings with sparse=True, by name: most rows of a push; default: all
    on_rewind  function of a step, called where the job went back to a checkpoint; without it step() raises Rewound
    timeout    of each wait, in seconds; default: the job's knobs
    keys       of the model, e.g. update="tf", replicas_to_aggregate=3, non_finite="skip", clip_global_norm=1.0 (include/stepgate/model.h)
    """

    def __init__(self, optimizer: torch.optim.Optimizer, module: Optional[torch.nn.Module] = None, *, job: Optional[Job] = None,
                 name: Optional[str] = None, apply: Optional[str] = None, push: str = "backward", buffers: str = "mean",
                 rows_max: Optional[dict[str, int]] = None, on_rewind: Optional[Callable[[int], None]] = None,
                 timeout: Optional[float] = None, **keys: Value) -> None:
        if apply not in (None, "ps", "workers") or push not in ("backward", "step") or buffers not in ("mean", "rank0", "own"):
            raise ValueError("apply is ps or workers, push is backward or step, buffers are mean, rank0 or own")
        refusal = Recipe.refusal(optimizer)
        if apply == "ps" and refusal is not None:
            raise error(Code.ENOTSUP, refusal, ANOTHER_WAY)
        self.inner, self.module = optimizer, module
        self.job = job if job is not None else membership.job()
        self.rank, self.size = self.job.rank, self.job.size
        self._on_ps = apply != "workers" and refusal is None
        self._recipe = Recipe(optimizer) if self._on_ps else None
        self._lockstep = keys.get("update", "strict") == "strict" and int(keys.get("replicas_to_aggregate", 0) or 0) in (0, self.size)
        if not self._on_ps and not self._lockstep:
            raise error(Code.ENOTSUP, 'apply="workers" needs every gradient of every step: update strict, with as many replicas as workers',
                        refusal or 'apply="ps"')
        self._timeout, self._on_rewind, self._early = timeout, on_rewind, push == "backward"
        self._keys, self._told = keys, None
        self._hooks: list[object] = []
        self._held, self._rewound, self._skipped = 0, False, 0
        self._weight: Optional[float] = None
        self._unscale = 1.0
        self.model = self.job.model(self._free_name(name), **self._declared(keys))
        self._bindings, self._buffers = self._declare(buffers, rows_max or {})
        self._mean = Number(self.model.variable("stepgate.mean", (), "float64", Kind.ASSIGNED))
        self._count = None if self._on_ps else Number(self.model.variable("stepgate.step", (), "float64", Kind.ASSIGNED, initial=-1))
        self.committed = self.model.commit(timeout)
        if self.committed.restored and not self._on_ps:
            raise error(Code.ENOTSUP, "a checkpoint has no parameters of a job whose workers apply the optimizer",
                        "begin anew (--no-resume), and restore state_dict() of network and optimizer before they are wrapped")
        if self.committed.restored:
            self._told = {}  # the ps go on with the rates of the checkpoint: they are told this script's
        self.info = self._next()
        self._start()

    def _free_name(self, name: Optional[str]) -> str:
        if name is not None:
            return name
        wanted, taken = type(self.module).__name__ if self.module is not None else "model", {one.name for one in self.job._models}
        free = (wanted if n == 1 else f"{wanted}-{n}" for n in range(1, len(taken) + 2))
        return next(one for one in free if one not in taken)

    def _declared(self, keys: dict[str, Value]) -> dict[str, Value]:
        if self._recipe is None:
            return {"optimizer": "none", **keys}
        self._told = self._recipe.keys(self.inner.param_groups)
        return {**self._told, **keys}

    def _declare(self, buffers: str, rows_max: dict[str, int]) -> tuple[list[Binding], list[Buffer]]:
        """Every parameter of the module and the optimizer, and every buffer, once."""
        groups = {parameter: number for number, group in enumerate(self.inner.param_groups) for parameter in group["params"]}
        named = {} if self.module is None else {parameter: name for name, parameter in self.module.named_parameters()}
        for number, parameter in enumerate(groups):
            named.setdefault(parameter, f"parameter.{number}")
        sparse = set() if self.module is None or not self._on_ps else {
            one.weight for one in self.module.modules() if isinstance(one, _SPARSE) and one.sparse}
        bindings: list[Binding] = [self._bind(parameter, name, groups.get(parameter), parameter in sparse, rows_max)
                                   for parameter, name in named.items() if parameter.numel() > 0]
        kept = [] if self.module is None else [(name, one) for name, one in self.module.named_buffers() if one.dtype in TYPES and one.numel() > 0]
        return bindings, [self._keep(name, one, buffers) for name, one in kept]

    def _bind(self, parameter: torch.nn.Parameter, name: str, group: Optional[int], sparse: bool, rows_max: dict[str, int]) -> Binding:
        need_host(name, parameter)
        trained = group is not None and parameter.requires_grad
        options: dict[str, Value] = {}
        if not trained:
            options["frozen"] = True
        elif self._recipe is not None:
            options = {"learning_rate_scale": self._recipe.scales[group], "decays": self._recipe.decays[group]}
        if sparse and trained:
            options.update(rows_max=rows_max.get(name, len(parameter)), row_mean="replicas")
        variable = self._variable(name, parameter, Kind.SPARSE if sparse and trained else Kind.TRAINED, options)
        binding = Sparse(parameter, variable) if sparse and trained else Dense(parameter, variable, trained, self._on_ps)
        if trained:
            self._hooks.append(_after_backward(parameter, lambda: self._ready(binding)))
        return binding

    def _keep(self, name: str, tensor: torch.Tensor, buffers: str) -> Buffer:
        need_host(name, tensor)
        if buffers == "own":
            return Buffer(tensor, self._variable("buffer." + name, tensor, Kind.AUX, {}))
        return Buffer(tensor, self._variable("buffer." + name, tensor, Kind.ASSIGNED, {"assign": buffers}))

    def _variable(self, name: str, tensor: torch.Tensor, kind: Kind, options: dict[str, Value]) -> Variable:
        variable = self.model.variable(name, tensor.shape, TYPES[tensor.dtype], kind, **options)
        if self.rank == 0:
            values = tensor.detach().contiguous()
            variable.initialize(values.data_ptr(), values.numel() * values.element_size())
        return variable

    def _start(self) -> None:
        with torch.no_grad():
            for binding in self._bindings:
                binding.start()
            self._refresh(back=bool(self.committed.restored))
        if self._on_ps and self.module is not None:
            self._hooks += [one._register_load_state_dict_pre_hook(_Guard(self.job)) for one in self.module.modules()]
        self.job.before_close(self._release)

    def _next(self) -> StepInfo:
        """The token of the next step, and its values."""
        info = self.model.begin(self._timeout)
        self.model.pull(self._timeout)
        return info

    def _refresh(self, back: bool = False) -> None:
        if not self._lockstep:  # slots that were used before may be under way still
            for variable in self.model.variables.values():
                if variable.kind != Kind.SPARSE:
                    self._wait_idle(variable)
        for binding in self._bindings:
            binding.refresh(self._lockstep)
        for buffer in self._buffers:
            if buffer.variable.kind == Kind.AUX and back:
                buffer.variable.pull(self._timeout)
            buffer.refresh(back)

    def _wait_idle(self, variable: Variable) -> None:
        """A slot whose contribution is still under way is not to be written."""
        def attempt(ms: int) -> int:
            idle = library.buffer_is_idle(self.model._pointer, variable.number)
            return idle if idle != 0 else -(Code.ETIMEOUT if ms else Code.EAGAIN)
        wait(self.job.fileno, attempt, self._timeout)

    def _ready(self, binding: Binding) -> None:
        """Backward has added to a gradient."""
        if binding.pushed:
            raise error(Code.ESTATE, f"backward gives {binding.variable.name} another gradient in the same step", LATER)
        with torch.no_grad():
            binding.settle()
            if self._early and not self._held:
                self._push(binding)

    def _push(self, binding: Binding) -> None:
        if self._rewound:
            return
        try:
            binding.push(self._unscale)
        except Rewound:
            self._rewound = True  # step() says so: backward is not where a script expects it

    @contextlib.contextmanager
    def hold(self) -> Iterator[None]:
        """Backward passes in this block push nothing: gradients add up, for step(), or until zero_grad()."""
        self._held += 1
        try:
            yield
        finally:
            self._held -= 1

    def share(self, *tensors: torch.Tensor) -> Any:
        """This worker's part of a batch that all workers have: of each tensor, along its first dimension. The parts count by their size."""
        count = len(tensors[0])
        first, end = (count * rank // self.size for rank in (self.rank, self.rank + 1))
        self._weight = 1.0 if count % self.size == 0 else float(end - first)
        parts = tuple(one[first:end] for one in tensors)
        return parts if len(parts) > 1 else parts[0]

    def shares(self, batches: Iterable[Any]) -> Iterator[Any]:
        """This worker's part of each."""
        for batch in batches:
            yield self.share(*batch) if isinstance(batch, (tuple, list)) else self.share(batch)

    @torch.no_grad()
    def step(self, closure: Optional[Callable[[], Any]] = None, *, mean: Union[torch.Tensor, float, None] = None,
             weight: Optional[float] = None) -> Any:
        """Hands the contribution in and goes on to the next step.

        mean    a number, e.g. the loss: the result is its mean over the workers (NaN if the step was skipped). Otherwise the result is that of closure
        weight  of this contribution; default: 1, or what share() says; 0: it counts for nothing
        """
        result = None
        if closure is not None:
            with torch.enable_grad():
                result = closure()
        for binding in self._bindings:
            binding.need_untouched()
        if weight is None:
            weight = self._weight if self._weight is not None else 1.0
        self._take(weight, None if mean is None else float(mean))
        if mean is None:
            return result
        taken = self.info.verdict != Verdict.SKIPPED and not self.info.rewound
        return torch.tensor(self._mean.mean if taken else float("nan"), dtype=torch.float64)

    @torch.no_grad()
    def abandon(self) -> None:
        """This contribution counts for nothing, also what was pushed of it; the step goes on with the others."""
        self._take(0.0, None)

    def _take(self, weight: float, mean: Optional[float]) -> None:
        """Ends this worker's part of the step, and goes on to the next one."""
        self._weight, before = None, self.info.step
        try:
            if self._rewound:
                raise error(Code.EREWOUND, "the job goes back to a checkpoint")
            self._contribute(weight, mean)
            self.info = self._next()
        except Rewound:
            self.info = self._first()
        if self.info.rewound:
            self._go_back()
        else:
            self._go_on(before)

    def _contribute(self, weight: float, mean: Optional[float]) -> None:
        self._tune()
        for binding in self._bindings:
            if binding.touched and not binding.pushed:
                binding.push(self._unscale)
            elif not binding.touched:
                binding.variable.absent()
        for buffer in self._buffers:
            buffer.push()
        self._mean.push(mean)
        if self._count is not None:
            self._count.push(float(self.info.step))
        nothing = self._keys.get("update") == "tf" and not any(binding.touched for binding in self._bindings)
        self.model.finish(0.0 if nothing else weight)

    def _tune(self) -> None:
        """What a scheduler has changed holds from this step on."""
        if self._recipe is None:
            return
        now = self._recipe.keys(self.inner.param_groups)
        if self.rank == 0 and now != self._told:
            for key, value in now.items():
                if key not in ("optimizer", "formula") and value != (self._told or {}).get(key):
                    self.model.tune(key, value, self.info.step)
        self._told = now

    def _first(self) -> StepInfo:
        """The job goes back: begin waits until everybody has. It may have to once more meanwhile."""
        while True:
            try:
                return self._next()
            except Rewound:
                continue

    def _go_on(self, before: int) -> None:
        self._skipped += self.info.verdict == Verdict.SKIPPED
        if self._count is not None and round(self._count.mean) == before:  # not where nothing was applied
            for binding in self._bindings:
                binding.mean()
            self.inner.step()
        self._refresh()

    def _go_back(self) -> None:
        self._rewound, self._told = False, {}
        for binding in self._bindings:
            binding.forget()
        for buffer in self._buffers:
            buffer.forget()
        self._refresh(back=True)
        if self._on_rewind is None:
            raise Rewound(Code.EREWOUND, f"the job has gone back to step {self.info.step}", "go on with the batch of that step", step=self.info.step)
        self._on_rewind(self.info.step)

    def zero_grad(self, set_to_none: bool = False) -> None:
        """Gradients are zeros; they stay where they are. Behind step() they are so already."""
        with torch.no_grad():
            for binding in self._bindings:
                if binding.pushed:
                    raise error(Code.ESTATE, f"the gradient of {binding.variable.name} is to be cleared", LATER + "; abandon() takes a contribution back")
                binding.clear()

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        return self.inner.param_groups

    @property
    def state(self) -> Any:
        return self.inner.state

    @property
    def defaults(self) -> dict[str, Any]:
        return self.inner.defaults

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        raise error(Code.ENOTSUP, "the parameters of a model are those it was committed with", "add groups before the optimizer is wrapped")

    def state_dict(self) -> dict[str, Any]:
        """What the wrapped optimizer would say: its state comes from the ps where they apply it."""
        told = self.inner.state_dict()
        if self._recipe is None:
            return told
        by_parameter = {binding.parameter: binding for binding in self._bindings}
        parameters = [parameter for group in self.inner.param_groups for parameter in group["params"]]
        names = [name for name in self.model.slots() if name in self._recipe.slots]
        updates = torch.tensor(float(self.info.step - self._skipped))
        for number, parameter in enumerate(parameters):
            binding = by_parameter.get(parameter)
            if names and binding is not None and binding.trained:
                slots = {self._recipe.slots[name]: torch.from_numpy(binding.variable.slot(name, self._timeout)[0]) for name in names}
                told["state"][number] = {"step": updates.clone(), **slots}
        return told

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Of workers that apply the optimizer, each its own; the ps take over what stands in the groups, such as the learning rate."""
        if self._on_ps and state_dict["state"]:
            raise error(Code.ENOTSUP, "the state of an optimizer on the ps cannot be loaded", "give the ps a folder for checkpoints (--checkpoint), which "
                        f"they go on from; or {ANOTHER_WAY}")
        self.inner.load_state_dict(state_dict)

    def __getstate__(self) -> dict[str, Any]:
        raise error(Code.ENOTSUP, "an optimizer of a job cannot be copied to another process", "take its state_dict()")

    def _release(self) -> None:
        """The job closes."""
        with torch.no_grad():
            for binding in self._bindings:
                binding.release()
        for hook in self._hooks:
            (hook[1] if isinstance(hook, tuple) else hook).remove()
        self._hooks.clear()


__all__ = ["Optimizer"]
