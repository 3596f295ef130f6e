/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Copyright The Alioth Authors. */

/* Services that every VPC shares. The backend is picked with a flow's first
 * packet and remembered; the source leaves under the interface's shadow, which
 * keeps the flows of overlapping VPCs apart.
 */
#ifndef ALIOTH_SERVICE_H
#define ALIOTH_SERVICE_H

#include "door.h"

#define SHARED_VNI 0
#define CONN_RENEW_NS 1000000000ULL
#define EEXIST 17
/* Enough to search MAX_BACKENDS slots by halves. */
#define BACKEND_STEPS 19

static __always_inline struct service *lookup_service(const struct packet *pkt, __be16 port, __u8 proto)
{
	struct service_key key = { .vni = SHARED_VNI, .vip = pkt->dst, .port = port, .proto = proto };

	return bpf_map_lookup_elem(&alioth_services, &key);
}

/* conn_closing tells what a TCP packet does to its flow. */
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

/* conn_touch keeps an entry alive. It writes once per second at most: the
 * entry is shared by all CPUs.
 */
static __always_inline void conn_touch(struct conn *conn, const struct packet *pkt)
{
	__u32 flags = CONN_SEEN | conn_closing(pkt);
	__u64 now = bpf_ktime_get_ns();

	if ((conn->flags & flags) != flags)
		conn->flags |= flags;
	if (now - conn->last_seen > CONN_RENEW_NS)
		conn->last_seen = now;
}

/* conn_reserve takes one of the interface's share of flows. */
static __always_inline enum reason conn_reserve(__u32 ifindex)
{
	__u32 *opened = bpf_map_lookup_elem(&alioth_conn_opened, &ifindex);
	__u32 *ended = bpf_map_lookup_elem(&alioth_conn_ended, &ifindex);
	__s32 held;

	if (!opened || !ended)
		return DROP_CONN_LIMIT;
	held = __sync_fetch_and_add(opened, 1) - *ended;
	if (held < (__s32)alioth_config.connections_per_interface)
		return UNDECIDED;
	__sync_fetch_and_add(opened, -1);
	return DROP_CONN_LIMIT;
}

static __always_inline void conn_release(__u32 ifindex)
{
	__u32 *opened = bpf_map_lookup_elem(&alioth_conn_opened, &ifindex);

	if (opened)
		__sync_fetch_and_add(opened, -1);
}

enum insertion {
	INSERTED,
	OTHER_WAS_FASTER,
	TABLE_FULL,
	CONFLICT,
};

/* conn_insert writes both entries of a flow. A reverse entry that leads to
 * another service is a flow in use (one port of the pod towards one backend by
 * way of two services), and two flows can't share it.
 */
static __always_inline enum insertion conn_insert(const struct conn_key *forward, const struct conn_key *reverse,
						  const struct backend *backend, __u32 ifindex)
{
	struct conn value = { .last_seen = bpf_ktime_get_ns(), .ifindex = ifindex };
	struct conn *old = bpf_map_lookup_elem(&alioth_connections, reverse);
	long err;

	if (old && (!addr_equal(&old->addr, &forward->peer) || old->port != forward->peer_port))
		return CONFLICT;
	value.addr = backend->ip;
	value.port = backend->port;
	err = bpf_map_update_elem(&alioth_connections, forward, &value, BPF_NOEXIST);
	if (err)
		return err == -EEXIST ? OTHER_WAS_FASTER : TABLE_FULL;
	value.addr = forward->peer;
	value.port = forward->peer_port;
	if (!bpf_map_update_elem(&alioth_connections, reverse, &value, BPF_ANY))
		return INSERTED;
	bpf_map_delete_elem(&alioth_connections, forward);
	return TABLE_FULL;
}

/* conn_reverse makes the key under which the answers of a backend are found. */
static __always_inline void conn_reverse(struct conn_key *reverse, const struct conn_key *forward,
					 const struct addr *ip, __be16 port)
{
	*reverse = *forward;
	reverse->direction = CONN_REVERSE;
	reverse->peer = *ip;
	reverse->peer_port = port;
}

