/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ERROR -- codes, their classes, and the last error of a thread.
 *
 * Every function of the library returns >= 0 or one of the codes below, negated. Nothing in the library prints, exits or
 * aborts; the text of an error is kept per thread and read with stepgate_error_last().
 */
#ifndef STEPGATE_ERROR_H
#define STEPGATE_ERROR_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The codes. A function that fails returns the negative value, e.g. -STEPGATE_EAGAIN. */
enum stepgate_error_code {
    STEPGATE_OK = 0,
    /* operation: nothing is lost, it may be repeated */
    STEPGATE_EAGAIN = 1,   /* started, not finished: repeat the call until it is */
    STEPGATE_EINTR = 2,    /* stepgate_job_interrupt() ended the wait */
    STEPGATE_ETIMEOUT = 3, /* the deadline of this call passed */
    STEPGATE_ENOMEM = 4,   /* out of memory */
    STEPGATE_ELIMIT = 5,   /* a limit of the system is too small; both numbers are in the text */
    STEPGATE_EBUSY = 6,    /* in use: an address, a buffer, a rank */
    STEPGATE_ESYSTEM = 7,  /* the operating system refused; os_errno says why */
    STEPGATE_EREWOUND =
        8, /* the job goes back to a checkpoint: what was done since is void; call stepgate_step_begin */
    /* argument: nothing has changed */
    STEPGATE_EINVAL = 20,    /* an argument is wrong; the text says which */
    STEPGATE_EALREADY = 21,  /* done before: e.g. the same variable pushed twice in one step */
    STEPGATE_ESTATE = 22,    /* not allowed now: e.g. push before begin */
    STEPGATE_ENOENT = 23,    /* no such variable, knob, file */
    STEPGATE_ENOTSUP = 24,   /* this transport, device or build cannot do it */
    STEPGATE_EACCESS = 25,   /* outside what the peer granted */
    STEPGATE_EFORKED = 26,   /* called in a child process after fork */
    STEPGATE_EOVERSIZE = 27, /* larger than the transport takes in one piece */
    /* peer: the connection to one peer is of no use any more */
    STEPGATE_EPEER = 40,        /* the peer is gone: killed, disconnected, silent */
    STEPGATE_EREFUSED = 41,     /* nobody listens there, or the peer refused without a reason */
    STEPGATE_EUNREACHABLE = 42, /* no route, or no answer in time */
    STEPGATE_EPROTOCOL = 43,    /* the peer broke the protocol */
    STEPGATE_EVERSION = 44,     /* the peer speaks another version */
    STEPGATE_EWRONGJOB = 45,    /* the peer belongs to another job */
    STEPGATE_EAUTH = 46,        /* the proof of the job's secret is wrong */
    /* device */
    STEPGATE_EDEVICE = 60,   /* the device is gone or in error */
    STEPGATE_ENODEVICE = 61, /* there is no such device, or no RDMA device at this address */
    STEPGATE_EADDRESS = 62,  /* an address cannot be resolved or does not belong to this host */
    /* job: only _delete is left to call */
    STEPGATE_EMISMATCH = 80, /* the model differs from that of worker 0 */
    STEPGATE_ERANK = 81,     /* this rank is taken, or out of range */
    STEPGATE_EJOIN = 82,     /* not everybody came within join_timeout */
    STEPGATE_ELOST = 83,     /* a member the job cannot do without is lost */
    STEPGATE_EENDED = 84,    /* the job is over */
    STEPGATE_ESTEPTIME = 85, /* step_timeout passed */
    STEPGATE_ENONFINITE = 86 /* a contribution with an infinity or a NaN, and the model says fail */
};

/* What a caller must throw away after an error. */
enum stepgate_error_class {
    STEPGATE_CLASS_NONE = 0,
    STEPGATE_CLASS_ARGUMENT = 1,  /* nothing changed */
    STEPGATE_CLASS_OPERATION = 2, /* this call; it may be retried */
    STEPGATE_CLASS_PEER = 3,      /* the connection to that peer */
    STEPGATE_CLASS_DEVICE = 4,    /* everything on that device */
    STEPGATE_CLASS_JOB = 5        /* the job: every call repeats the code, only _delete is left */
};

enum stepgate_role {
    STEPGATE_ROLE_NONE = 0,
    STEPGATE_ROLE_WORKER = 1,
    STEPGATE_ROLE_PS = 2,
    STEPGATE_ROLE_OBSERVER = 3
};

/* The last error of the calling thread. `size` is set by the caller to sizeof(struct stepgate_error). */
struct stepgate_error {
    size_t size;
    int code;          /* positive; 0: no error yet */
    int os_errno;      /* 0 if the operating system had no part in it */
    int role;          /* enum stepgate_role of the peer concerned; 0: none */
    int rank;          /* rank of that peer; -1: none */
    uint64_t step;     /* step concerned; UINT64_MAX: none */
    int64_t waited_ms; /* how long the call waited; -1: did not wait */
    char host[64];     /* host or address of the peer; "" if not known */
    char device[64];   /* device concerned, e.g. "rxe0" or "shm" */
    char text[512];    /* one line, complete: what happened, to whom */
    char remedy[256];  /* one line: what to do; "" if there is none */
};

/* stepgate_strerror -- a short English name of a code (either sign); never NULL. Thread-safe. */
const char *stepgate_strerror(int code);

/* stepgate_error_class -- the enum stepgate_error_class of a code (either sign). Thread-safe. */
int stepgate_error_class(int code);

/*
 * stepgate_exit_status -- what a program that ends because of a code (either sign) should exit with: 0; 75 when another try may help (a peer or device
 * was lost, or somebody was late); 1 otherwise. Usage errors (2) are the program's own to know. Thread-safe.
 */
int stepgate_exit_status(int code);

/*
 * stepgate_error_last -- copies the last error of this thread into *error (error->size set by the caller).
 * Returns 0, or -STEPGATE_EINVAL when error is NULL or its size is smaller than that of the first version.
 */
int stepgate_error_last(struct stepgate_error *error);

#ifdef __cplusplus
}
#endif
#endif
