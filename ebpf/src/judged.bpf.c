// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Copyright The Alioth Authors. */

/* A program of the tests: it judges single packets. No node loads it. */
#include "judge.h"

char alioth_license[] SEC("license") = "Dual BSD/GPL";

/* The question, written by the test before each run. */
volatile __u32 judged_ifindex;
volatile __u32 judged_peer;
volatile enum judging_flag judged_how;

/* read_for_judgement reads a packet as the programs do before the judgement. */
static __always_inline enum reason read_for_judgement(struct __sk_buff *skb, struct packet *pkt)
{
	enum reason reason = parse_eth(skb, pkt);

	if (!reason)
		reason = parse_ip(skb, pkt);
	if (!reason)
		reason = walk_extensions(skb, pkt);
	if (reason || pkt->later)
		return reason;
	reason = parse_l4(skb, pkt);
	return reason == DROP_EGRESS_PROTOCOL ? UNDECIDED : reason;
}

/* alioth_judge returns the reason to refuse a packet from or to the interface judged_ifindex, or
 * UNDECIDED.
 */
SEC("tc")
int alioth_judge(struct __sk_buff *skb)
{
	__u32 ifindex = judged_ifindex;
	struct interface *at = bpf_map_lookup_elem(&alioth_interfaces, &ifindex);
	enum reason reason;
	struct packet pkt;

	if (!at)
		return DROP_UNKNOWN_INTERFACE;
	see(skb, &pkt, DIRECTION_FROM_POD);
	pkt.ifindex = ifindex;
	pkt.vni = at->vni;
	reason = read_for_judgement(skb, &pkt);
	if (reason || !is_judged(at))
		return reason;
	return judge(skb, &pkt, at, judged_peer, judged_how);
}
