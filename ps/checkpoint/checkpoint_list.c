/* SPDX-License-Identifier: BSD-3-Clause */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "ps/checkpoint/checkpoint_inside.h"
#include "transport/base/error.h"

/* checkpoint_why -- an entry is not complete, for this reason. */
__attribute__((format(printf, 3, 4))) static void
checkpoint_why(struct checkpoint_entry *e, enum checkpoint_state state, const char *format, ...)
{
    va_list list;

    e->state = state;
    va_start(list, format);
    vsnprintf(e->why, sizeof(e->why), format, list);
    va_end(list);
}

/* checkpoint_why_error -- the last error is the reason. */
static void checkpoint_why_error(struct checkpoint_entry *e, enum checkpoint_state state)
{
    struct stepgate_error error;

    error_save(&error);
    checkpoint_why(e, state, "%s", error.text);
}

/* checkpoint_size -- the bytes of all files of a folder, and its time; false: it is not there any more, or no folder. */
static bool checkpoint_size(struct checkpoint_entry *e)
{
    struct stat at;
    DIR *files = opendir(e->folder);
    const struct dirent *one;

    if (files == NULL)
        return errno != ENOENT && errno != ENOTDIR;
    if (fstat(dirfd(files), &at) == 0)
        e->written = at.st_mtime;
    while ((one = readdir(files)) != NULL)
        if (fstatat(dirfd(files), one->d_name, &at, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(at.st_mode))
            e->bytes += (uint64_t)at.st_size;
    closedir(files);
    return true;
}

/* checkpoint_look_at_files -- a sound manifest: is it of this place, and are its files there? */
static void checkpoint_look_at_files(struct checkpoint_entry *e, const struct manifest *m,
                                     const char *model_folder)
{
    char path[PATH_MAX], name[NAME_FILE_BYTES];

    name_model(m->model, name);
    if (strcmp(name, model_folder) != 0 || m->step != e->step) {
        checkpoint_why(e, CHECKPOINT_DAMAGED, "its manifest is of step %" PRIu64 " of model %s", m->step,
                       m->model);
        return;
    }
    memcpy(e->model, m->model, sizeof(e->model));
    e->shards = m->shards;
    e->written = m->written;
    e->state = CHECKPOINT_COMPLETE;
    for (size_t i = 0; i < m->file_count && e->state == CHECKPOINT_COMPLETE; i++)
        if (checkpoint_path(path, e->folder, m->files[i].name) != 0 ||
            checkpoint_check_length(path, m->files[i].bytes) != 0)
            checkpoint_why_error(e, CHECKPOINT_DAMAGED);
}

/* checkpoint_look_at -- what lies in the folder of a step; false: nothing does any more. */
static bool checkpoint_look_at(struct checkpoint_entry *e, const char *model_folder)
{
    struct manifest m;
    bool there = checkpoint_size(e);
    int status = there ? manifest_read(e->folder, &m) : 0;

    if (!there)
        return false;
    if (status == -STEPGATE_ENOENT)
        checkpoint_why(e, CHECKPOINT_PARTIAL, "it has no " NAME_MANIFEST ": it was not written to its end");
    else if (status != 0)
        checkpoint_why_error(e, status == -STEPGATE_EVERSION ? CHECKPOINT_FOREIGN : CHECKPOINT_DAMAGED);
    if (status != 0)
        return true;
    checkpoint_look_at_files(e, &m, model_folder);
    manifest_clear(&m);
    /* Whoever removes it begins with the manifest: if that has gone meanwhile, nothing is damaged. */
    if (e->state == CHECKPOINT_DAMAGED && manifest_read(e->folder, &m) == -STEPGATE_ENOENT)
        checkpoint_why(e, CHECKPOINT_PARTIAL, "it has no " NAME_MANIFEST ": it is being removed");
    else if (e->state == CHECKPOINT_DAMAGED)
        manifest_clear(&m);
    return true;
}

/* checkpoint_room -- a place at the end of the list, for an entry that is not counted yet; NULL: no memory. */
static struct checkpoint_entry *checkpoint_room(struct checkpoint_list *list)
{
    if ((list->count & (list->count - 1)) == 0) { /* full: room is the next power of two */
        struct checkpoint_entry *more =
            realloc(list->entries, (list->count > 0 ? 2 * list->count : 1) * sizeof(*more));
        if (more == NULL)
            return NULL;
        list->entries = more;
    }
    struct checkpoint_entry *e = &list->entries[list->count];
    memset(e, 0, sizeof(*e));
    return e;
}

/* checkpoint_add_step -- one step of a model, if it is one. */
static int checkpoint_add_step(struct checkpoint_list *list, const char *model, const char *folder,
                               const char *model_folder, const char *name)
{
    uint64_t step;

    if (!name_step_read(name, &step))
        return 0;
    struct checkpoint_entry *e = checkpoint_room(list);
    if (e == NULL)
        return error_set(STEPGATE_ENOMEM, 0, "", "no memory to list %s", folder);
    e->step = step;
    snprintf(e->model, sizeof(e->model), "%s", model);
    int status = checkpoint_path(e->folder, folder, name);
    if (status == 0 && checkpoint_look_at(e, model_folder))
        list->count++;
    return status;
}

/* checkpoint_add_model -- all steps of a model, which has this name where no manifest says another. */
static int checkpoint_add_model(struct checkpoint_list *list, const char *model, const char *dir,
                                const char *model_folder)
{
    char folder[PATH_MAX];
    const struct dirent *one;
    int status = checkpoint_path(folder, dir, model_folder);
    DIR *steps = status == 0 ? opendir(folder) : NULL;

    if (status != 0)
        return status;
    if (steps == NULL)
        return errno == ENOENT || errno == ENOTDIR ? 0 : checkpoint_no_folder(folder, errno);
    while (status == 0 && (one = readdir(steps)) != NULL)
        status = checkpoint_add_step(list, model, folder, model_folder, one->d_name);
    closedir(steps);
    return status;
}

/* checkpoint_add_models -- all of them. */
static int checkpoint_add_models(struct checkpoint_list *list, const char *dir, DIR *models)
{
    char model[STEPGATE_NAME_BYTES];
    const struct dirent *one;
    int status = 0;

    while (status == 0 && (one = readdir(models)) != NULL)
        if (one->d_name[0] != '.') {
            name_model_read(one->d_name, model, sizeof(model));
            status = checkpoint_add_model(list, model, dir, one->d_name);
        }
    return status;
}

/* checkpoint_compare -- by model, the newest first. */
static int checkpoint_compare(const void *a, const void *b)
{
    const struct checkpoint_entry *x = a, *y = b;
    int order = strcmp(x->model, y->model);

    return order != 0 ? order : (x->step < y->step) - (x->step > y->step);
}

/* checkpoint_list -- see checkpoint.h. */
int checkpoint_list(const char *dir, const char *model, struct checkpoint_list *out)
{
    struct checkpoint_list list = {NULL, 0};
    char name[NAME_FILE_BYTES];
    DIR *models = opendir(dir);
    int status;

    if (models == NULL)
        return checkpoint_no_folder(dir, errno);
    if (model != NULL) {
        name_model(model, name);
        status = checkpoint_add_model(&list, model, dir, name);
    } else {
        status = checkpoint_add_models(&list, dir, models);
    }
    closedir(models);
    if (status != 0) {
        checkpoint_list_clear(&list);
        return status;
    }
    if (list.count > 0)
        qsort(list.entries, list.count, sizeof(*list.entries), checkpoint_compare);
    *out = list;
    return 0;
}

/* checkpoint_list_clear -- see checkpoint.h. */
void checkpoint_list_clear(struct checkpoint_list *list)
{
    free(list->entries);
    *list = (struct checkpoint_list){NULL, 0};
}
