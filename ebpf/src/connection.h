/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Copyright The Alioth Authors. */

/* The table of flows to services. Each flow has two entries; each interface has a limit
 * of flows.
 */
#ifndef ALIOTH_CONNECTION_H
#define ALIOTH_CONNECTION_H

#include "work.h"

#define CONN_RENEW_NS 1000000000ULL
/* A UDP flow has no end. After so long without a packet its ports are taken to be free. */
#define CONN_SILENT_NS (2 * CONN_RENEW_NS)
#define EEXIST 17
/* The ports that stand for a pod's own: above the ports that Linux chooses for sockets. */
#define ALIAS_FIRST 61000
#define ALIAS_COUNT (65536 - ALIAS_FIRST)
#define ALIAS_TRIES 8

/* conn_key makes the key of a flow of a pod of the packet's VPC. Its peer is in that
 * VPC, or is reached from the pod's shadow address: there the same address belongs to
 * another host.
 */
static __always_inline void conn_key(struct conn_key *key, const struct packet *pkt, enum conn_direction direction,
				     const struct addr *pod, __be16 pod_port, const struct addr *peer, __be16 peer_port,
				     __u8 proto, bool inside)
{
	__builtin_memset(key, 0, sizeof(*key));
	key->vni = pkt->vni;
	key->pod = *pod;
	key->peer = *peer;
	key->pod_port = pod_port;
	key->peer_port = peer_port;
	key->direction = direction;
	key->proto = proto;
	key->inside = inside;
}

/* is_opening reports whether a TCP segment opens a connection. */
static __always_inline bool is_opening(const struct packet *pkt)
{
	return pkt->proto == IPPROTO_TCP && (pkt->tcp_flags & (TCP_SYN | TCP_ACK)) == TCP_SYN;
}

/* conn_closing returns the flags that a TCP packet sets in the state of its flow. */
static __always_inline __u32 conn_closing(const struct packet *pkt)
{
	__u32 flags = 0;

	if (pkt->proto != IPPROTO_TCP)
		return 0;
	if (pkt->tcp_flags & TCP_FIN)
		flags |= CONN_FIN;
	if (pkt->tcp_flags & TCP_RST)
		flags |= CONN_RST;
	return flags;
}

/* flow_touch keeps an entry alive. It writes once per second at most: the entry is shared by
 * all CPUs.
 */
static __always_inline void flow_touch(__u32 *flags, __u32 add, __u64 *last_seen)
{
	__u64 now = bpf_ktime_get_ns();

	if ((*flags & add) != add)
		*flags |= add;
	if (now - *last_seen > CONN_RENEW_NS)
		*last_seen = now;
}

static __always_inline void conn_touch(struct conn *conn, const struct packet *pkt)
{
	flow_touch(&conn->flags, CONN_SEEN | conn_closing(pkt), &conn->last_seen);
}

/* flow_reserve counts a new flow of the interface in a table with these counters, and reports
 * whether the interface's limit allows it.
 */
static __always_inline bool flow_reserve(void *opened_flows, void *ended_flows, const __u32 *ifindex)
{
	__u32 *opened = bpf_map_lookup_elem(opened_flows, ifindex);
	__u32 *ended = bpf_map_lookup_elem(ended_flows, ifindex);
	__s32 held;

	if (!opened || !ended)
		return false;
	held = __sync_fetch_and_add(opened, 1) - *ended;
	if (held < (__s32)alioth_config.connections_per_interface)
		return true;
	__sync_fetch_and_add(opened, -1);
	return false;
}

static __always_inline void flow_release(void *opened_flows, const __u32 *ifindex)
{
	__u32 *opened = bpf_map_lookup_elem(opened_flows, ifindex);

	if (opened)
		__sync_fetch_and_add(opened, -1);
}

static __always_inline enum reason conn_reserve(__u32 ifindex)
{
	return flow_reserve(&alioth_conn_opened, &alioth_conn_ended, &ifindex) ? UNDECIDED : DROP_CONN_LIMIT;
}

static __always_inline void conn_release(__u32 ifindex)
{
	flow_release(&alioth_conn_opened, &ifindex);
}

enum insertion {
	INSERTED,
	OTHER_WAS_FASTER,
	TABLE_FULL,
	CONFLICT,
};

static __always_inline bool conn_leads_to(const struct conn *conn, const struct conn_key *key)
{
	return addr_equal(&conn->addr, &key->peer) && conn->port == key->peer_port;
}

/* conn_ended reports whether a TCP flow was closed from both sides, or reset. */
static __always_inline bool conn_ended(const struct conn *asks, const struct conn *answers)
{
	return asks->flags & answers->flags & CONN_FIN || (asks->flags | answers->flags) & CONN_RST;
}

/* conn_silent reports whether a flow has had no packet of either side for a while. */
static __always_inline bool conn_silent(const struct conn *asks, const struct conn *answers)
{
	__u64 last = asks->last_seen > answers->last_seen ? asks->last_seen : answers->last_seen;
	__u64 now = bpf_ktime_get_ns();

	return now > last && now - last > CONN_SILENT_NS;
}

/* conn_asks returns the forward entry that belongs to the reverse entry answers at
 * w->reverse, and leaves its key in w->other; NULL if the flow has ended, or has another
 * backend by now.
 */
