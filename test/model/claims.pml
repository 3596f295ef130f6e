/* How an address is claimed, used and released, for `spin`. 042-a-model-of-claims.md
 * says what this checks and how to run it.
 *
 * Operators 1 and 2 may both believe that they lead: a write that was checked
 * against the lease may arrive after the other one has taken it. The API server
 * does one thing at a time: create by name, delete and patch by UID. Operators
 * and daemon may end between any two writes, and go on with what is in the API
 * and in the journal. Pods are deleted at any moment, also by force, which leaves
 * the sandbox behind. */
#ifndef PODS
#define PODS 2              /* that ever live: a UID is never used again */
#endif
#define IPS 2
#define RELEASER 3          /* beside operators 1 and 2 */
#define LIVE(u)     (pod[u] == live)
#define HELD(u)     (obj[1] == u -> 1 : (obj[2] == u -> 2 : 0))
#define ALONE(u)    ((obj[1] == u) + (obj[2] == u) == 1)
#ifdef FORGER               /* writes the status of pod 2, whose tenant may not use IP 2 */
#define MAY(u, ip)  (u != 2 || ip != 2)
#else
#define MAY(u, ip)  true
#endif
/* Told is held: what a living pod was told is given to nobody else. Of a status that
 * anybody may have written this is true only as far as the pod could claim the IP. */
#ifdef TRUST_STATUS
#define KEPT(u, ip) (LIVE(u) && told[u] == ip)
#else
#define KEPT(u, ip) (LIVE(u) && told[u] == ip && MAY(u, ip))
#endif
#define FREE(ip)    (obj[ip] == 0 && !KEPT(1, ip) && !KEPT(2, ip) && !KEPT(PODS, ip))
#define OTHER(u, v, ip) (u != v && attached[v] == ip)

#define ROGUE (PODS + 1)    /* an object that names a pod which is on another node */

mtype = {unborn, live, leaving, gone};

/* The API: who has the Address of an IP (0: there is none), what a pod was told,
 * and what became of the pod. meant[p] is the IP whose object process p is about
 * to delete: it names the object's UID, so another object of that IP is not meant. */
byte obj[IPS + 1], told[PODS + 1], lease = 1, meant[RELEASER + 1];
mtype pod[PODS + 1] = unborn;
/* The node: what the journal has begun for a pod's sandbox, and the IP with which
 * the sandbox is attached. */
byte begun[PODS + 1], attached[PODS + 1];

inline pick() { select (u : 1 .. PODS); select (ip : 1 .. IPS) }
inline forget() { u = 0; ip = 0; step = 0 }
inline unmean(p) { if :: meant[p] == ip -> meant[p] = 0 :: else fi }
inline create() {
#ifdef FORGER
	assert(MAY(u, ip));
#endif
	if :: obj[ip] == 0 -> obj[ip] = u; unmean(1); unmean(2); unmean(RELEASER) :: else fi
}
inline delete(p) { if :: meant[p] == ip -> obj[ip] = 0; meant[p] = 0 :: else fi }

proctype Operator(byte me) {
	byte u, ip, step;
end:	do
	:: atomic {
		pick();
		if
		:: lease != me -> lease = me                    /* it takes over */
#ifdef FORGER
		:: lease == me && LIVE(u) && !HELD(u) && FREE(ip) && MAY(u, ip) -> step = 1    /* a new pod, whatever its status says */
		:: lease == me && LIVE(u) && HELD(u) && told[u] != HELD(u) -> told[u] = HELD(u)
#else
		:: lease == me && LIVE(u) && !told[u] && (HELD(u) || FREE(ip)) ->
			ip = (HELD(u) -> HELD(u) : ip); step = 1
#endif
		:: lease == me && KEPT(u, ip) && !obj[ip] -> step = 3
#ifdef THIEF
		:: obj[ip] == ROGUE -> obj[ip] = 0              /* it counts for nothing */
#endif
#ifdef TRUST_TOKENS
		:: lease == me && LIVE(u) && obj[ip] == u && told[u] && told[u] != ip -> step = 2  /* "the sandbox's" */
#endif
		:: lease == me && LIVE(u) && obj[ip] == u && told[u] && told[u] != ip && obj[told[u]] == u ->
			meant[me] = ip; step = 4
		:: else
		fi;
		if :: step == 0 -> forget() :: else fi
	   };
	   if
	   :: step == 1 ->                                      /* claim; late, or never: it ended */
		atomic { if :: create() :: skip fi; step = 2 };
		atomic {                                        /* and tell it; or never */
#ifdef LATE_PATCH
			if :: lease == me && obj[ip] == u -> step = 5 :: else -> forget() :: forget() fi
#else
			if
			:: lease == me && obj[ip] == u && LIVE(u) ->
#ifdef THIEF
				assert(!told[u] || told[u] == ip);   /* nobody is told twice */
#endif
				told[u] = ip
			:: else
			:: skip
			fi;
			forget()
#endif
		}
	   :: step == 3 -> atomic { create(); forget() }        /* again what the pod was told */
	   :: step == 4 -> atomic { delete(me); forget() }      /* a second one, of a late write */
	   :: else
	   fi;
	   if :: step == 5 -> atomic { if :: LIVE(u) -> told[u] = ip :: else fi; forget() } :: else fi
	od
}