/* conn_remember reserves and inserts a flow to the backend. When another CPU
 * has just opened the same flow, its backend counts.
 */
static __always_inline enum reason conn_remember(const struct conn_key *key, struct backend *backend, __u32 ifindex)
{
	enum reason reason = conn_reserve(ifindex);
	struct conn_key reverse;
	enum insertion result;
	struct conn *conn;

	if (reason)
		return reason;
	conn_reverse(&reverse, key, &backend->ip, backend->port);
	result = conn_insert(key, &reverse, backend, ifindex);
	if (result == INSERTED)
		return UNDECIDED;
	conn_release(ifindex);
	if (result == CONFLICT)
		return DROP_CONN_CONFLICT;
	conn = bpf_map_lookup_elem(&alioth_connections, key);
	if (result == TABLE_FULL || !conn)
		return DROP_CONN_FULL;
	backend->ip = conn->addr;
	backend->port = conn->port;
	return UNDECIDED;
}

/* conn_open picks a backend for a new flow. */
static __always_inline enum reason conn_open(struct __sk_buff *skb, const struct packet *pkt,
					     const struct service *service, const struct conn_key *key,
					     struct backend *picked)
{
	struct backend_key slot = { .service = service->id };
	struct backend *backend;

	if (pkt->proto == IPPROTO_TCP && (pkt->tcp_flags & (TCP_SYN | TCP_ACK | TCP_RST)) != TCP_SYN)
		return DROP_NO_CONNECTION;
	if (!service->backends)
		return DROP_NO_BACKEND;
	slot.slot = bpf_get_hash_recalc(skb) % service->backends;
	backend = bpf_map_lookup_elem(&alioth_backends, &slot);
	if (!backend)
		return DROP_NO_BACKEND;
	*picked = *backend;
	return conn_remember(key, picked, skb->ifindex);
}

/* A TCP segment that asks for a new connection. */
static __always_inline bool is_opening(const struct packet *pkt)
{
	return pkt->proto == IPPROTO_TCP && (pkt->tcp_flags & (TCP_SYN | TCP_ACK)) == TCP_SYN;
}

/* backend_before tells whether one backend comes before another in the order of
 * a service's slots: by address, then by port.
 */
static __always_inline bool backend_before(const struct backend *a, const struct backend *b)
{
	const __u32 *x = (const __u32 *)a->ip.b, *y = (const __u32 *)b->ip.b;

	for (int i = 0; i < 4; i++)
		if (x[i] != y[i])
			return bpf_ntohl(x[i]) < bpf_ntohl(y[i]);
	return bpf_ntohs(a->port) < bpf_ntohs(b->port);
}

/* is_backend searches the service's slots. One that it misses costs a flow its
 * backend, never the other way round.
 */
static __noinline bool is_backend(const struct service *service, const struct backend *wanted)
{
	struct backend_key slot = {};
	__u32 low = 0, high = 0;
	struct backend *found;

	if (!service || !wanted)
		return false;
	slot.service = service->id;
	high = service->backends;
	for (int i = 0; i < BACKEND_STEPS && low < high; i++) {
		slot.slot = low + (high - low) / 2;
		found = bpf_map_lookup_elem(&alioth_backends, &slot);
		if (!found)
			return false;
		if (backend_before(found, wanted))
			low = slot.slot + 1;
		else if (backend_before(wanted, found))
			high = slot.slot;
		else
			return true;
	}
	return false;
}

/* conn_forget ends a flow, the forward entry first: as long as it is there,
 * packets go out whose answers need the other. Who deletes it gives back the
 * interface's share.
 */
static __always_inline void conn_forget(const struct conn_key *key, const struct conn_key *reverse, __u32 ifindex)
{
	if (!bpf_map_delete_elem(&alioth_connections, key))
		conn_release(ifindex);
	bpf_map_delete_elem(&alioth_connections, reverse);
}

