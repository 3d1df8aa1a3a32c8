/* One job, its leases and two workers: claim, expiry, rescue, reclaim, settle.
 *
 * A worker may be as slow as it likes between any two of its steps, which is all that a freeze is.
 * A lease may expire at any moment, a worker may die, the answer to a claim or a settle may be lost:
 * each so many times that all ways in which they can meet are tried.
 *
 *     spin -run -safety -noclaim claim.pml                no stale write is accepted
 *     spin -run -f claim.pml                              the job always ends
 *     spin -DNO_TOKEN -run -safety -noclaim claim.pml     without the token: an error is found
 */

#define WORKERS  2
#define EXPIRIES 2
#define LOSSES   2
#define LEASES   6      /* more than WORKERS + EXPIRIES can ever take */

mtype = { ready, running, completed };

/* The database */
mtype state = ready;
byte token = 0;         /* of the attempt that owns the job; 0 for none */
byte last_token = 0;    /* of the attempt that settled it */
byte owner = 0;         /* the lease that owns the job */
byte next_token = 1;
byte next_lease = 1;
bool alive[LEASES];     /* leases that have not expired */

/* What may still go wrong */
byte expiries = EXPIRIES;
byte losses = LOSSES;   /* answers that get lost */
bool may_die = true;

/* What the checker looks at */
byte granted = 0;       /* the last token granted */
byte accepted = 0;      /* settles that changed the job for good */

#define done (state == completed)

inline lose_answer(lost) {
    lost = false;
    if
    :: losses > 0 -> losses--; lost = true
    :: true
    fi
}

inline claim(lease, mine, lost) {
    atomic {
        mine = 0;
        if
        :: state == ready && alive[lease] ->
            state = running; owner = lease;
            token = next_token; next_token++; granted = token; mine = token;
            lose_answer(lost);
            if
            :: lost -> mine = 0
            :: else
            fi
        :: else
        fi
    }
}

inline settle(mine, answered) {
    atomic {
        if
#ifdef NO_TOKEN
        :: state == running ->
#else
        :: state == running && token == mine ->
#endif
            assert(mine == granted);        /* I2: only the last token granted is accepted */
            state = completed; last_token = token; token = 0; owner = 0;
            accepted++;
            assert(accepted == 1)           /* I1: one final state */
        :: else                             /* refused; a repeat finds its own last_token */
        fi;
        lose_answer(answered);
        answered = !answered
    }
}

/* After an answer that was lost: what the lease owns and the worker does not know goes back. */
inline reconcile(lease) {
    atomic {
        if
        :: state == running && owner == lease -> state = ready; token = 0; owner = 0
        :: else
        fi
    }
}

proctype Worker(bool mortal) {
    byte lease, mine;
    bool lost, answered;

take_lease:
    atomic { lease = next_lease; next_lease++; alive[lease] = true }

    do
    :: done -> break
    :: !done && !alive[lease] -> goto take_lease
    :: !done && alive[lease] && state == ready ->
        claim(lease, mine, lost);
        if
        :: lost -> reconcile(lease)
        :: else
        fi;
        if
        :: mine != 0 ->
            /* The handler runs here, for as long as it takes. */
            if
            :: mortal && may_die -> may_die = false; goto dead
            :: true
            fi;
            answered = false;
            do
            :: answered -> break
            :: !answered -> settle(mine, answered)
            od
        :: else
        fi
    od;
    goto ended;
dead:
    /* Nobody renews it any more; some time later it runs out. */
    alive[lease] = false;
ended:
    skip
}

/* Time passes: a lease may run out while its worker lives, because it is frozen or cut off. */
active proctype Time() {
    byte lease;
    do
    :: done -> break
    :: !done && expiries > 0 ->
        select(lease : 1 .. LEASES - 1);
        atomic {
            if
            :: alive[lease] && expiries > 0 -> alive[lease] = false; expiries--
            :: else
            fi
        }
    od
}

active proctype Rescuer() {
    do
    :: done -> break
    :: atomic {
        state == running && !alive[owner] -> state = ready; token = 0; owner = 0
       }
    od
}

init {
    atomic { run Worker(true); run Worker(false) }
}

ltl every_job_ends { <> done }
