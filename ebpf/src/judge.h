/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Copyright The Alioth Authors. */

/* The judgement of packets of guarded interfaces by network policies (docs/design/165). The
 * first packet of a flow is judged by the rules. Every later packet of both directions costs one
 * lookup, until the rules of the VPC or the identity of the peer change.
 */
#ifndef ALIOTH_JUDGE_H
#define ALIOTH_JUDGE_H

#include "connection.h"
#include "rules.h"
#include "shadow.h"

#define ICMP_ECHO_REQUEST 8
#define ICMPV6_ECHO_REQUEST 128

/* The directions of fragments that were judged. The same fragments may have another entry, for
 * their translation.
 */
#define FOLLOW_INGRESS DIRECTION_LEN
#define FOLLOW_EGRESS (DIRECTION_LEN + 1)

/* is_judged reports whether the packets of an interface are judged. */
static __always_inline bool is_judged(const struct interface *at)
{
	return at->flags & (INTERFACE_INGRESS_JUDGED | INTERFACE_EGRESS_JUDGED);
}

/* opens_flow reports whether a packet can't belong to a flow that its receiver has opened. */
static __always_inline bool opens_flow(const struct packet *pkt)
{
	if (pkt->proto == IPPROTO_TCP)
		return is_opening(pkt);
	return is_icmp(pkt) && pkt->icmp_type == (pkt->family == FAMILY_V4 ? ICMP_ECHO_REQUEST : ICMPV6_ECHO_REQUEST);
}

/* name_flow makes the key of the packet's flow. Flows of protocols without ports have port 0. */
static __always_inline bool name_flow(struct judging *j, const struct packet *pkt, const struct interface *at,
				      __u32 how)
{
	bool ingress = how & JUDGE_INGRESS, ports = has_ports(pkt->proto) && !pkt->later;
	__be16 own = ingress ? pkt->dport : pkt->sport, other = ingress ? pkt->sport : pkt->dport;

	conn_key(&j->flow, pkt, CONN_FORWARD, own_ip(at, pkt->family), ports ? own : 0, ingress ? &pkt->src : &pkt->dst,
		 ports ? other : 0, pkt->proto, !(how & JUDGE_OUTSIDE));
	return true;
}

/* name_quoted makes the key of the flow that an ICMP error is about. */
static __always_inline bool name_quoted(struct __sk_buff *skb, struct judging *j, const struct packet *pkt,
					const struct interface *at, __u32 how)
{
	bool ingress = how & JUDGE_INGRESS;
	struct quote *q = &j->quote;

	if (read_quote(skb, pkt, q) || !q->l4)
		return false;
	if (ingress ? !addr_equal(&q->src, &pkt->dst) : !addr_equal(&q->dst, &pkt->src))
		return false;
	conn_key(&j->flow, pkt, CONN_FORWARD, own_ip(at, pkt->family), ingress ? q->sport : q->dport,
		 ingress ? &q->dst : &q->src, ingress ? q->dport : q->sport, q->proto, !(how & JUDGE_OUTSIDE));
	return true;
}

static __always_inline void read_epoch(struct judging *j)
{
	__u32 *epoch;

	j->epoch_slot = j->flow.vni & (MAX_EPOCHS - 1);
	epoch = bpf_map_lookup_elem(&alioth_epochs, &j->epoch_slot);
	j->epoch = epoch ? *epoch : 0;
}

/* is_reply reports whether a packet has the other direction than the first packet of its flow. */
static __always_inline bool is_reply(const struct judged *flow, __u32 how)
{
	return !(flow->flags & JUDGED_INGRESS) != !(how & JUDGE_INGRESS);
}

/* judged_ended reports whether a TCP flow was closed from both sides, or reset. */
static __always_inline bool judged_ended(const struct judged *flow)
{
	__u32 asks = flow->flags, answers = flow->flags >> JUDGED_ANSWERS_SHIFT;

	return asks & answers & CONN_FIN || (asks | answers) & CONN_RST;
}

/* seen_flags returns the flags that a packet sets in the state of its flow. */
static __always_inline __u32 seen_flags(const struct judged *flow, const struct packet *pkt, __u32 how)
{
	__u32 flags = CONN_SEEN | conn_closing(pkt);

	return is_reply(flow, how) ? flags << JUDGED_ANSWERS_SHIFT : flags;
}

/* forget_judged ends the flow, which counts for an interface. */
static __always_inline void forget_judged(struct judging *j, const __u32 *ifindex)
{
	if (!bpf_map_delete_elem(&alioth_judged, &j->flow))
		flow_release(&alioth_judged_opened, ifindex);
}