/* conn_reopen looks after a flow whose ports a TCP opening uses once more. Its
 * backend stays, as long as it is one: an address that a backend has left may
 * be somebody else's by now. Otherwise the flow is forgotten, for a new one to
 * take its place.
 */
static __always_inline struct conn *conn_reopen(struct conn *conn, const struct conn_key *key,
						const struct service *service)
{
	struct backend backend = { .ip = conn->addr, .port = conn->port };
	struct conn_key reverse;
	struct conn *answers;

	conn_reverse(&reverse, key, &backend.ip, backend.port);
	if (!is_backend(service, &backend)) {
		conn_forget(key, &reverse, conn->ifindex);
		return 0;
	}
	answers = bpf_map_lookup_elem(&alioth_connections, &reverse);
	if (answers && (conn->flags | answers->flags) & (CONN_FIN | CONN_RST)) {
		conn->flags = 0;
		answers->flags = 0;
	}
	return conn;
}

/* to_service sends a packet to the backend of its flow. */
static __always_inline enum reason to_service(struct __sk_buff *skb, struct packet *pkt,
					      const struct interface *from, const struct service *service)
{
	struct conn_key key = {
		.vni = pkt->vni,
		.pod = pkt->src,
		.peer = pkt->dst,
		.pod_port = pkt->sport,
		.peer_port = pkt->dport,
		.direction = CONN_FORWARD,
		.proto = pkt->proto,
	};
	struct conn *conn = bpf_map_lookup_elem(&alioth_connections, &key);
	struct backend backend = {};
	enum reason reason;

	if (addr_is_zero(own_shadow(from, pkt->family)))
		return DROP_NO_SHADOW;
	if (conn && is_opening(pkt))
		conn = conn_reopen(conn, &key, service);
	if (conn) {
		conn_touch(conn, pkt);
		backend.ip = conn->addr;
		backend.port = conn->port;
	} else {
		reason = conn_open(skb, pkt, service, &key, &backend);
		if (reason)
			return reason;
	}
	if (set_addr(skb, pkt, SIDE_DST, &backend.ip) || set_port(skb, pkt, SIDE_DST, backend.port))
		return DROP_REWRITE_FAILED;
	return leave(skb, pkt, from, MARK_SHARED);
}

/* shared_service handles what goes to a shared virtual address, and leaves
 * everything else undecided.
 */
static __always_inline enum reason shared_service(struct __sk_buff *skb, struct packet *pkt,
						  const struct interface *from)
{
	struct service *service;
	enum reason reason;

	if (!lookup_service(pkt, 0, 0))
		return UNDECIDED;
	reason = parse_l4(skb, pkt);
	if (reason)
		return reason;
	if (pkt->fragment && pkt->proto == IPPROTO_TCP) /* as to the node */
		return DROP_DOOR_FRAGMENT;
	if (pkt->proto == IPPROTO_ICMP || pkt->proto == IPPROTO_ICMPV6)
		return DROP_SERVICE_ICMP;
	service = lookup_service(pkt, pkt->dport, pkt->proto);
	if (!service)
		return DROP_SERVICE_PORT;
	return to_service(skb, pkt, from, service);
}

/* from_backend finds the service's address behind which a peer of the pod is
 * hidden; NULL when the peer is not a backend of one of the pod's flows.
 */
static __always_inline struct conn *from_backend(const struct packet *pkt, const struct addr *pod,
						 const struct addr *peer, __be16 pod_port, __be16 peer_port,
						 __u8 proto)
{
	struct conn_key key = {
		.vni = pkt->vni,
		.pod = *pod,
		.peer = *peer,
		.pod_port = pod_port,
		.peer_port = peer_port,
		.direction = CONN_REVERSE,
		.proto = proto,
	};

	return bpf_map_lookup_elem(&alioth_connections, &key);
}

#endif
