/* How a packet finds its destination where bouncers and dividers have the tables, for
 * `spin`. 149-a-model-of-roles.md says what this checks and how to run it.
 *
 * A pod on node 1 sends to one address. It is attached on node 2 or 3 (with -DHOME also on
 * node 1), moves between them, and is absent in between. Two nodes are candidates for
 * bouncers of its subnet: 2 and 3, or with -DSELF 1 and 3. Node 4 is the divider. One
 * packet is on its way at a time; everything else happens at any moment between its hops.
 * Every node reads the API late, and none at the same time as another. */
#ifdef SELF
#define P 1
#else
#define P 2
#endif
#define Q 3
#define SOURCE 1
#define DIVIDER 4
#define LIAR 3              /* a known node that sends what it likes, with -DHOSTILE */
#define TWIN 3              /* has the same IP in another VPC */
/* No node programs a row that leads to the node itself. */
#define OTHER(r, n) (r == n -> 0 : r)
#define BIT(n) (n == P -> 1 : (n == Q -> 2 : 0))
#define IN(set, n) (BIT(n) & set)
#define LISTED ((stage[P] == listed -> 1 : 0) + (stage[Q] == listed -> 2 : 0))
/* All daemons have told that they list it no more, and what they sent before has come. */
#ifdef STOPS_EARLY
#define LEFT(b) true
#else
#define LEFT(b) (!IN(known, b) && !IN(knownD, b) && !(class && at == b))
#endif

/* To a wrong node, back, to a divider, to a bouncer, to the node: four extra hops. */
#ifndef SENDS
#define SENDS 5
#endif

mtype = {none, joining, listed, leaving};
mtype = {no_endpoint, role_incomplete, not_member, no_member, wrong_node, returned_foreign, returned_home};

/* Classes of packets, in the order in which they rise; 0: no packet is on its way. */
#define NEW 1
#define DIRECT 2
#define RETURNED 3
#define TO_DIVIDER 4
#define TO_BOUNCER 5
#define FROM_BOUNCER 6

/* The truth: the node where the address is attached, and the one its Address names. */
byte here = 2, api = 2;
/* Node 1: its cached row, and what the API server has answered and is not in the map yet. */
byte cached, answer;
#ifdef HOSTILE
#define LED(n) (n == cached || n == before || n == row[SOURCE])
#else
#define LED(n) true
#endif
/* The node to which the row led before, for a second: a row changes once in that time, and
 * a packet comes back sooner. */
byte before;
bool moved;
/* Candidates: their part in the life of a member, their row of the address, and whether
 * their table is complete. */
mtype stage[5] = none;
byte row[5];
bool whole[5];
/* The members that node 1 and the divider know of. */
byte known = 2, knownD = 2;
/* The packet: the node that it reaches next, its outer source while that matters, its
 * class, how often it was sent. forged: by the liar. calm: sent when SETTLED. */
byte at, from, class, sends;
bool forged, calm;
hidden byte next;
/* The address does not move any more; calm packets that were returned. */
bool quiet;
byte returns;

/* The address stays, and everything that has its row knows so. Members still change. */
#define AGREES(b) (row[b] == api || (!whole[b] && !row[b]))
#define SETTLED (quiet && api && here == api && (!answer || answer == api) && AGREES(P) && AGREES(Q))

inline gone() { moved = false; at = 0; from = 0; class = 0; sends = 0; forged = false; calm = false }

inline drop(reason) {
	assert(forged || (reason != not_member && reason != no_member));        /* a change of members loses nothing */
	assert(!calm || reason == role_incomplete);         /* no black hole */
	gone()
}

inline deliver() {
	assert(at == here);                                 /* so never in another VPC */
	assert(!forged || at != SOURCE);                    /* nor as one of its own pods */
	gone()
}

inline send(to, rises) {
#ifndef FLAT
	assert(rises > class);
#endif
	sends++;
	assert(sends <= SENDS);                             /* no loop */
	next = to; from = (rises <= RETURNED -> at : 0); at = next; class = rises
}

/* By a member that is listed as far as the node knows; another one in the next slot. */
inline to_member(set, self) {
	if
	:: IN(set, P) && P != self -> send(P, TO_BOUNCER)
	:: IN(set, Q) && Q != self -> send(Q, TO_BOUNCER)
	:: !(IN(set, P) && P != self) && !(IN(set, Q) && Q != self) -> drop(no_member)
	fi
}

/* What node 1 does where it has no row, or must not use it: it may have the subnet. */
inline by_role() {
	if
	:: stage[SOURCE] != none && !IN(known, Q) -> drop(role_incomplete)      /* only itself */
	:: stage[SOURCE] == none || IN(known, Q) -> to_member(known, SOURCE)
	:: stage[SOURCE] == none -> send(DIVIDER, TO_DIVIDER)
	fi
}

inline set_out() {
	if
	:: OTHER(row[SOURCE], SOURCE) -> send(row[SOURCE], DIRECT)
	:: !OTHER(row[SOURCE], SOURCE) && cached -> send(cached, DIRECT)
	:: else ->
		if
		:: whole[SOURCE] -> drop(no_endpoint)
		:: else -> by_role()
		fi
	fi
}

/* A row changes, or is deleted. Where it led is of use beside a liar only. */
inline put(node) {
#ifdef HOSTILE
	if
	:: cached && cached != node -> before = cached; moved = (class != 0)
	:: else
	fi;
#endif
	cached = node
}

