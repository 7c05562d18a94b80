/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * step -- the token and commit protocol of docs/protocol.md, for the model checker spin: every order in which two ps and two or three workers can
 * act, while any of them may die at any point. `tests/model/run` checks it in several variants, and that each fault planted in it is found
 * (tests/model/list).
 *
 *   worker(w)   worker/session: begin (step.c), pull, push into free slots (transfer.c), seal, leave
 *   shard(s)    ps/shard: what a worker says (member.c, gate.c), orders (order.c), its one lane (ps/lane), the loss of a member. Shard 0 is also
 *               the leader: leader.c, with what ps/mode/strict.c or ps/mode/tf.c decides
 *
 * A control or shard connection is a channel: first in, first out, never full (asserted), for outboxes are not bounded either. A push connection is
 * a channel of notifies; data goes straight into `slot`, which is memory of the ps. What a lane announces (S9) is the variable `ready`: only the
 * highest counts, so a late look is a late delivery.
 *
 * An event is handled in one atomic step. Who dies in the middle of it is, for all others, one who died behind it and whose last messages were lost:
 * a peer may notice a death before it has taken what was sent, or after. For the same reason an ABORT needs no message: a process that fails ends, and
 * its peers notice. Who succeeded ends behind its last message. Every COMMIT is said twice.
 *
 * Variants, by macros: WORKERS (T), REPLICAS (R), STEPS, DEATHS; R = T: lockstep, in which whole steps are reported; R < T: backup workers. TF: tf mode,
 * INITIAL_TOKENS. PLANT_NAME plants the fault NAME.
 *
 * What must hold, beside that nobody waits for ever (an invalid end state), and that nobody fails while all live:
 *
 *   (once)      a shard applies each step once, in order, behind its commit; who succeeds has seen all of them decided
 *   (set)       what a shard sums is what the leader chose: the same on both shards, each contribution sealed, none of it stale
 *   (slot)      a slot holds the contribution until it has been summed
 *   (release)   nobody begins a step that is not committed, or reads one that is not applied; in lockstep nothing is written over what is being read
 *   (token)     a contribution is answered by one token; of tf's queue no more are taken than were issued, none by somebody who is gone, and none is
 *               left while somebody waits
 *
 * Left out: joining, initial values, checkpoints, observers; several models, lanes and groups; R > T, async and bounded mode; weights and abandoned
 * contributions, values that are not finite, clipping by the global norm; connections that break between two that live; time, for every death
 * is noticed here in the end. Memory orderings and the wire are the business of other tests.
 */
#ifndef WORKERS
#define WORKERS 2
#endif
#ifndef REPLICAS
#define REPLICAS 2
#endif
#ifndef STEPS
#define STEPS 2
#endif

#ifndef DEATHS
#define DEATHS (2 + WORKERS) /* at most: everybody may */
#endif

#define SHARDS 2
#define LEADER 0
#ifdef TF
#define DEPTH 2
#define SEQUENCES 8 /* more than the contributions of one worker */
#ifndef INITIAL_TOKENS
#define INITIAL_TOKENS REPLICAS /* the default */
#endif
#else
#define DEPTH 1
#define INITIAL_TOKENS 0
#define SEQUENCES (STEPS + 1)
#if REPLICAS == WORKERS
#define TOGETHER
#endif
#endif
#define RING (2 * DEPTH)

#define PAIR(s, w) ((s) * WORKERS + (w))
#define SEAL_PLACE(s, w, q) (PAIR(s, w) * RING + (q) % RING)
#define SLOT_PLACE(s, w, q) (PAIR(s, w) * DEPTH + (q) % DEPTH)
#define CONTRIBUTION(w, q) (1 << ((w) * SEQUENCES + (q)))

mtype = { SEAL, LEAVE, TOKEN, RELEASED, LEFT, COMPLETE, APPLIED, GONE, DONE, COMMIT, ACCUMULATE, RELEASE };

/* connections */
chan up[SHARDS * WORKERS] = [2] of { mtype, byte, byte };         /* kind, step, sequence */
chan push[SHARDS * WORKERS] = [DEPTH] of { byte };                /* sequence */
chan down[SHARDS * WORKERS] = [5] of { mtype, byte, byte, bit };  /* kind, step, sequence + 1, was it stale? */
chan to_leader = [6] of { mtype, byte, byte, byte };              /* kind, rank, step, sequence */
chan to_shard = [8] of { mtype, byte, byte, byte };               /* kind, rank or set, step, sequence */

