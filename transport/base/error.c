/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/base/error.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* One per thread: an error belongs to the thread that met it, so that no lock is needed and two jobs do not mix. */
static _Thread_local struct stepgate_error error_of_thread = {
    .size = sizeof(struct stepgate_error), .rank = -1, .step = UINT64_MAX, .waited_ms = -1};

/* error_one_line -- an error is one line, whatever came in as an argument or from a peer. */
void error_one_line(char *text)
{
    for (; *text != '\0'; text++)
        if (iscntrl((unsigned char)*text))
            *text = '?';
}

/* error_set -- records an error for this thread and returns -code. */
int error_set(int code, int os_errno, const char *remedy, const char *format, ...)
{
    struct stepgate_error *error = &error_of_thread;
    va_list arguments;
    char text[sizeof(error->text)];

    va_start(arguments, format); /* into a copy first: an argument may point into the old text */
    int length = vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    error_one_line(text);
    if (os_errno != 0 && length >= 0 && (size_t)length < sizeof(text)) {
        char buffer[96];
        const char *words = strerror_r(os_errno, buffer, sizeof(buffer));
        size_t bytes = strlen(words);
        /* Whoever passes an error on, in words of his own around its text, has them there already. */
        if ((size_t)length < bytes || strcmp(text + length - bytes, words) != 0)
            snprintf(text + length, sizeof(text) - (size_t)length, ": %s", words);
    }
    char advice[sizeof(error->remedy)];
    snprintf(advice, sizeof(advice), "%s", remedy != NULL ? remedy : "");
    memset(error, 0, sizeof(*error));
    error->size = sizeof(*error);
    error->code = code;
    error->os_errno = os_errno;
    error->rank = -1;
    error->step = UINT64_MAX;
    error->waited_ms = -1;
    memcpy(error->text, text, sizeof(text));
    memcpy(error->remedy, advice, sizeof(advice));
    return -code;
}

/* error_peer -- adds the peer to the last error. */
void error_peer(int role, int rank, const char *host, const char *device)
{
    struct stepgate_error *error = &error_of_thread;

    error->role = role;
    error->rank = rank;
    snprintf(error->host, sizeof(error->host), "%s", host != NULL ? host : "");
    snprintf(error->device, sizeof(error->device), "%s", device != NULL ? device : "");
}

/* error_step -- adds step and time waited to the last error. */
void error_step(uint64_t step, int64_t waited_ms)
{
    error_of_thread.step = step;
    error_of_thread.waited_ms = waited_ms;
}

/* error_save -- copies the last error of this thread. */
void error_save(struct stepgate_error *error)
{
    *error = error_of_thread;
}

/* error_restore -- makes a saved error the last one again. */
int error_restore(const struct stepgate_error *error)
{
    error_of_thread = *error;
    return -error->code;
}

/* stepgate_error_last -- the public copy. */
int stepgate_error_last(struct stepgate_error *error)
{
    if (error == NULL || error->size < sizeof(struct stepgate_error))
        return -STEPGATE_EINVAL;
    size_t size = error->size;
    *error = error_of_thread;
    error->size = size;
    return 0;
}

/* error_positive -- the code without its sign. */
static int error_positive(int code)
{
    return code < 0 ? -code : code;
}

/* stepgate_strerror -- the short name of a code. */
const char *stepgate_strerror(int code)
{
    switch (error_positive(code)) {
    case STEPGATE_OK: return "no error";
    case STEPGATE_EAGAIN: return "not finished yet";
    case STEPGATE_EINTR: return "interrupted";
    case STEPGATE_ETIMEOUT: return "timed out";
    case STEPGATE_ENOMEM: return "out of memory";
    case STEPGATE_ELIMIT: return "a system limit is too small";
    case STEPGATE_EBUSY: return "in use";
    case STEPGATE_ESYSTEM: return "operating system error";
    case STEPGATE_EREWOUND: return "the job goes back to a checkpoint";
    case STEPGATE_EINVAL: return "invalid argument";
    case STEPGATE_EALREADY: return "done already";
    case STEPGATE_ESTATE: return "not allowed now";
    case STEPGATE_ENOENT: return "not found";
    case STEPGATE_ENOTSUP: return "not supported";
    case STEPGATE_EACCESS: return "access outside the grant";
    case STEPGATE_EFORKED: return "called in a forked child";
    case STEPGATE_EOVERSIZE: return "too large";
    case STEPGATE_EPEER: return "peer lost";
    case STEPGATE_EREFUSED: return "connection refused";
    case STEPGATE_EUNREACHABLE: return "peer unreachable";
    case STEPGATE_EPROTOCOL: return "protocol broken by peer";
    case STEPGATE_EVERSION: return "other protocol version";
    case STEPGATE_EWRONGJOB: return "other job";
    case STEPGATE_EAUTH: return "wrong secret";
    case STEPGATE_EDEVICE: return "device error";
    case STEPGATE_ENODEVICE: return "no such device";
    case STEPGATE_EADDRESS: return "bad address";
    case STEPGATE_EMISMATCH: return "models differ";
    case STEPGATE_ERANK: return "rank taken or out of range";
    case STEPGATE_EJOIN: return "not everybody joined in time";
    case STEPGATE_ELOST: return "a needed member is lost";
    case STEPGATE_EENDED: return "job is over";
    case STEPGATE_ESTEPTIME: return "step took too long";
    case STEPGATE_ENONFINITE: return "non-finite gradient";
    default: return "unknown error";
    }
}

/* stepgate_error_class -- what to throw away after a code. */
int stepgate_error_class(int code)
{
    int positive = error_positive(code);

    if (positive == 0)
        return STEPGATE_CLASS_NONE;
    if (positive < 20)
        return STEPGATE_CLASS_OPERATION;
    if (positive < 40)
        return STEPGATE_CLASS_ARGUMENT;
    if (positive < 60)
        return STEPGATE_CLASS_PEER;
    if (positive < 80)
        return STEPGATE_CLASS_DEVICE;
    return STEPGATE_CLASS_JOB;
}
