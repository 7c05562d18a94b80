/* SPDX-License-Identifier: BSD-3-Clause */
/* wrap -- how a function that the linker has put another in front of is made to fail (the linker is given --wrap for each that `wrapped` names), and what there is of things that must be given back. */
#ifndef TESTS_FAULTS_WRAP_H
#define TESTS_FAULTS_WRAP_H

#include "tests/faults/point.h"

/* A function `name` that returns `bad` with an errno where it is to fail. */
#define WRAP(type, name, bad, error, parameters, arguments)                                                  \
    type __real_##name parameters;                                                                           \
    type __wrap_##name parameters;                                                                           \
    type __wrap_##name parameters                                                                            \
    {                                                                                                        \
        if (point_reached(POINT_SYSTEM, #name, error, __builtin_return_address(0)))                          \
            return bad;                                                                                      \
        return __real_##name arguments;                                                                      \
    }
/* One that says what is wrong by what it returns. */
#define WRAP_CODE(name, code, parameters, arguments) WRAP(int, name, code, code, parameters, arguments)

/* What the project's code has made and not given back. */
struct wrap_kept {
    long threads, mappings;
    long objects; /* of libibverbs and librdmacm */
};

/* wrap_kept -- now. */
void wrap_kept(struct wrap_kept *out);
/* wrap_objects -- those of libibverbs and librdmacm alone. */
long wrap_objects(void);

#endif