/* processes: shards, then workers */
#define ALIVE 0
#define ENDED 1 /* what it said last is delivered */
#define LOST 2  /* died, or failed: its connections end, and what was on its way may be lost */
#define SHARD(s) (s)
#define WORKER(w) (SHARDS + (w))
byte state[SHARDS + WORKERS];
byte died; /* so many, of themselves: nobody did them anything */

/* memory of each ps */
byte slot[SHARDS * WORKERS * DEPTH]; /* sequence + 1 of what a worker has written there */
byte ready[SHARDS];                  /* S9: the newest step that was announced */
byte applied[SHARDS];                /* steps that were applied to the parameters */

/* what each shard keeps */
byte awaited[SHARDS];
bit complete_sent[SHARDS];
byte next_commit[SHARDS];
byte arrived[SHARDS * WORKERS * DEPTH];      /* sequence + 1 */
byte sealed_next[SHARDS * WORKERS];
byte seal_next[SHARDS * WORKERS * RING];     /* sequence + 1 of the seal there */
byte seal_step[SHARDS * WORKERS * RING];
byte reported_next[SHARDS * WORKERS];
bit left[SHARDS * WORKERS], lost[SHARDS * WORKERS];
chan orders[SHARDS] = [6] of { mtype, byte, byte, byte }; /* those that wait */
bit ordered[SHARDS], lane_done[SHARDS];                   /* the lane has one; has done it */
mtype order_kind[SHARDS];
byte order_set[SHARDS], order_step[SHARDS], order_sequence[SHARDS];
int sums[SHARDS]; /* tf: contributions accumulated */
bit peer_done;    /* at the leader: SHARD_DONE has come */

/* what the leader keeps, of its mode too */
byte step; /* the commit point: steps that are decided */
bit applying, failing;
byte applied_next[SHARDS];
byte contributed[WORKERS];
bit gone[WORKERS];
#ifdef TOGETHER
byte complete_next[SHARDS];
#else
byte tally[WORKERS]; /* shards on which the contribution `contributed` is complete */
#endif
bit handed[WORKERS], member[WORKERS], filled; /* strict: to the awaited step; in its set */
byte entry[WORKERS];                    /* sequence */
byte issued, taken, count;              /* tf: tokens, and contributions of this round */
byte answer[WORKERS];
bit answer_stale[WORKERS], waiting[WORKERS];
chan takers = [WORKERS] of { byte };
int round;

/* nobody's knowledge, for the assertions: whose contributions the leader chose */
int chosen[STEPS + 1];

/* for the length of one atomic step */
hidden byte i, j, w_, q_, n_;
hidden byte any, all;
hidden int whose;

#define sealed(s, w, q) (seal_next[SEAL_PLACE(s, w, q)] == (q) + 1)
#ifdef PLANT_SEAL_NOT_AWAITED
#define whole(s, w, q) (arrived[SLOT_PLACE(s, w, q)] == (q) + 1)
#else
#define whole(s, w, q) (sealed(s, w, q) && arrived[SLOT_PLACE(s, w, q)] == (q) + 1)
#endif

/* may this process find that the connection from `who`, over which `channel` comes, has ended? */
#define notices(who, channel) (state[who] == LOST || (state[who] == ENDED && empty(channel)))

inline tell(who, channel, kind, a, b, c)
{
    if
    :: state[who] == ALIVE -> assert(nfull(channel)); channel!kind(a, b, c)
    :: else
    fi
}

inline say(w, t, kind, k, q)
{
    if
    :: state[SHARD(t)] == ALIVE -> assert(nfull(up[PAIR(t, w)])); up[PAIR(t, w)]!kind(k, q)
    :: else
    fi
}

inline fails(who)
{
    assert(died);
    state[who] = LOST
}

/* what a process that is no more knew is nothing any more: there are fewer states to look at */
#define DRAIN(channel, fields) do :: len(channel) > 0 -> channel?fields :: else -> break od
#define THREE _, _, _
#define FOUR _, _, _, _

