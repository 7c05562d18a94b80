/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/base/help.h"

#include <stdbool.h>
#include <string.h>

/* help_value -- what stands for a value. */
const char *help_value(const struct knob_row *row)
{
    switch (row->kind) {
    case KNOB_BOOL: return "[on|off]";
    case KNOB_TRANSPORT:
    case KNOB_CHOICE: return row->choices;
    case KNOB_INT: return "N";
    case KNOB_TIME: return "TIME";
    case KNOB_SIZE: return "SIZE";
    case KNOB_HOSTS:
    case KNOB_NAMES: return "LIST";
    case KNOB_ADDRESS: return "ADDRESS";
    case KNOB_TEXT: break;
    }
    return "TEXT";
}

/* help_is_in -- whether a list that ends with NULL, or is NULL, has a name. */
static bool help_is_in(const char *const *list, const char *name)
{
    for (; list != NULL && *list != NULL; list++)
        if (strcmp(*list, name) == 0)
            return true;
    return false;
}

/* help_begin -- see help.h. */
void help_begin(void)
{
    static char room[1 << 16];

    setvbuf(stdout, room, _IOFBF, sizeof(room));
}

/* help_write_knobs -- the table. */
void help_write_knobs(FILE *stream, const char *const *without)
{
    const struct knob_row *row;

    for (size_t i = 0; (row = knob_row(i)) != NULL; i++) {
        char flag[64];
        if (help_is_in(without, row->name))
            continue;
        snprintf(flag, sizeof(flag), "%s %s", row->flag, help_value(row));
        fprintf(stream, "  %-34s %s", flag, row->help);
        if (row->fallback[0] != '\0')
            fprintf(stream, " (%s)", row->fallback);
        fputc('\n', stream);
    }
    fputs("\n`-` and `_` in a name are the same. Each of these can also be set in the environment: "
          "STEPGATE_JOIN_TIMEOUT=60s\nfor --join-timeout 60s; a flag wins. TIME is 500ms, 10s or "
          "2min (a bare number is ms), or off; SIZE is 4096, 64KiB or 256MiB.\n",
          stream);
}
