/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Copyright The Alioth Authors. */

/* The verdict of an interface's rules about a flow (docs/design/165). A flow gets one list of
 * ports from the identity of its peer, and one from the peer's address. A list gives the first
 * rule of each tier for the flow's port. The earlier rule of all lists decides the tier.
 */
#ifndef ALIOTH_RULES_H
#define ALIOTH_RULES_H

#include "follow.h"
#include "maps_policy.h"
#include "work.h"

/* The caller describes the packet to the judgement by these flags. */
enum judging_flag {
	JUDGE_INGRESS = 1 << 0, /* to the interface; otherwise from it */
	JUDGE_OUTSIDE = 1 << 1, /* the peer is reached from the shadow address */
	JUDGE_SHARED = 1 << 2, /* the peer is a backend of a shared service */
	JUDGE_AGAIN = 1 << 3, /* the flow was judged before */
};

/* The identity of a peer that is to be looked up. */
#define IDENTITY_ASKED 0xffffffff

#define SHARED_SPACE_VNI 0
#define NET_BITS (64 + 128)
#define PORT_BITS (80 + 16)

/* State of the judgement of one packet, too large for the stack. */
struct judging {
	struct conn_key flow;
	__u32 how; /* to judge it: in its first direction */
	__u32 ifindex;
	__u32 peer; /* identity */
	__u32 epoch;
	__u32 epoch_slot;
	struct judged value;
	struct policy_peer by_identity;
	struct policy_net by_address;
	struct policy_port by_port;
	struct policy_rules rules;
	struct policy_rank rank; /* of the rule that has decided */
	struct address_key asked;
	struct quote quote;
	struct follow_key slot;
	struct first_fragment first;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, __u32);
	__type(value, struct judging);
	__uint(max_entries, 1);
} judging SEC(".maps");

/* take_judging never returns NULL, but the verifier does not assume so. */
static __always_inline struct judging *take_judging(void)
{
	__u32 only = 0;

	return bpf_map_lookup_elem(&judging, &only);
}

static __always_inline enum reason policy_refusal(__u32 how)
{
	return how & JUDGE_INGRESS ? DROP_POLICY_INGRESS : DROP_POLICY_EGRESS;
}

static __always_inline const struct guarded *enforced_way(const struct guard *guard, __u32 how)
{
	return how & JUDGE_INGRESS ? &guard->ingress : &guard->egress;
}

static __always_inline const struct guarded *rehearsed_way(const struct guard *guard, __u32 how)
{
	return how & JUDGE_INGRESS ? &guard->rehearsed_ingress : &guard->rehearsed_egress;
}

static __always_inline bool has_ports(__u8 proto)
{
	return proto == IPPROTO_TCP || proto == IPPROTO_UDP || proto == IPPROTO_SCTP;
}

/* ask_identity looks up the identity of the peer's address. */
static __always_inline void ask_identity(struct judging *j)
{
	enum identity *found;

	j->asked.vni = j->how & JUDGE_SHARED ? SHARED_SPACE_VNI : j->flow.vni;
	j->asked.ip = j->flow.peer;
	found = bpf_map_lookup_elem(&alioth_identities, &j->asked);
	j->peer = found ? *found : IDENTITY_UNKNOWN;
}

/* add_list adds the rules of a list for the flow's port. */
static __always_inline void add_list(struct judging *j, const __u32 *list)
{
	struct policy_rules *more;

	if (!list || !*list)
		return;
	j->by_port.list = *list;
	more = bpf_map_lookup_elem(&alioth_policy_ports, &j->by_port);
	if (!more)
		return;
	for (int i = 0; i < TIER_LEN; i++)
		if (more->tier[i] &&
		    (!j->rules.tier[i] || (more->tier[i] & RULE_RANK) < (j->rules.tier[i] & RULE_RANK)))
			j->rules.tier[i] = more->tier[i];
}

/* add_peer adds the rules of a set for the identity of the peer. It returns false for an identity
 * that the node does not know.
 */
static __always_inline bool add_peer(struct judging *j, __u32 set)
{
	__u32 *list;

	j->by_identity.vni = j->flow.vni;
	j->by_identity.set = set;
	j->by_identity.space = j->how & JUDGE_SHARED ? SPACE_SHARED : SPACE_VPC;
	j->by_identity.identity = j->peer;
	list = bpf_map_lookup_elem(&alioth_policy_peers, &j->by_identity);
	if (list) {
		add_list(j, list);
		return true;
	}
	if (j->peer < IDENTITY_FIRST)
		return j->peer != IDENTITY_UNKNOWN;
	if (j->how & JUDGE_SHARED)
		j->by_identity.vni = SHARED_SPACE_VNI;
	j->by_identity.set = 0;
	return bpf_map_lookup_elem(&alioth_policy_peers, &j->by_identity);
}

