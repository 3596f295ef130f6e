/* How a number that stands for a label set is allocated, used and used again, for
 * `spin`. The appendix of 165, 165-policies-in-packets.md, says what this checks and
 * how to run it.
 *
 * Operators 1 and 2 may both believe that they lead: a write that was decided with
 * the lease may arrive after the other one has taken it, or never. The API server
 * does one thing at a time: create by name, delete and release by UID, patch of an
 * Address that still has the number that it is to lose. Nodes read the API at any
 * moment, each for itself, and keep what they have read. The labels of the pod
 * change at any moment, the pod ends and comes back, and somebody deletes identities.
 *
 * Time is in one place: an identity is deleted or released only while no write is on
 * its way that gives its number to an Address, because Life is longer than any
 * write takes. */
#define SETS 2
#define NUMBERS 2
#define USED(n)    (num == n)
#ifdef NO_LIFE
#define IDLE(n)    (!USED(n))
#else
#define IDLE(n)    (!USED(n) && gives[1] != n && gives[2] != n)
#endif
#define LIVES(n, s) (obj[n] == s && !del[n])
#ifdef KNOWS_DELETED
#define KNOWN(n)   (obj[n])
#else
#define KNOWN(n)   (del[n] -> 0 : obj[n])
#endif

/* The API: the set of each identity (0: there is none), whether it is being deleted,
 * and the Address of the pod: its number, and the set that the operator gave it for. */
byte obj[NUMBERS + 1], num, means, lease = 1;
bool del[NUMBERS + 1];
/* The set of the pod's labels, 0 if there is no pod. */
byte labels;
/* gives[o] is the number that operator o is about to write to the Address, and ends[o]
 * the identity that it is about to delete or release: it names the UID, so another
 * object of that number is not meant. */
byte gives[3], ends[3];
/* asked: the call covers this identity. replied: the node has read the API since. */
bool asked[NUMBERS + 1], replied[3];
/* Node 1 runs the pod: the number of its packets, and the set that they come from. Node
 * 2 receives them: the sets that it knows the numbers for. What a node does with its own
 * packets follows from the API, because a node reads both at once. */
byte sent, meant, known[NUMBERS + 1];

#ifdef NEVER_AGAIN
byte was[NUMBERS + 1];
#endif

inline right() {
	assert(!num || !obj[num] || obj[num] == means);         /* the API */
	assert(!sent || !known[sent] || known[sent] == meant)   /* the nodes */
}
inline forget() { n = 0; s = 0; from = 0; step = 0; gives[me] = 0; ends[me] = 0 }
inline unmean() {
	if :: ends[1] == n -> ends[1] = 0 :: else fi;
	if :: ends[2] == n -> ends[2] = 0 :: else fi
}

proctype Operator(byte me) {
	byte n, s, from, step;
end:	do
	:: atomic {
		select (n : 1 .. NUMBERS);
		s = labels;
		if
		:: lease != me -> lease = me; asked[1] = false; asked[2] = false     /* a new term */
		:: lease == me && s && LIVES(n, s) && num != n -> from = num; gives[me] = n; step = 1
		:: lease == me && s && !obj[n] && !USED(n) && !LIVES(1, s) && !LIVES(2, s) -> step = 2
		:: lease == me && obj[n] && !del[n] && IDLE(n) -> ends[me] = n; step = 3
		:: lease == me && del[n] && IDLE(n) && !asked[n] ->                  /* a call covers all that rest */
			asked[1] = del[1] && IDLE(1); asked[2] = del[2] && IDLE(2);
			replied[1] = false; replied[2] = false
#ifdef NO_CALL
		:: lease == me && del[n] && IDLE(n) -> ends[me] = n; step = 4
#else
		:: lease == me && del[n] && IDLE(n) && asked[n] && replied[1] && replied[2] -> ends[me] = n; step = 4
#endif
		:: else
		fi;
		if :: step == 0 -> forget() :: else fi
	   };
	   if
	   :: step == 1 -> atomic {                             /* patch or create the Address; late, or never */
		if
		:: num == from && labels -> num = n; means = s
		:: skip
		fi;
		right(); forget()
	     }
	   :: step == 2 -> atomic {                             /* create the identity */
		if
		:: !obj[n] ->
#ifdef NEVER_AGAIN
			assert(!was[n] || was[n] == s); was[n] = s;
#endif
			obj[n] = s; del[n] = false; unmean()
		:: skip
		fi;
		right(); forget()
	     }
	   :: step == 3 -> atomic { if :: ends[me] == n && obj[n] -> del[n] = true :: skip fi; forget() }
	   :: step == 4 -> atomic {
		if :: ends[me] == n && del[n] -> obj[n] = 0; del[n] = false; asked[n] = false; unmean() :: skip fi;
		forget()
	     }
	   :: else
	   fi
	od
}

proctype Node(byte me) {
end:	do
	:: atomic {
		if
		:: me == 1 -> sent = num; meant = means
		:: else -> known[1] = KNOWN(1); known[2] = KNOWN(2)
		fi;
		replied[me] = true;
		right()
	   }
	od
}

proctype People() {
	byte s;
end:	do
	:: atomic {
		select (s : 0 .. SETS);
		if
		:: labels = s                                   /* other labels, an end, a successor */
		:: !labels && num -> num = 0; means = 0         /* the daemon releases the Address */
		:: s && obj[s] -> del[s] = true                 /* identity s is deleted by hand */
		:: else
		fi;
		s = 0
	   }
	od
}

init { atomic { run Operator(1); run Operator(2); run Node(1); run Node(2); run People() } }