/* How a packet stands to the flows that are known. */
enum standing {
	STANDS_KNOWN, /* of a flow that is allowed */
	STANDS_ALONE, /* of no flow, and opens none */
	STANDS_NEW, /* opens a flow */
	STANDS_REOPENING, /* opens a flow in the place of one that has ended */
	STANDS_BESIDE, /* opens a flow that the other side has opened too: the entry stays */
	STANDS_STALE, /* of a flow that is to be judged again */
};

/* stands_new prepares the judgement of a packet that opens a flow. */
static __always_inline enum standing stands_new(struct judging *j, __u32 how, enum standing standing)
{
	j->how = how;
	j->value.flags = (how & JUDGE_INGRESS ? JUDGED_INGRESS : 0) | (how & JUDGE_SHARED ? JUDGED_SHARED : 0);
	return standing;
}

/* stands_stale prepares the judgement of a known flow, in its first direction. The packet may lack
 * the identity of the peer, or have the identity of another: of a peer outside of the VPC, or
 * that opened the flow, the entry has it.
 */
static __always_inline enum standing stands_stale(struct judging *j, const struct judged *flow, __u32 how, __u32 add,
						  bool tells)
{
	j->how = JUDGE_AGAIN | (how & JUDGE_OUTSIDE) | (flow->flags & JUDGED_INGRESS ? JUDGE_INGRESS : 0) |
		 (flow->flags & JUDGED_SHARED ? JUDGE_SHARED : 0);
	j->value.flags = flow->flags | add;
	if (tells)
		return STANDS_STALE;
	j->peer = IDENTITY_ASKED;
	if (j->how & JUDGE_INGRESS || (j->how & (JUDGE_OUTSIDE | JUDGE_SHARED)) == JUDGE_OUTSIDE)
		j->peer = flow->peer;
	return STANDS_STALE;
}

/* stands_known keeps a known flow alive with the flags that a packet adds, unless the rules of the
 * VPC or the identity of the peer have changed. A packet from outside of the VPC tells the
 * identity in the flow's first direction only.
 */
static __always_inline enum standing stands_known(struct judging *j, struct judged *flow, __u32 how, __u32 add)
{
	bool tells = j->peer != IDENTITY_ASKED && (!(how & JUDGE_OUTSIDE) || !is_reply(flow, how));

	if (flow->epoch != j->epoch || (tells && flow->peer != j->peer))
		return stands_stale(j, flow, how, add, tells);
	if (add)
		flow_touch(&flow->flags, add, &flow->last_seen);
	return STANDS_KNOWN;
}

/* stand finds the flow of a packet. error: the packet is an ICMP error about the flow, which
 * neither opens it nor keeps it alive. A function of its own, for its stack frame.
 */
static __noinline enum standing stand(struct judging *j, const struct packet *pkt, __u32 how, bool error)
{
	struct judged *flow = bpf_map_lookup_elem(&alioth_judged, &j->flow);
	bool opens = !error && opens_flow(pkt);

	/* The flow of an interface that had the address before. */
	if (flow && flow->ifindex != j->ifindex) {
		j->value.ifindex = flow->ifindex;
		forget_judged(j, &j->value.ifindex);
		flow = 0;
	}
	if (!flow) {
		if (error || (pkt->proto == IPPROTO_TCP && !opens))
			return STANDS_ALONE;
		return stands_new(j, how, STANDS_NEW);
	}
	if (opens && judged_ended(flow))
		return stands_new(j, how, STANDS_REOPENING);
	if (opens && is_reply(flow, how))
		return stands_new(j, how, STANDS_BESIDE);
	return stands_known(j, flow, how, error ? 0 : seen_flags(flow, pkt, how));
}

/* without_flow decides about a packet that opens no flow and belongs to none: it passes where its
 * direction is not judged.
 */
static __noinline enum reason without_flow(struct judging *j, __u32 how)
{
	struct guard *guard = bpf_map_lookup_elem(&alioth_guards, &j->ifindex);

	return guard && !enforced_way(guard, how)->set ? UNDECIDED : policy_refusal(how);
}

/* without_room decides about a new flow that has no room. Its replies would be refused, unless
 * the interface has rehearsed sets only.
 */
static __always_inline enum reason without_room(struct judging *j)
{
	struct guard *guard = bpf_map_lookup_elem(&alioth_guards, &j->ifindex);

	return guard && !(guard->ingress.set | guard->egress.set) ? UNDECIDED : DROP_POLICY_FULL;
}

/* write_judged writes the entry of a flow that was judged. It never changes an entry in its place:
 * the entry may have been deleted, and its memory may have the flow of another interface by now.
 */
