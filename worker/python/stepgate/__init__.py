# SPDX-License-Identifier: BSD-3-Clause
"""stepgate: a synchronous parameter server. docs/python.md says how to use it; the headers in include/stepgate/ what each call means.

    with stepgate.Job() as job:
        model = job.model("line", learning_rate=0.5)
        w = model.variable("w", (3,))
        model.commit()
        while (info := model.begin()).step < 200:
            model.pull()
            w.gradient[:] = gradient(w.value)
            w.push()
            model.finish()
"""
from stepgate.error import ArgumentError, DeviceError, Error, JobError, OperationError, PeerError, Rewound, TimedOut
from stepgate.job import Job
from stepgate.library import version
from stepgate.model import Model
from stepgate.options import Options, knobs
from stepgate.structure import Code, ErrorClass, Kind, Level, Role, Type, Use, Verdict, What
from stepgate.variable import Variable

__all__ = ["ArgumentError", "Code", "DeviceError", "Error", "ErrorClass", "Job", "JobError", "Kind", "Level", "Model", "OperationError", "Options",
           "PeerError", "Rewound", "Role", "TimedOut", "Type", "Use", "Variable", "Verdict", "What", "knobs", "version"]