inline forget_shard(s)
{
    for (w_ : 0 .. WORKERS - 1) {
        DRAIN(up[PAIR(s, w_)], THREE);
        DRAIN(push[PAIR(s, w_)], _);
        sealed_next[PAIR(s, w_)] = 0;
        reported_next[PAIR(s, w_)] = 0;
        left[PAIR(s, w_)] = 0;
        lost[PAIR(s, w_)] = 0;
        for (j : 0 .. RING - 1) {
            seal_next[PAIR(s, w_) * RING + j] = 0;
            seal_step[PAIR(s, w_) * RING + j] = 0
        }
        for (j : 0 .. DEPTH - 1) {
            slot[PAIR(s, w_) * DEPTH + j] = 0;
            arrived[PAIR(s, w_) * DEPTH + j] = 0
        }
    }
    DRAIN(orders[s], FOUR);
    awaited[s] = 0;
    complete_sent[s] = 0;
    next_commit[s] = 0;
    ordered[s] = 0;
    lane_done[s] = 0;
    order_kind[s] = 0;
    order_set[s] = 0;
    order_step[s] = 0;
    order_sequence[s] = 0;
    sums[s] = 0;
    if
    :: s == LEADER ->
        DRAIN(to_leader, FOUR);
        DRAIN(takers, _);
        for (j : 0 .. WORKERS - 1) {
            contributed[j] = 0;
            gone[j] = 0;
#ifndef TOGETHER
            tally[j] = 0;
#endif
            handed[j] = 0;
            member[j] = 0;
            entry[j] = 0;
            answer[j] = 0;
            answer_stale[j] = 0;
            waiting[j] = 0
        }
        for (j : 0 .. SHARDS - 1) {
            applied_next[j] = 0;
#ifdef TOGETHER
            complete_next[j] = 0
#endif
        }
        peer_done = 0;
        applying = 0;
        failing = 0;
        filled = 0;
        issued = 0;
        taken = 0;
        count = 0;
        round = 0
    :: else -> DRAIN(to_shard, FOUR)
    fi
}

inline forget_worker(w)
{
    at = 0;
    before = 0;
    next = 0;
    dropped = 0;
    for (j : 0 .. SHARDS - 1) {
        out[j] = 0;
        released[j] = 0;
        DRAIN(down[PAIR(j, w)], FOUR)
    }
}

/* at any point, which is: wherever it may wait */
#define MAY_DIE :: atomic { died < DEATHS -> died++; goto dies }

/* ---- orders: ps/shard/order.c ---- */

inline order_next(s)
{
    do
    :: !ordered[s] && len(orders[s]) > 0 ->
        orders[s]?order_kind[s], order_set[s], order_step[s], order_sequence[s];
        if
        :: order_kind[s] == RELEASE ->
            tell(WORKER(order_set[s]), down[PAIR(s, order_set[s])], RELEASED, 0, order_sequence[s] + 1, 0)
        :: else ->
            ordered[s] = 1;
            assert(order_kind[s] != COMMIT || order_step[s] < step); /* (once) */
#ifdef PLANT_SLOT_FREED_EARLY
            if
            :: order_kind[s] == COMMIT -> ready[s] = order_step[s] + 1
            :: else -> tell(WORKER(order_set[s]), down[PAIR(s, order_set[s])], RELEASED, 0, order_sequence[s] + 1, 0)
            fi
#endif
        fi
    :: else -> break
    od
}

inline shard_order(s, kind, set, k, q)
{
#ifdef PLANT_COMMIT_NOT_IDEMPOTENT
    if
    :: kind == COMMIT && k != next_commit[s] && ordered[s]
#else
    if
    :: kind == COMMIT && k != next_commit[s] /* again */
#endif
    :: else ->
        if
        :: kind == COMMIT -> next_commit[s] = k + 1
        :: else
        fi;
        assert(nfull(orders[s]));
        orders[s]!kind(set, k, q);
        order_next(s)
    fi
}

/* the lane: sums, applies, announces. What is in the slot now was there all the while, for a slot is never written back. */
inline lane_sum(s, w, q)
{
    assert(sealed(s, w, q));                             /* (set) */
    assert(slot[SLOT_PLACE(s, w, q)] == (q) + 1);        /* (slot) */
    whose = whose | CONTRIBUTION(w, q)
}