/* add_net adds the rules of a set for an address of the peer. */
static __always_inline void add_net(struct judging *j, __u32 set, const struct addr *ip)
{
	j->by_address.prefixlen = NET_BITS;
	j->by_address.vni = j->flow.vni;
	j->by_address.set = set;
	j->by_address.ip = *ip;
	add_list(j, bpf_map_lookup_elem(&alioth_policy_nets, &j->by_address));
}

/* add_virtual adds the rules for the virtual address of a shared service: the flow's entry in
 * alioth_connections has it. A flow that was translated at its socket has none.
 */
static __always_inline void add_virtual(struct judging *j, __u32 set)
{
	struct conn *service;

	j->flow.direction = CONN_REVERSE;
	service = bpf_map_lookup_elem(&alioth_connections, &j->flow);
	j->flow.direction = CONN_FORWARD;
	if (service)
		add_net(j, set, &service->addr);
}

/* weigh_tiers finds the rule that decides, by the tiers, and returns its action. isolated: the tier of
 * NetworkPolicies refuses what none of its rules allows. Without any rule the flow is allowed; 0
 * is the action then.
 */
static __always_inline __u32 weigh_tiers(struct judging *j, bool isolated)
{
	for (int i = 0; i < TIER_LEN; i++) {
		__u32 rule = j->rules.tier[i], action = rule & RULE_ACTION;

		j->rank.rank = rule & RULE_RANK;
		if (action == RULE_ACCEPT || action == RULE_DENY)
			return action;
		j->rank.rank = RANK_ISOLATED;
		if (i == TIER_NETWORK && !rule && isolated)
			return RULE_DENY;
	}
	return 0;
}

/* by_set returns the verdict of a set: UNDECIDED, or the reason to refuse. A function of its own,
 * because the enforced and the rehearsed set need it.
 */
static __noinline enum reason by_set(__u32 set, __u32 flags)
{
	struct judging *j = take_judging();
	__u32 action;

	if (!j)
		return DROP_REWRITE_FAILED;
	j->rank.vni = j->flow.vni;
	j->rank.set = 0;
	__builtin_memset(&j->rules, 0, sizeof(j->rules));
	j->by_port.prefixlen = PORT_BITS;
	j->by_port.vni = j->flow.vni;
	j->by_port.proto = 0;
	j->by_port.port = 0;
	if (has_ports(j->flow.proto)) {
		j->by_port.proto = j->flow.proto;
		j->by_port.port = j->how & JUDGE_INGRESS ? j->flow.pod_port : j->flow.peer_port;
	}
	if (!add_peer(j, set))
		return DROP_POLICY_UNKNOWN;
	add_net(j, set, &j->flow.peer);
	if (j->how & JUDGE_SHARED)
		add_virtual(j, set);
	action = weigh_tiers(j, flags & GUARDED_ISOLATED);
	if (action)
		j->rank.set = set;
	return action == RULE_DENY ? policy_refusal(j->how) : UNDECIDED;
}

/* count_hit counts the rule that has decided, if one has. */
static __noinline int count_hit(struct judging *j)
{
	struct policy_hits none = {}, *hits;

	if (!j->rank.set)
		return 0;
	hits = bpf_map_lookup_elem(&alioth_policy_hits, &j->rank);
	if (!hits) {
		bpf_map_update_elem(&alioth_policy_hits, &j->rank, &none, BPF_NOEXIST);
		hits = bpf_map_lookup_elem(&alioth_policy_hits, &j->rank);
	}
	if (!hits)
		return 0;
	hits->packets++;
	if (!(j->how & JUDGE_AGAIN))
		hits->flows++;
	return 0;
}

/* judge_again decides about the flow in the work area by the sets of its interface. An interface
 * without a row is one that the daemon has not guarded yet.
 */
__noinline enum reason judge_again(void)
{
	const struct guarded *enforced, *rehearsed;
	struct judging *j = take_judging();
	enum reason reason = UNDECIDED;
	struct guard *guard;

	if (!j)
		return DROP_REWRITE_FAILED;
	guard = bpf_map_lookup_elem(&alioth_guards, &j->ifindex);
	if (!guard)
		return policy_refusal(j->how);
	enforced = enforced_way(guard, j->how);
	rehearsed = rehearsed_way(guard, j->how);
	if (!enforced->set && !rehearsed->set)
		return UNDECIDED;
	if (j->peer == IDENTITY_ASKED)
		ask_identity(j);
	if (enforced->set) {
		reason = by_set(enforced->set, enforced->flags);
		count_hit(j);
	}
	/* Only refusals of the rehearsal count: a flow that both sets allow is not of interest. */
	if (!reason && rehearsed->set && by_set(rehearsed->set, rehearsed->flags) == policy_refusal(j->how))
		count_hit(j);
	return reason;
}

#endif
