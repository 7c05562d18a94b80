/* SPDX-License-Identifier: BSD-3-Clause */
/* peer -- a process of its own at the other end, to be killed and stopped. It is this program, started again: a fork alone would
 * inherit open devices. */
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/conformance/suite.h"

/* peer_start -- starts the process and takes its connection and grant. */
int peer_start(struct suite *suite, struct party *party, struct peer *out)
{
    struct stepgate_descriptor descriptor;
    int rc;

    memset(out, 0, sizeof(*out));
    if (party->listener == NULL && party_listen(party) < 0)
        return -1;
    pid_t pid = fork();
    CHECK(suite, pid >= 0, "fork failed");
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        execl(suite->self, suite->self, "--transport", suite->transport->name, "--peer", party->address,
              "--address", suite->host != NULL ? suite->host : "", "--transport-library",
              suite->library != NULL ? suite->library : "", (char *)NULL);
        _exit(127);
    }
    out->pid = pid;
    UNTIL(suite, party->request_count > 0, 20000);
    CHECK(suite, party->request_count > 0, "the peer process did not connect");
    rc = end_accept(party, "welcome", 7, &out->end);
    CHECK(suite, rc == 0, "endpoint_accept: %s", suite_error());
    UNTIL(suite, end_count(out->end, STEPGATE_EVENT_MESSAGE) > 0, 10000);
    CHECK(suite, out->end->arrival_count == 1 && out->end->arrivals[0].length == sizeof(descriptor),
          "the peer process sent no descriptor");
    memcpy(&descriptor, out->end->arrivals[0].data, sizeof(descriptor));
    POST(suite, rc, suite->transport->endpoint_import(out->end->endpoint, &descriptor, &out->remote));
    CHECK(suite, rc == 0, "endpoint_import: %s", suite_error());
    out->end->remotes[out->end->remote_count++] = out->remote;
    return 0;
}

/* peer_stop -- ends the process if it still runs. */
void peer_stop(struct peer *peer)
{
    if (peer->pid > 0) {
        kill(peer->pid, SIGKILL);
        waitpid(peer->pid, NULL, 0);
    }
    peer->pid = 0;
}

/* peer_main -- connects, grants a region, takes what comes until the connection ends. */
int peer_main(struct suite *suite, const char *address)
{
    struct party *party;
    struct end *end;
    struct stepgate_region *region = NULL;
    struct stepgate_descriptor descriptor;
    int rc = suite_begin(suite);

    if (rc < 0 || party_open(suite, 0, 0, &party) < 0 || end_connect(party, address, "peer", 4, &end) < 0)
        goto failed;
    UNTIL(suite, end->connected + end->disconnected > 0, 10000);
    if (end->connected == 0 ||
        party_region(party, STEPGATE_ACCESS_READ | STEPGATE_ACCESS_WRITE, PEER_BYTES, &region) < 0)
        goto failed;
    POST(suite, rc,
         suite->transport->endpoint_export(end->endpoint, region,
                                           STEPGATE_ACCESS_READ | STEPGATE_ACCESS_WRITE, &descriptor));
    if (rc < 0)
        goto failed;
    POST(suite, rc, suite->transport->endpoint_send(end->endpoint, &descriptor, sizeof(descriptor)));
    if (rc < 0)
        goto failed;
    UNTIL(suite, end->disconnected > 0, 60000);
    suite_end(suite);
    return 0;
failed:
    fprintf(stderr, "peer process: %s %s\n", suite->why, suite_error());
    return 1;
}