inline lane_apply(s)
{
    whose = 0;
    if
    :: order_kind[s] == ACCUMULATE ->
        lane_sum(s, order_set[s], order_sequence[s]);
        assert((sums[s] & whose) == 0);
        sums[s] = sums[s] | whose
    :: else ->
#ifdef TF
        whose = sums[s];
        sums[s] = 0;
#else
#ifdef PLANT_SET_PER_SHARD /* each prefers the worker of its own number */
        for (j : 0 .. RING - 1) {
            q_ = PAIR(s, s) * RING + j;
            if
            :: seal_next[q_] > 0 && seal_step[q_] == order_step[s] -> order_set[s] = 1 << s
            :: else
            fi
        }
#endif
        for (w_ : 0 .. WORKERS - 1) {
            for (j : 0 .. RING - 1) {
                q_ = seal_next[PAIR(s, w_) * RING + j];
                if
                :: q_ > 0 && seal_step[PAIR(s, w_) * RING + j] == order_step[s] && (order_set[s] >> w_ & 1) ->
                    lane_sum(s, w_, q_ - 1)
                :: else
                fi
            }
        }
#endif
        assert(applied[s] == order_step[s]); /* (once) */
        assert(whose == chosen[order_step[s]]);  /* (set) */
        applied[s]++;
        ready[s] = order_step[s] + 1
    fi;
    lane_done[s] = 1
}

/* ---- the leader: ps/shard/leader.c ---- */

inline leader_spread(kind, set, k, q)
{
    tell(SHARD(1), to_shard, kind, set, k, q);
    if
    :: kind == COMMIT -> tell(SHARD(1), to_shard, kind, set, k, q); shard_order(LEADER, kind, set, k, q)
    :: else
    fi;
    shard_order(LEADER, kind, set, k, q)
}

inline leader_token(w, k, q, stale)
{
    if
#ifdef PLANT_TOKEN_LOST
    :: w == 1 && k == 1
#endif
    :: left[PAIR(LEADER, w)] || lost[PAIR(LEADER, w)]
    :: else ->
#ifdef PLANT_TOKEN_TWICE
        if
        :: k == 1 -> tell(WORKER(w), down[PAIR(LEADER, w)], TOKEN, k, (q) + 1, stale)
        :: else
        fi;
#endif
        tell(WORKER(w), down[PAIR(LEADER, w)], TOKEN, k, (q) + 1, stale)
    fi
}

#ifdef TF
/* ps/mode/tf.c */
inline mode_settle()
{
    if
    :: !applying && count >= REPLICAS ->
        chosen[step] = round;
        round = 0;
        count = 0;
        issued = issued + WORKERS;
        applying = 1;
        step++;
        leader_spread(COMMIT, 0, step - 1, 0)
    :: else
    fi;
    do
    :: len(takers) > 0 && taken < issued ->
        takers?i;
        assert(!gone[i]); /* (token) */
        n_ = (taken < INITIAL_TOKENS -> 0 : 1 + (taken - INITIAL_TOKENS) / WORKERS);
        taken++;
        waiting[i] = 0;
        leader_token(i, n_, answer[i], answer_stale[i])
    :: else -> break
    od;
    assert(taken <= issued && (empty(takers) || taken == issued)); /* (token) */
    any = 0;
    all = 1;
    for (w_ : 0 .. WORKERS - 1) {
        any = any || !gone[w_];
        all = all && (gone[w_] || waiting[w_])
    }
    failing = failing || (any && all && taken == issued && count < REPLICAS)
}

inline mode_contribute(w, q, k)
{
    answer[w] = q;
    waiting[w] = 1;
    if
#ifdef PLANT_STALE_COUNTS
    :: true ->
#else
    :: k >= step ->
#endif
        assert(k >= step); /* (set) */
        count++;
        round = round | CONTRIBUTION(w, q);
        answer_stale[w] = 0;
        leader_spread(ACCUMULATE, w, k, q)
    :: else ->
        answer_stale[w] = 1;
        leader_spread(RELEASE, w, k, q)
    fi;
    takers!w;
    mode_settle()
}