static __always_inline long write_judged(struct judging *j, __u64 condition)
{
	j->value.last_seen = bpf_ktime_get_ns();
	j->value.ifindex = j->ifindex;
	j->value.epoch = j->epoch;
	j->value.peer = j->peer;
	return bpf_map_update_elem(&alioth_judged, &j->flow, &j->value, condition);
}

/* remember_judged makes the entry of a new flow. */
static __always_inline enum reason remember_judged(struct judging *j)
{
	long err;

	if (!flow_reserve(&alioth_judged_opened, &alioth_judged_ended, &j->ifindex))
		return without_room(j);
	err = write_judged(j, BPF_NOEXIST);
	if (!err)
		return UNDECIDED;
	flow_release(&alioth_judged_opened, &j->ifindex);
	return err == -EEXIST ? UNDECIDED : without_room(j);
}

/* settle gives a verdict its effect on the flow. A flow that is refused ends; while the identity
 * of its peer is not known, it waits.
 */
static __noinline enum reason settle(struct judging *j, enum standing standing, enum reason reason)
{
	if (!reason && standing == STANDS_NEW)
		return remember_judged(j);
	if (!reason && standing != STANDS_BESIDE)
		write_judged(j, BPF_EXIST);
	if (standing == STANDS_STALE && (reason == DROP_POLICY_INGRESS || reason == DROP_POLICY_EGRESS))
		forget_judged(j, &j->ifindex);
	return reason;
}

/* name_fragment makes the keys of the packet's datagram. */
static __always_inline void name_fragment(struct __sk_buff *skb, struct judging *j, const struct packet *pkt, __u32 how)
{
	__u32 id = fragment_id(skb, pkt);

	__builtin_memset(&j->first, 0, sizeof(j->first));
	j->slot.ifindex = pkt->ifindex;
	j->slot.direction = how & JUDGE_INGRESS ? FOLLOW_INGRESS : FOLLOW_EGRESS;
	j->slot.slot = id % FOLLOWED;
	describe_datagram(&j->first.of, pkt, how & JUDGE_INGRESS ? &pkt->src : &pkt->dst, id);
}

/* follow_judged reports whether a fragment without a transport header follows a first one that
 * was allowed.
 */
static __noinline bool follow_judged(struct __sk_buff *skb, struct judging *j, const struct packet *pkt, __u32 how)
{
	struct first_fragment *first;

	name_fragment(skb, j, pkt, how);
	first = bpf_map_lookup_elem(&alioth_fragments, &j->slot);
	return first && follows(skb, pkt, first, &j->first.of);
}

/* lead_judged remembers a first fragment that was allowed. */
static __noinline int lead_judged(struct __sk_buff *skb, struct judging *j, const struct packet *pkt, __u32 how)
{
	name_fragment(skb, j, pkt, how);
	j->first.of.first = fragment_len(pkt);
	j->first.until = bpf_ktime_get_ns() + FOLLOW_NS;
	bpf_map_update_elem(&alioth_fragments, &j->slot, &j->first, BPF_ANY);
	return 0;
}

/* judge decides about a packet from or to an interface: UNDECIDED, or the reason to refuse it.
 * pkt->ifindex is the index of the interface, and peer the identity of the other end, or
 * IDENTITY_ASKED. The caller has walked the packet and, unless it is a later fragment, parsed
 * its transport header. The addresses are the addresses of the pod and of a backend, not of a
 * Service. An ICMP error is judged by the flow of the quoted packet; it may come from any router,
 * so its own identity does not count.
 */
__noinline enum reason judge(struct __sk_buff *skb, struct packet *pkt, const struct interface *at, __u32 peer,
			     __u32 how)
{
	enum standing standing = STANDS_ALONE;
	enum reason reason = UNDECIDED;
	struct judging *j;
	bool error;

	if (!pkt || !at)
		return DROP_REWRITE_FAILED;
	j = take_judging();
	if (!j)
		return DROP_REWRITE_FAILED;
	j->ifindex = pkt->ifindex;
	if (pkt->later)
		return follow_judged(skb, j, pkt, how) ? UNDECIDED : without_flow(j, how);
	error = is_icmp_error(pkt);
	j->peer = error ? IDENTITY_ASKED : peer;
	if (error ? name_quoted(skb, j, pkt, at, how) : name_flow(j, pkt, at, how)) {
		read_epoch(j);
		standing = stand(j, pkt, how, error);
	}
	if (standing == STANDS_ALONE)
		reason = without_flow(j, how);
	else if (standing != STANDS_KNOWN)
		reason = settle(j, standing, judge_again());
	if (!reason && pkt->fragment)
		lead_judged(skb, j, pkt, how);
	return reason;
}

#endif