static __always_inline struct conn *conn_asks(struct work *w, const struct conn *answers)
{
	struct conn *asks;

	w->other = w->reverse;
	w->other.direction = CONN_FORWARD;
	w->other.peer = answers->addr;
	w->other.peer_port = answers->port;
	if (answers->pod_port)
		w->other.pod_port = answers->pod_port;
	if (answers->outside)
		w->other.inside = 1;
	asks = bpf_map_lookup_elem(&alioth_connections, &w->other);
	return asks && conn_leads_to(asks, &w->reverse) ? asks : 0;
}

/* conn_in_use reports whether the reverse entry of the new flow is in use by a flow to
 * another service, from the same port of the pod to the same backend. A TCP flow that has
 * ended, or a silent UDP flow, is removed: pods use a port again long before the daemon
 * collects its flow.
 */
static __always_inline bool conn_in_use(struct work *w)
{
	struct conn *answers = bpf_map_lookup_elem(&alioth_connections, &w->reverse), *asks;

	if (!answers || conn_leads_to(answers, &w->forward))
		return false;
	asks = conn_asks(w, answers);
	if (!asks)
		return false;
	if (!(w->reverse.proto == IPPROTO_UDP ? conn_silent(asks, answers) : conn_ended(asks, answers)))
		return true;
	if (!bpf_map_delete_elem(&alioth_connections, &w->other))
		conn_release(answers->ifindex);
	return false;
}

/* conn_alias gives a flow of datagrams a port of its own. The port tells its replies from replies
 * to other flows of the pod's port to the same backend.
 */
static __always_inline bool conn_alias(struct work *w)
{
	if (w->reverse.proto != IPPROTO_UDP)
		return false;
	for (int i = 0; i < ALIAS_TRIES; i++) {
		w->reverse.pod_port = bpf_htons(ALIAS_FIRST + bpf_get_prandom_u32() % ALIAS_COUNT);
		if (bpf_map_lookup_elem(&alioth_connections, &w->reverse))
			continue;
		w->pod_port = w->reverse.pod_port;
		return true;
	}
	return false;
}

/* conn_insert writes both entries of a flow. shared: the pod's port has another flow to the
 * backend, without an entry.
 */
static __always_inline enum insertion conn_insert(struct work *w, __u32 ifindex, bool shared, enum conn_flag flags)
{
	long err;

	if ((shared || conn_in_use(w)) && !conn_alias(w))
		return CONFLICT;
	__builtin_memset(&w->value, 0, sizeof(w->value));
	w->value.flags = flags;
	w->value.pod_port = w->pod_port;
	w->value.last_seen = bpf_ktime_get_ns();
	w->value.ifindex = ifindex;
	w->value.addr = w->backend.ip;
	w->value.port = w->backend.port;
	w->value.outside = w->backend.outside;
	err = bpf_map_update_elem(&alioth_connections, &w->forward, &w->value, BPF_NOEXIST);
	if (err)
		return err == -EEXIST ? OTHER_WAS_FASTER : TABLE_FULL;
	w->value.addr = w->forward.peer;
	w->value.port = w->forward.peer_port;
	if (w->pod_port)
		w->value.pod_port = w->forward.pod_port;
	if (!bpf_map_update_elem(&alioth_connections, &w->reverse, &w->value, BPF_ANY))
		return INSERTED;
	bpf_map_delete_elem(&alioth_connections, &w->forward);
	return TABLE_FULL;
}

/* conn_backend reads the backend of a flow from its forward entry. */
static __always_inline void conn_backend(struct work *w, const struct conn *conn)
{
	w->backend.ip = conn->addr;
	w->backend.port = conn->port;
	w->backend.outside = conn->outside;
	w->pod_port = conn->pod_port;
}

/* conn_reverse makes the key of the reverse entry. The backend's replies are found by it. Replies
 * from outside of the VPC arrive at the pod's shadow address.
 */
static __always_inline void conn_reverse(struct work *w)
{
	w->reverse = w->forward;
	w->reverse.direction = CONN_REVERSE;
	if (w->pod_port)
		w->reverse.pod_port = w->pod_port;
	if (w->backend.outside)
		w->reverse.inside = 0;
	w->reverse.peer = w->backend.ip;
	w->reverse.peer_port = w->backend.port;
}

/* conn_remember reserves and inserts a flow to the backend. If another CPU has inserted
 * the same flow meanwhile, the backend of that one is used. shared as in conn_insert.
 */
static __always_inline enum reason conn_remember(struct work *w, __u32 ifindex, bool shared, enum conn_flag flags)
{
	enum reason reason = conn_reserve(ifindex);
	enum insertion result;
	struct conn *conn;

	if (reason)
		return reason;
	w->pod_port = 0;
	conn_reverse(w);
	result = conn_insert(w, ifindex, shared, flags);
	if (result == INSERTED)
		return UNDECIDED;
	conn_release(ifindex);
	if (result == CONFLICT)
		return DROP_CONN_CONFLICT;
	conn = bpf_map_lookup_elem(&alioth_connections, &w->forward);
	if (result == TABLE_FULL || !conn)
		return DROP_CONN_FULL;
	conn_backend(w, conn);
	return UNDECIDED;
}

/* conn_forget removes a flow, the forward entry first: while that exists, packets are
 * sent whose replies need the reverse entry. The caller that deletes the forward entry
 * returns the flow to the interface's limit.
 */
static __always_inline void conn_forget(const struct work *w, __u32 ifindex)
{
	if (!bpf_map_delete_elem(&alioth_connections, &w->forward))
		conn_release(ifindex);
	bpf_map_delete_elem(&alioth_connections, &w->reverse);
}

#endif