inline mode_gone(w)
{
    gone[w] = 1;
    n_ = len(takers);
    do
    :: n_ > 0 ->
        n_--;
        takers?i;
        if
        :: i != w -> takers!i
        :: else
        fi
    :: else -> break
    od;
    mode_settle()
}
#else
/* ps/mode/strict.c */
inline mode_settle()
{
    n_ = 0; /* in the set */
    i = 0;  /* those that may be */
    any = 0; /* is somebody awaiting the step? */
    all = 1; /* has everybody who is there handed in? */
    j = 0;
    for (w_ : 0 .. WORKERS - 1) {
        n_ = n_ + member[w_];
        i = i + (!gone[w_] || handed[w_]);
        any = any || (!gone[w_] && handed[w_]);
        all = all && (gone[w_] || handed[w_]);
        j = j || !gone[w_]
    }
    filled = filled || n_ == REPLICAS;
    if
    :: !filled && any && i < REPLICAS -> failing = 1
    :: !filled && !(any && i < REPLICAS) -> filled = all && j
    :: else
    fi;
    if
    :: filled && !failing && !applying ->
        whose = 0;
        n_ = 0;
        for (w_ : 0 .. WORKERS - 1) {
            if
            :: member[w_] -> whose = whose | CONTRIBUTION(w_, entry[w_]); n_ = n_ | (1 << w_)
            :: else
            fi
        }
        chosen[step] = whose;
        applying = 1;
        filled = 0;
        step++;
        leader_spread(COMMIT, n_, step - 1, 0);
        for (w_ : 0 .. WORKERS - 1) {
            if
            :: handed[w_] -> leader_token(w_, step, entry[w_], !member[w_])
            :: else
            fi;
            handed[w_] = 0;
            member[w_] = 0;
            entry[w_] = 0
        }
    :: else
    fi
}

inline mode_contribute(w, q, k)
{
    assert(k <= step);
    if
#ifndef PLANT_STALE_COUNTS
    :: k < step -> leader_token(w, step, q, 1)
#endif
    :: else ->
        assert(!handed[w]);
        handed[w] = 1;
        entry[w] = q;
        member[w] = !filled;
#ifndef TOGETHER
        mode_settle() /* else once all are in */
#endif
    fi
}

inline mode_gone(w)
{
    gone[w] = 1;
#ifndef TOGETHER
    mode_settle()
#endif
}
#endif

#ifdef TOGETHER
inline leader_complete(from, w, k, q)
{
    complete_next[from] = (k + 1 > complete_next[from] -> k + 1 : complete_next[from]);
    if
#ifdef PLANT_ONE_SHARD_DECIDES
    :: complete_next[from] > step ->
#else
    :: complete_next[0] > step && complete_next[1] > step ->
#endif
        for (n_ : 0 .. WORKERS - 1) {
            mode_contribute(n_, contributed[n_], step);
            contributed[n_]++
        }
        mode_settle()
    :: else
    fi
}
#else
inline leader_complete(from, w, k, q)
{
    if
    :: (q) < contributed[w]
    :: else ->
        assert((q) == contributed[w]);
        tally[w]++;
        if
#ifdef PLANT_ONE_SHARD_DECIDES
        :: tally[w] == 1 ->
#else
        :: tally[w] == SHARDS ->
#endif
            tally[w] = 0;
            contributed[w]++;
            if
            :: !gone[w] -> mode_contribute(w, q, k)
            :: else
            fi
        :: else
        fi
    fi
}
#endif

inline leader_applied(from, k)
{
    applied_next[from] = k + 1;
    if
    :: applied_next[0] > k && applied_next[1] > k ->
        assert(applying && step == k + 1);
        chosen[k] = 0;
        applying = 0;
        mode_settle()
    :: else
    fi
}

/* a worker left, or is lost, where that does not end the job: the mode is told once */
inline leader_gone(w)
{
    if
    :: gone[w]
    :: else -> mode_gone(w)
    fi
}

/* ---- the gate: ps/shard/gate.c ---- */

