/* One job, its leases and two workers: claim, expiry, rescue, reclaim, the mark of a suspect, settle.
 *
 * A worker may be as slow as it likes between any two of its steps, which is all that a freeze is.
 * A lease may expire at any moment, a worker may die with what it has fetched or in its handler, the
 * answer to a claim, a mark or a settle may be lost: each so many times that all ways in which they can
 * meet are tried.
 *
 *     spin -run -safety -noclaim claim.pml                no stale write is accepted, and a job that has
 *                                                         not begun is not failed
 *     spin -run -f claim.pml                              the job always ends
 *     spin -DPOISON -run -f claim.pml                     so does one that kills every worker
 *     spin -DNO_TOKEN -run -safety -noclaim claim.pml     without the token: an error is found
 *     spin -DNO_MARK -run -safety -noclaim claim.pml      with a loss for every rescue: an error is found
 */

#ifdef POISON
#define EXPIRIES   1
#else
#define EXPIRIES   2
#endif
#define LOST       1    /* answers */
#define DEATHS     1    /* of workers, with what they have fetched or in the handler */
#define MAX_LOSSES 1
#define LEASES     14   /* more than can ever be taken */

mtype = { ready, running, completed, failed };

/* The database */
mtype state = ready;
byte token = 0;         /* of the attempt that owns the job; 0 for none */
byte last_token = 0;    /* of the attempt that settled it */
byte owner = 0;         /* the lease that owns the job */
byte begun_token = 0;   /* of the last attempt that was marked before it began */
bool suspect = false;   /* it was taken from a lost worker */
byte losses = 0;
byte next_token = 1;
byte next_lease = 1;
bool alive[LEASES];     /* leases that have not expired */

/* What may still go wrong */
byte expiries = EXPIRIES;
byte lost_answers = LOST;
byte deaths = DEATHS;

/* What the checker looks at */
byte granted = 0;       /* the last token granted */
byte accepted = 0;      /* settles that changed the job for good */
bool has_begun = false; /* some attempt of the job */

#define done (state == completed || state == failed)

inline lose_answer(lost) {
    lost = false;
    if
    :: lost_answers > 0 -> lost_answers--; lost = true
    :: true
    fi
}

inline claim(lease, mine, lost) {
    atomic {
        mine = 0;
        if
        :: state == ready && alive[lease] ->
            state = running; owner = lease;
            token = next_token; next_token++; granted = token; mine = token; marks = suspect;
            lose_answer(lost);
            if
            :: lost -> mine = 0
            :: else
            fi
        :: else
        fi
    }
}

/* Only a suspect is marked. One that has lost its job does not begin. Whoever is marked has as good as
 * begun: a worker that is lost between the mark and the handler's first line cannot be told from one
 * that is lost in the handler. */
inline mark(mine, answered) {
    atomic {
        if
        :: state == running && token == mine -> begun_token = mine; has_begun = true
        :: else -> mine = 0
        fi;
        lose_answer(answered);
        answered = !answered
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
    bool lost, answered, marks;

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
            if
            :: atomic { mortal && deaths > 0 -> deaths-- }; goto dead   /* the job was only fetched */
            :: true
            fi;
            if
            :: marks ->
                answered = false;
                do
                :: answered || mine == 0 -> break
                :: !answered && mine != 0 -> mark(mine, answered)
                od
            :: else
            fi
        :: else
        fi;
        if
        :: mine != 0 ->
            /* The handler runs here, for as long as it takes. */
            has_begun = true;
#ifdef POISON
            goto dead;
#endif
            if
            :: atomic { mortal && deaths > 0 -> deaths-- }; goto dead
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
    /* Nobody renews it any more; some time later it runs out. Another worker comes in its place. */
    atomic { alive[lease] = false; mine = 0; marks = false }
    goto take_lease;
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
        state == running && !alive[owner] ->
            if
#ifdef NO_MARK
            :: true ->
#else
            :: begun_token == token ->
#endif
                losses++;
                if
                :: losses >= MAX_LOSSES ->
                    assert(has_begun);      /* I3: what has not begun is not failed */
                    state = failed
                :: else -> state = ready
                fi
#ifndef NO_MARK
            :: else -> state = ready
#endif
            fi;
            suspect = true; token = 0; owner = 0
       }
    od
}

init {
    atomic { run Worker(true); run Worker(false) }
}

ltl every_job_ends { <> done }
