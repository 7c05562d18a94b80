/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "ps/checkpoint/checkpoint_inside.h"
#include "ps/checkpoint/draft.h"
#include "transport/base/error.h"

/* checkpoint_remove_file -- one that may have gone. */
static int checkpoint_remove_file(const char *folder, const char *name)
{
    char path[PATH_MAX];
    int status = checkpoint_path(path, folder, name);

    if (status != 0 || unlink(path) == 0 || errno == ENOENT)
        return status;
    return error_set(STEPGATE_ESYSTEM, errno, "remove it by hand, or give another folder",
                     "%s could not be removed", path);
}

/* checkpoint_remove -- a whole step. The manifest goes first, and that is on the disk before anything else goes. What is not ours stays, with its folder. */
static int checkpoint_remove(const char *folder)
{
    int status = checkpoint_remove_file(folder, NAME_MANIFEST);

    if (status == 0)
        status = draft_sync_folder(folder);
    if (status == 0)
        status = checkpoint_remove_file(folder, NAME_MANIFEST NAME_DRAFT);
    if (status == 0)
        status = checkpoint_drop_shards(folder, NULL);
    if (status != 0 || rmdir(folder) == 0 || errno == ENOENT || errno == ENOTEMPTY || errno == EEXIST)
        return status;
    return error_set(STEPGATE_ESYSTEM, errno, "remove it by hand, or give another folder",
                     "%s could not be removed", folder);
}

/* checkpoint_is_old -- may it go? kept: complete ones that are newer and stay, of the same model. */
static bool checkpoint_is_old(const struct checkpoint_entry *e, unsigned kept, unsigned keep)
{
    switch (e->state) {
    case CHECKPOINT_PARTIAL: return kept > 0;
    case CHECKPOINT_COMPLETE:
    case CHECKPOINT_DAMAGED: return kept >= keep;
    default: return false;
    }
}

/* checkpoint_prune_list -- one by one, the newest first. */
static int checkpoint_prune_list(const struct checkpoint_list *list, unsigned keep, unsigned *removed)
{
    unsigned kept = 0;
    int first = 0;
    struct stepgate_error error;

    for (size_t i = 0; i < list->count; i++) {
        const struct checkpoint_entry *e = &list->entries[i];
        if (!checkpoint_is_old(e, kept, keep)) {
            kept += e->state == CHECKPOINT_COMPLETE;
            continue;
        }
        int status = checkpoint_remove(e->folder);
        *removed += status == 0;
        if (status != 0 && first == 0) {
            first = status;
            error_save(&error);
        }
    }
    return first != 0 ? error_restore(&error) : 0;
}

/* checkpoint_prune -- see checkpoint.h. */
int checkpoint_prune(const char *dir, const char *model, unsigned keep, unsigned *removed)
{
    struct checkpoint_list list;
    unsigned count = 0;

    if (keep == 0)
        return error_set(STEPGATE_EINVAL, 0, "keep 1 or more", "no checkpoint of %s would be kept", model);
    int status = checkpoint_list(dir, model, &list);
    if (status != 0)
        return status;
    status = checkpoint_prune_list(&list, keep, &count);
    checkpoint_list_clear(&list);
    if (removed != NULL)
        *removed = count;
    return status;
}