#ifdef TOGETHER
inline gate(s)
{
    all = 1;
    for (w_ : 0 .. WORKERS - 1) {
        all = all && whole(s, w_, awaited[s])
    }
    if
    :: all && !complete_sent[s] && !ordered[s] ->
        complete_sent[s] = 1;
#ifdef PLANT_APPLY_BEFORE_COMMIT
        shard_order(s, COMMIT, (1 << WORKERS) - 1, awaited[s], 0);
#endif
        if
        :: s == LEADER -> leader_complete(LEADER, 0, awaited[s], 0)
        :: else -> tell(SHARD(LEADER), to_leader, COMPLETE, 0, awaited[s], 0)
        fi
    :: else
    fi
}
#else
inline gate_of(s, w)
{
    do
    :: !lost[PAIR(s, w)] && whole(s, w, reported_next[PAIR(s, w)]) ->
        q_ = reported_next[PAIR(s, w)];
        reported_next[PAIR(s, w)]++;
#ifdef PLANT_APPLY_BEFORE_COMMIT
        shard_order(s, COMMIT, 1 << w, awaited[s], 0);
#endif
        if
        :: s == LEADER -> leader_complete(LEADER, w, seal_step[SEAL_PLACE(s, w, q_)], q_)
        :: else -> tell(SHARD(LEADER), to_leader, COMPLETE, w, seal_step[SEAL_PLACE(s, w, q_)], q_)
        fi
    :: else -> break
    od
}

inline gate(s)
{
    gate_of(s, 0);
    gate_of(s, 1)
#if WORKERS > 2
    ;gate_of(s, 2)
#endif
    ;skip
}
#endif

/* the lane has done the order */
inline order_progress(s)
{
    ordered[s] = 0;
    lane_done[s] = 0;
    if
    :: order_kind[s] == ACCUMULATE ->
#ifndef PLANT_SLOT_FREED_EARLY
        tell(WORKER(order_set[s]), down[PAIR(s, order_set[s])], RELEASED, 0, order_sequence[s] + 1, 0);
#endif
        skip
    :: else ->
        awaited[s] = order_step[s] + 1;
        complete_sent[s] = 0;
        if
        :: s == LEADER -> leader_applied(LEADER, order_step[s])
        :: else -> tell(SHARD(LEADER), to_leader, APPLIED, 0, order_step[s], 0)
        fi
    fi;
    order_next(s);
    gate(s)
}

/* ---- processes ---- */

/*
 * A notify that comes before its seal, and one that comes after it, have the same effect, at the later of the two: so it is taken behind it, which
 * are fewer orders to look at.
 */
#ifdef PLANT_SEAL_NOT_AWAITED
#define notify_counts(s, w) true
#else
#define notify_counts(s, w) (arrived[SLOT_PLACE(s, w, sealed_next[PAIR(s, w)] + DEPTH - 1)] != sealed_next[PAIR(s, w)])
#endif

/* what worker w says to this shard */
#define FROM_WORKER(w) \
    :: atomic { !lost[PAIR(s, w)] && nempty(push[PAIR(s, w)]) && notify_counts(s, w) -> d_step { \
        push[PAIR(s, w)]?q; \
        arrived[SLOT_PLACE(s, w, q)] = q + 1; \
        q = 0; \
        gate(s) } } \
    :: atomic { !lost[PAIR(s, w)] && up[PAIR(s, w)]?[SEAL] -> d_step { \
        up[PAIR(s, w)]?SEAL(k, q); \
        assert(q == sealed_next[PAIR(s, w)]); \
        sealed_next[PAIR(s, w)]++; \
        seal_next[SEAL_PLACE(s, w, q)] = q + 1; \
        seal_step[SEAL_PLACE(s, w, q)] = k; \
        k = 0; \
        q = 0; \
        gate(s) } } \
    :: atomic { !lost[PAIR(s, w)] && up[PAIR(s, w)]?[LEAVE] && \
                (sealed_next[PAIR(s, w)] == 0 || whole(s, w, sealed_next[PAIR(s, w)] - 1)) -> d_step { \
        up[PAIR(s, w)]?LEAVE(_, _); \
        left[PAIR(s, w)] = 1; \
        tell(WORKER(w), down[PAIR(s, w)], LEFT, 0, 0, 0); \
        if \
        :: s == LEADER -> leader_gone(w) \
        :: else \
        fi } } \
    :: atomic { !left[PAIR(s, w)] && !lost[PAIR(s, w)] && notices(WORKER(w), up[PAIR(s, w)]) -> LOSES(w) }

