/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/base/help.h"

#include "transport/base/knob.h"

/* help_value -- what stands for a value in the help of a row. */
static const char *help_value(const struct knob_row *row)
{
    switch (row->kind) {
    case KNOB_BOOL: return "[on|off]";
    case KNOB_CHOICE: return row->choices;
    case KNOB_INT: return "N";
    case KNOB_TIME: return "TIME";
    case KNOB_SIZE: return "SIZE";
    case KNOB_HOSTS: return "LIST";
    case KNOB_ADDRESS: return "ADDRESS";
    case KNOB_TEXT: break;
    }
    return "TEXT";
}

/* help_write_knobs -- the table. */
void help_write_knobs(FILE *stream)
{
    const struct knob_row *row;

    for (size_t i = 0; (row = knob_row(i)) != NULL; i++) {
        char flag[64];
        snprintf(flag, sizeof(flag), "%s %s", row->flag, help_value(row));
        fprintf(stream, "  %-34s %s", flag, row->help);
        if (row->fallback[0] != '\0')
            fprintf(stream, " (%s)", row->fallback);
        fputc('\n', stream);
    }
    fputs("\n`-` and `_` in a name are the same. Each of these can also be set in the environment: "
          "STEPGATE_JOIN_TIMEOUT=60s\nfor --join-timeout 60s; a flag wins. TIME is 500ms, 10s or "
          "2min, or off; SIZE is 4096, 64KiB or 256MiB.\n",
          stream);
}
