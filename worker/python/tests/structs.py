#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Writes a C program that a compiler takes only if the structs and numbers of the binding are those of the headers."""
import stepgate.structure as structure

ENUMS = [("", structure.Code), ("", structure.Kind), ("", structure.Type), ("CLASS_", structure.ErrorClass), ("ROLE_", structure.Role),
         ("LOG_", structure.Level), ("USE_", structure.Use), ("VERDICT_", structure.Verdict), ("SNAPSHOT_", structure.What)]

print('#include <stddef.h>\n#include "stepgate/stepgate.h"')
for name, kind in structure.STRUCTS.items():
    print(f'_Static_assert(sizeof(struct {name}) == {structure.ctypes.sizeof(kind)}, "{name}");')
    for field, _ in kind._fields_:
        print(f'_Static_assert(offsetof(struct {name}, {field}) == {getattr(kind, field).offset}, "{name}.{field}");')
        print(f'_Static_assert(sizeof(((struct {name} *)0)->{field}) == {getattr(kind, field).size}, "{name}.{field}");')
for prefix, kind in ENUMS:
    for one in kind:
        print(f'_Static_assert(STEPGATE_{prefix}{one.name} == {one.value}, "{one.name}");')
print(f'_Static_assert(STEPGATE_RANK_MAX == {structure.RANK_MAX}, "STEPGATE_RANK_MAX");')