proctype Daemon() {         /* its ADD and DEL; it forgets at its start what it did not attach */
	byte u, ip, step;
end:	do
	:: atomic {
		pick();
		if
		:: LIVE(u) && !begun[u] && told[u] && obj[told[u]] == u && ALONE(u) -> ip = told[u]; step = 1
		:: attached[u] -> attached[u] = 0; step = 4     /* DEL, or the sandbox ended */
		:: else -> forget()
		fi
	   };
	   if
	   :: step == 1 ->
		begun[u] = ip;
#ifndef NO_SECOND_LOOK
		atomic { if :: LIVE(u) :: else -> step = 4 fi };
#endif
		if
		:: atomic { step == 1 -> assert(!OTHER(u, 1, ip) && !OTHER(u, 2, ip) && !OTHER(u, PODS, ip)); attached[u] = ip; forget() }
		:: step = 4
		fi
	   :: else
	   fi;
	   if :: step == 4 -> atomic { begun[u] = 0; forget() } :: else fi
	od
}

proctype Releaser() {       /* the daemon's other half gives back what no attachment holds */
	byte u, ip, step;
end:	do
	:: atomic {
		pick();
		if :: obj[ip] == u && !LIVE(u) -> meant[RELEASER] = ip; step = 1 :: else -> forget() fi
	   };
	   if
	   :: step == 1 -> atomic { if :: !begun[u] -> step = 2 :: else -> meant[RELEASER] = 0; forget() fi }
	   :: else
	   fi;
	   if :: step == 2 -> atomic { if :: delete(RELEASER) :: meant[RELEASER] = 0 fi; forget() } :: else fi
	od
}

#ifdef THIEF
proctype Thief() {          /* has the token of another node, where none of the pods is */
	byte u, ip, left = 3;
end:	do
	:: atomic {
		pick();
		if
		:: left && obj[ip] == 0 ->
			left--;
#ifdef TRUST_TOKENS
			obj[ip] = u
#else
			obj[ip] = ROGUE
#endif
		:: left && obj[ip] == ROGUE -> left--; obj[ip] = 0
		:: else
		fi;
		u = 0; ip = 0
	   }
	od
}
#endif

#ifdef FORGER
proctype Forger() {         /* may write the status of pod 2: any IP, or none */
	byte ip;
end:	do
	:: atomic { select (ip : 0 .. IPS); if :: LIVE(2) -> told[2] = ip :: else fi; ip = 0 }
	od
}
#endif

proctype People() {         /* pods 1 and 3 have one name: 3 is born when 1 is gone from the API */
	byte u, ip, step;
end:	do
	:: atomic {
		pick();
		if
		:: pod[u] == unborn && (u != 3 || pod[1] == gone) -> pod[u] = live
		:: LIVE(u) -> pod[u] = leaving
		:: LIVE(u) -> pod[u] = gone                     /* by force: its sandbox may run on */
		:: pod[u] == leaving && !attached[u] && !begun[u] -> pod[u] = gone
		:: else
		fi;
		forget()
	   }
	od
}

init {
	atomic {
		run Operator(1); run Daemon(); run Releaser(); run People();
#ifdef THIEF
		run Thief()     /* in the place of the second operator: one search for each */
#else
#ifdef FORGER
		run Forger()    /* likewise */
#else
		run Operator(2)
#endif
#endif
	}
}