#define over(s, w) (left[PAIR(s, w)] || lost[PAIR(s, w)])
#if WORKERS > 2
#define all_over(s) (over(s, 0) && over(s, 1) && over(s, 2))
#define all_lost(s) (lost[PAIR(s, 0)] && lost[PAIR(s, 1)] && lost[PAIR(s, 2)])
#else
#define all_over(s) (over(s, 0) && over(s, 1))
#define all_lost(s) (lost[PAIR(s, 0)] && lost[PAIR(s, 1)])
#endif

#if defined(PLANT_DEATH_NOT_TOLD)
#define LOSES(w) lost[PAIR(s, w)] = 1
#elif defined(TF)
/* the job goes on without it, if somebody is left */
#define LOSES(w) \
    lost[PAIR(s, w)] = 1; \
    d_step { DRAIN(up[PAIR(s, w)], THREE); DRAIN(push[PAIR(s, w)], _) }; \
    if \
    :: all_lost(s) -> goto fail \
    :: else -> d_step { \
        if \
        :: s == LEADER -> leader_gone(w) \
        :: else -> tell(SHARD(LEADER), to_leader, GONE, w, 0, 0) \
        fi } \
    fi
#else
#define LOSES(w) goto fail
#endif

proctype shard(byte s)
{
    byte k, q, w;

        do
        FROM_WORKER(0)
        FROM_WORKER(1)
#if WORKERS > 2
        FROM_WORKER(2)
#endif
        :: atomic { ordered[s] && !lane_done[s] -> d_step { lane_apply(s) } }
        :: atomic { lane_done[s] -> d_step { order_progress(s) } }
        /* the other shard */
        :: atomic { s == LEADER && to_leader?[COMPLETE] -> d_step {
            to_leader?COMPLETE(w, k, q);
            leader_complete(1, w, k, q);
            w = 0; k = 0; q = 0 } }
        :: atomic { s == LEADER && to_leader?[APPLIED] -> d_step {
            to_leader?APPLIED(_, k, _);
            leader_applied(1, k);
            k = 0 } }
#ifdef TF
        :: atomic { s == LEADER && to_leader?[GONE] -> d_step {
            to_leader?GONE(w, _, _);
            lost[PAIR(s, w)] = !left[PAIR(s, w)];
            leader_gone(w);
            w = 0 } }
#endif
        :: atomic { s == LEADER && to_leader?[DONE] -> to_leader?DONE(_, _, _); peer_done = 1 }
        :: atomic { s != LEADER && to_shard?[COMMIT] -> d_step {
            to_shard?COMMIT(w, k, q);
            shard_order(s, COMMIT, w, k, q);
            w = 0; k = 0; q = 0 } }
#ifdef TF
        :: atomic { s != LEADER && to_shard?[ACCUMULATE] -> d_step {
            to_shard?ACCUMULATE(w, k, q);
            shard_order(s, ACCUMULATE, w, k, q);
            w = 0; k = 0; q = 0 } }
        :: atomic { s != LEADER && to_shard?[RELEASE] -> d_step {
            to_shard?RELEASE(w, k, q);
            shard_order(s, RELEASE, w, k, q);
            w = 0; k = 0; q = 0 } }
#endif
        :: atomic { s == LEADER && !peer_done && notices(SHARD(1), to_leader) -> goto fail }
        :: atomic { s != LEADER && notices(SHARD(LEADER), to_shard) -> goto fail }
        :: atomic { s == LEADER && failing -> goto fail }
        MAY_DIE
        /* every worker has left */
        :: atomic { all_over(s) && s == LEADER && peer_done -> break }
        :: atomic { all_over(s) && s != LEADER -> tell(SHARD(LEADER), to_leader, DONE, 0, 0, 0); break }
        od;
        atomic { state[SHARD(s)] = ENDED; d_step { forget_shard(s); s = 0 } };
        goto end;
    fail:
    dies:
        atomic { fails(SHARD(s)); d_step { forget_shard(s); s = 0 } };
    end:
        skip
}

#define shard_notices(w, t) notices(SHARD(t), down[PAIR(t, w)])