inline come_back() {
	if
	:: at != SOURCE -> drop(returned_foreign)           /* not from a pod of this node */
	:: at == SOURCE && here == SOURCE ->
#ifdef DELIVERS_RETURNED
		deliver()
#else
		drop(returned_home)
#endif
#ifndef REFLECTS
	:: at == SOURCE && here != SOURCE && !LED(from) ->
		drop(returned_foreign)
	:: at == SOURCE && here != SOURCE && LED(from) ->
#else
	:: at == SOURCE && here != SOURCE ->
#endif
		assert(!forged || LED(from));               /* no node sends for another */
		if
#ifdef KEEPS_ROW
		:: skip
#elif defined(BELIEVES_ANYBODY)
		:: assert(!quiet || cached != here || from == cached); put(0)
#else
		:: cached == from -> assert(!calm || cached != here); put(0)
		:: else
#endif
		fi;
		by_role()
	fi
}

inline bounce() {
	if
	:: stage[at] == none -> drop(not_member)
	:: OTHER(row[at], at) -> send(row[at], FROM_BOUNCER)
	:: stage[at] != none && row[at] == at -> drop(wrong_node)       /* it is about to be attached, or is gone */
	:: stage[at] != none && !row[at] ->
#ifdef ANSWERS_EARLY
		drop(no_endpoint)
#elif defined(FLAT)
		if :: whole[at] -> drop(no_endpoint) :: !whole[at] && LISTED == 3 -> to_member(LISTED, at) :: else -> drop(role_incomplete) fi
#else
		if :: whole[at] -> drop(no_endpoint) :: else -> drop(role_incomplete) fi
#endif
	fi
}

inline arrive() {
	if
	:: class == NEW && at == here -> deliver()
	:: class == NEW && at != here -> set_out()
	:: class == RETURNED -> come_back()
	:: class != NEW && class != RETURNED && at == SOURCE -> drop(wrong_node)        /* spoofed_local */
#ifdef BY_IP
	:: class != NEW && class != RETURNED && at == TWIN -> deliver()
	:: class != NEW && class != RETURNED && at == here && at != TWIN -> deliver()
	:: at != here && at != TWIN && class == DIRECT -> send(from, RETURNED)
#else
	:: class != NEW && class != RETURNED && at == here && at != SOURCE -> deliver()
	:: at != here && at != SOURCE && class == DIRECT ->
		returns = returns + calm;
		assert(returns <= 1);                       /* a stale row costs one of them */
		send(from, RETURNED)
#endif
	:: at != here && at != SOURCE && class == TO_DIVIDER ->
		if
		:: at != DIVIDER -> drop(not_member)
		:: at == DIVIDER -> drop(role_incomplete)   /* it has just started again */
		:: at == DIVIDER -> to_member(knownD, DIVIDER)
		fi
	:: at != here && at != SOURCE && class == TO_BOUNCER -> bounce()
	:: at != here && at != SOURCE && class == FROM_BOUNCER -> drop(wrong_node)
	fi
}

proctype Packets() {
end:	do
	:: atomic { !class -> at = SOURCE; class = NEW; calm = SETTLED }
	:: atomic { class -> arrive() }
#ifdef HOSTILE
	:: atomic {                                         /* the underlay keeps it from using others' addresses */
		!class -> forged = true; from = LIAR;
		if :: at = 1 :: at = 2 :: at = 4 fi;
		select (class : DIRECT .. FROM_BOUNCER);
		sends = class - DIRECT
	   }
#endif
	od
}

/* Of node 1 and of the divider. It asks for one Address by its name, because of a miss or
 * to read a row again: here at any moment. */
proctype Daemons() {
end:	do
	:: atomic { !answer && api -> answer = api }
	:: atomic { !api && !moved -> put(0) }              /* not found */
	:: atomic { answer && !moved -> put(OTHER(answer, SOURCE)); answer = 0 }
	:: atomic { cached && !moved -> put(0) }            /* five minutes, its node is not ready, the budget */
	:: atomic { known != LISTED -> known = LISTED }
	:: atomic { knownD != LISTED -> knownD = LISTED }
	od
}

/* A candidate's daemon, and what the operator does about it. */
proctype Candidate(byte me) {
end:	do
#ifndef HOSTILE
	:: atomic { stage[me] != none && whole[me] -> whole[me] = false; row[me] = 0 }       /* it starts again */
	:: atomic { stage[me] == none -> stage[me] = joining }
	:: atomic { stage[me] == listed && LISTED == 3 -> stage[me] = leaving }
#endif
	:: atomic { stage[me] != none && row[me] != api -> row[me] = api }
	:: atomic { stage[me] != none && !whole[me] -> whole[me] = true; row[me] = api }
	:: atomic { stage[me] == joining && whole[me] && !(me == SOURCE && class) -> stage[me] = listed }
	:: atomic { stage[me] == leaving && LEFT(me) -> stage[me] = none; whole[me] = false; row[me] = 0 }
	od
}

proctype People() {
end:	do
	:: atomic { here && !quiet -> here = 0 }
	:: atomic { api && !here && !quiet -> api = 0 }     /* released after it is detached */
	:: atomic { !api -> if :: api = 2 :: api = 3
#ifdef HOME
		:: api = SOURCE
#endif
		fi }
	:: atomic { api && !here -> here = api }
	:: atomic { !quiet && !class -> quiet = true }
	od
}

init {
	atomic {
		stage[Q] = listed; whole[Q] = true; row[Q] = 2;
#ifdef HOSTILE
		stage[P] = listed; whole[P] = true; row[P] = 2; known = 3; knownD = 3;
#endif
		run Packets(); run Daemons(); run Candidate(P); run Candidate(Q); run People()
	}
}
