/* SPDX-License-Identifier: BSD-3-Clause */
#include "ps/lane/mailbox.h"

#include <stdlib.h>

#include "transport/base/error.h"

/* mailbox_init -- empty. */
void mailbox_init(struct mailbox *mailbox)
{
    pthread_mutex_init(&mailbox->lock, NULL);
    mailbox->first = mailbox->last = NULL;
    atomic_init(&mailbox->count, 0);
}

/* mailbox_clear -- requests must be answered, even if nobody wants them any more. */
void mailbox_clear(struct mailbox *mailbox)
{
    struct letter letter;

    while (mailbox_take(mailbox, &letter))
        if (letter.kind == LETTER_ACCEPT)
            letter.request->transport->request_refuse(letter.request, NULL, 0);
    pthread_mutex_destroy(&mailbox->lock);
}

/* mailbox_put -- a copy of the letter. */
int mailbox_put(struct mailbox *mailbox, const struct letter *letter)
{
    struct letter *copy = malloc(sizeof(*copy));

    if (copy == NULL)
        return error_set(STEPGATE_ENOMEM, 0, "", "no memory for a letter between threads");
    *copy = *letter;
    copy->next = NULL;
    pthread_mutex_lock(&mailbox->lock);
    if (mailbox->last != NULL)
        mailbox->last->next = copy;
    else
        mailbox->first = copy;
    mailbox->last = copy;
    atomic_fetch_add_explicit(&mailbox->count, 1, memory_order_release); /* pairs with mailbox_take */
    pthread_mutex_unlock(&mailbox->lock);
    return 0;
}

/* mailbox_take -- the oldest letter. */
int mailbox_take(struct mailbox *mailbox, struct letter *out)
{
    if (atomic_load_explicit(&mailbox->count, memory_order_acquire) == 0) /* pairs with mailbox_put */
        return 0;
    pthread_mutex_lock(&mailbox->lock);
    struct letter *letter = mailbox->first;
    if (letter != NULL) {
        mailbox->first = letter->next;
        if (mailbox->first == NULL)
            mailbox->last = NULL;
        atomic_fetch_sub_explicit(&mailbox->count, 1, memory_order_relaxed); /* the lock orders it */
    }
    pthread_mutex_unlock(&mailbox->lock);
    if (letter == NULL)
        return 0;
    *out = *letter;
    free(letter);
    return 1;
}