/* may the slot for contribution `next` be written at shard t? */
#ifdef PLANT_SLOT_REUSED_EARLY
#define slot_free(t) true
#elif defined(TF)
#define slot_free(t) (next < DEPTH || released[t] > next - DEPTH)
#else
#define slot_free(t) (next == 0 || dropped || ready[t] > before)
#endif

/* are the parameters of this step still there? Order n writes those of step n + 1 over those of step n - 1. */
#define readable(t, k) (applied[t] <= (k) + 1 && !(ordered[t] && order_kind[t] == COMMIT && order_step[t] == (k) + 1))

#define PUSH(t) \
    :: atomic { !out[t] && slot_free(t) -> d_step { \
        slot[SLOT_PLACE(t, w, next)] = next + 1; \
        out[t] = 1; \
        if \
        :: state[SHARD(t)] == ALIVE -> assert(nfull(push[PAIR(t, w)])); push[PAIR(t, w)]!next \
        :: else \
        fi } }

#define RELEASED_BY(t) :: atomic { down[PAIR(t, w)]?[RELEASED] -> down[PAIR(t, w)]?RELEASED(_, released[t], _) }

#define LEAVE_SHARD(t) \
    atomic { say(w, t, LEAVE, 0, 0) }; \
    do \
    RELEASED_BY(t) \
    :: atomic { down[PAIR(t, w)]?[LEFT] -> down[PAIR(t, w)]?LEFT(_, _, _); break } \
    :: atomic { shard_notices(w, t) || shard_notices(w, LEADER) -> goto fail } \
    MAY_DIE \
    od

proctype worker(byte w)
{
    byte at, before;            /* the step it is in; that of the contribution before */
    byte next;                  /* the number of its next contribution */
    byte token, answers;        /* what came */
    bit dropped;                /* was the contribution before stale? */
    bit out[SHARDS];
    byte released[SHARDS];

        do
        :: atomic { down[PAIR(LEADER, w)]?[TOKEN] -> d_step {
            down[PAIR(LEADER, w)]?TOKEN(token, answers, dropped);
            assert(answers == next); /* (token) */
            answers = 0;
            assert(token <= step); /* (release) */
            before = at;
            at = token;
            token = 0 } }
            if
#ifndef TOGETHER
            :: skip
#endif
            :: do /* pull; in lockstep a push waits for the same */
               :: atomic { ready[0] >= at && ready[1] >= at ->
                   assert(applied[0] >= at && applied[1] >= at); /* (release) */
                   break }
               :: atomic { shard_notices(w, 0) || shard_notices(w, 1) -> goto fail }
               MAY_DIE
               od
            fi;
            if
            :: at == STEPS -> break
            :: else
            fi;
            do
            PUSH(0)
            PUSH(1)
            RELEASED_BY(0)
            RELEASED_BY(1)
            :: atomic { out[0] && out[1] -> d_step {
#ifdef TOGETHER
                assert(readable(0, at) && readable(1, at)); /* (release) */
#endif
                say(w, 0, SEAL, at, next);
                say(w, 1, SEAL, at, next);
                next++;
                out[0] = 0;
                out[1] = 0;
                dropped = 0 }
                break }
            :: atomic { shard_notices(w, 0) || shard_notices(w, 1) -> goto fail }
            MAY_DIE
            od
        RELEASED_BY(0)
        RELEASED_BY(1)
        :: atomic { shard_notices(w, 0) || shard_notices(w, 1) -> goto fail }
        MAY_DIE
        od;
        LEAVE_SHARD(1);
        LEAVE_SHARD(LEADER);
        atomic {
            assert(step == STEPS && applied[0] + 1 >= STEPS && applied[1] + 1 >= STEPS); /* (once) */
            d_step { state[WORKER(w)] = ENDED; forget_worker(w); w = 0 };
            goto end };
    fail:
    dies:
        atomic { fails(WORKER(w)); d_step { forget_worker(w); w = 0 } };
    end:
        skip
}

init
{
    atomic {
        issued = INITIAL_TOKENS;
        for (i : 0 .. WORKERS - 1) {
            down[PAIR(LEADER, i)]!TOKEN(0, 0, 0);
            run worker(i)
        }
        run shard(0);
        run shard(1)
    }
}
