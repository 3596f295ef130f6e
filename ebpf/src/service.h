/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Copyright The Alioth Authors. */

/* Services. The first packet of a flow selects the backend, which is stored. Services
 * of a VPC have their backends in it: the packet stays in the VPC, and replies get the
 * service's address as source where they are delivered. Backends outside of the VPC are
 * reached if the VPC's egress allows it. Shared services of all VPCs are reached
 * through the node's stack: the source of the packet becomes the interface's shadow
 * address, which keeps the flows of overlapping VPCs apart.
 */
#ifndef ALIOTH_SERVICE_H
#define ALIOTH_SERVICE_H

#include "asked.h"
#include "connection.h"
#include "shadow.h"

#define SHARED_VNI 0
#define NS_PER_S 1000000000ULL
/* Enough for a binary search of MAX_BACKENDS slots. */
#define BACKEND_STEPS 19

static __always_inline struct service *lookup_service(const struct packet *pkt, __u32 table, __be16 port, __u8 proto)
{
	struct service_key key = { .vni = table, .vip = pkt->dst, .port = port, .proto = proto };

	return bpf_map_lookup_elem(&alioth_services, &key);
}

/* backend_before reports whether a precedes b in the order of a service's slots: by
 * address, then by port.
 */
static __always_inline bool backend_before(const struct backend *a, const struct backend *b)
{
	const __u32 *x = (const __u32 *)a->ip.b, *y = (const __u32 *)b->ip.b;

	for (int i = 0; i < 4; i++)
		if (x[i] != y[i])
			return bpf_ntohl(x[i]) < bpf_ntohl(y[i]);
	return bpf_ntohs(a->port) < bpf_ntohs(b->port);
}

/* is_backend searches the service's slots. A backend that has moved to the other side
 * of the VPC's border is a different one. If the search misses a backend, a flow loses
 * its backend; the reverse never happens. The function is global, so that the verifier
 * checks the search once and not for each caller.
 */
__noinline bool is_backend(const struct service *service, const struct backend *wanted)
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
			return found->outside == wanted->outside;
	}
	return false;
}

/* maglev_slot looks a flow up in the service's table (Eisenbud et al., Maglev,
 * NSDI 2016, section 3.4), which changes little when a backend comes or goes.
 */
static __always_inline __u32 maglev_slot(const struct service *service, const struct choice *choice, __u32 hash)
{
	struct maglev_key key = { .service = service->id };
	struct maglev *part;
	__u32 entry;

	if (!choice || !choice->entries) /* one backend, or maps filled by an earlier version */
		return hash % service->backends;
	entry = hash % choice->entries;
	key.part = entry / MAGLEV_PART;
	part = bpf_map_lookup_elem(&alioth_maglev, &key);
	return part ? part->slot[entry % MAGLEV_PART] : 0;
}

/* affinities_of returns the table of the affinities of a VPC's clients; NULL as long as
 * user space has made none.
 */
static __always_inline void *affinities_of(const struct choice *choice, __u32 vni)
{
	return choice && choice->affinity ? bpf_map_lookup_elem(&alioth_affinities, &vni) : 0;
}

/* kept_backend reports whether the client has affinity to a present backend of the
 * service, and returns that backend.
 */
static __always_inline bool kept_backend(void *affinities, const struct affinity_key *client, struct backend *backend,
					 const struct service *service, const struct choice *choice)
{
	struct affinity *kept = bpf_map_lookup_elem(affinities, client);
	__u64 now = bpf_ktime_get_ns();

	if (!kept || now - kept->last_opened > choice->affinity * NS_PER_S)
		return false;
	*backend = kept->backend;
	if (!is_backend(service, backend))
		return false;
	kept->last_opened = now;
	return true;
}

/* keep_backend stores the client's affinity; row is the memory for the entry. */
static __always_inline void keep_backend(void *affinities, const struct affinity_key *client,
					 const struct backend *backend, struct affinity *row)
{
	row->last_opened = bpf_ktime_get_ns();
	row->backend = *backend;
	row->pad = 0;
	bpf_map_update_elem(affinities, client, row, BPF_ANY);
}

/* name_service makes the key of the service at the packet's destination. */
static __always_inline void name_service(struct work *w, const struct packet *pkt, __u32 table)
{
	w->client.service.vni = table;
	w->client.service.vip = pkt->dst;
	w->client.service.port = pkt->dport;
	w->client.service.proto = pkt->proto;
	w->client.service.pad = 0;
}

/* pick finds a backend for a new flow. */
static __always_inline bool pick(struct __sk_buff *skb, const struct packet *pkt, const struct service *service,
				 struct work *w)
{
	struct backend_key slot = { .service = service->id };
	struct choice *choice = bpf_map_lookup_elem(&alioth_choices, &slot.service);
	void *affinities = affinities_of(choice, pkt->vni);
	struct backend *backend;

	if (!service->backends)
		return false;
	if (choice && affinities) {
		w->client.vni = pkt->vni;
		w->client.client = pkt->src;
		if (kept_backend(affinities, &w->client, &w->backend, service, choice))
			return true;
	}
	slot.slot = maglev_slot(service, choice, bpf_get_hash_recalc(skb));
	backend = bpf_map_lookup_elem(&alioth_backends, &slot);
	if (!backend)
		return false;
	w->backend = *backend;
	if (affinities)
		keep_backend(affinities, &w->client, &w->backend, &w->affinity);
	return true;
}

/* opens_anew reports whether a TCP segment is one that a host without a listener refuses
 * as an opening.
 */
static __always_inline bool opens_anew(const struct packet *pkt)
{
	return (pkt->tcp_flags & (TCP_SYN | TCP_ACK | TCP_RST)) == TCP_SYN;
}

/* The question of a packet: a service at its destination; the successor of its destination, which
 * is a removed backend of the service; or the backend that a port of the gateway stands for.
 */
enum asking { ASKS_NOTHING, ASKS_SERVICE, ASKS_SUCCESSOR, ASKS_BACKEND };

/* conn_open selects a backend for a new flow, and stores it. Without a service the backend
 * is given.
 */
static __always_inline enum reason conn_open(struct __sk_buff *skb, const struct packet *pkt,
					     const struct service *service, struct work *w, enum asking asking)
{
	bool shared = asking == ASKS_BACKEND;

	if (pkt->proto == IPPROTO_TCP && !opens_anew(pkt))
		return DROP_NO_CONNECTION;
	if (service && !pick(skb, pkt, service, w))
		return DROP_NO_BACKEND;
	if (!shared)
		shared = asks_backend(asker(skb, pkt), pkt->vni, &w->backend);
	return conn_remember(w, skb->ifindex, shared, asking == ASKS_SERVICE ? 0 : CONN_BY_SOCKET);
}

/* conn_reopen handles a TCP opening that uses the ports of an existing flow again, and the
 * datagrams of flows that the notes of a socket have made. The flow keeps its backend as long
 * as that is a backend of the service, or without a service the given one: the address of a
 * removed backend may belong to another pod by now. Otherwise the flow is removed, and a new
 * one takes its place. So is a flow without a reverse entry, whose replies would be lost: two
 * deletions of one flow may leave such a flow.
 */
static __always_inline struct conn *conn_reopen(struct conn *conn, struct work *w, const struct service *service)
{
	struct backend given = w->backend;
	struct conn *answers;

	conn_backend(w, conn);
	conn_reverse(w);
	if (service ? !is_backend(service, &w->backend) :
		      w->backend.port != given.port || !addr_equal(&w->backend.ip, &given.ip)) {
		conn_forget(w, conn->ifindex);
		w->backend = given;
		return 0;
	}
	answers = bpf_map_lookup_elem(&alioth_connections, &w->reverse);
	if (!answers) {
		conn_forget(w, conn->ifindex);
		w->backend = given;
		return 0;
	}
	if ((conn->flags | answers->flags) & (CONN_FIN | CONN_RST)) {
		conn->flags = 0;
		answers->flags = 0;
	}
	return conn;
}

/* to_backend sends a packet to the backend of its flow. The caller has parsed the packet, and
 * has filled the service in the work area; for ASKS_BACKEND the backend, of the packet's
 * VPC. UNDECIDED: the packet's destination is the backend now.
 */
__noinline enum reason to_backend(struct __sk_buff *skb, struct packet *pkt, enum asking asking)
{
	struct service *service = 0;
	struct work *w = take_work();
	enum reason reason;
	struct conn *conn;
	bool inside = true;

	if (!pkt || !w)
		return DROP_REWRITE_FAILED;
	if (asking != ASKS_BACKEND) {
		service = bpf_map_lookup_elem(&alioth_services, &w->client.service);
		if (!service)
			return DROP_SERVICE_PORT;
		inside = w->client.service.vni != SHARED_VNI;
	}
	conn_key(&w->forward, pkt, CONN_FORWARD, &pkt->src, pkt->sport, &pkt->dst, pkt->dport, pkt->proto, inside);
	conn = bpf_map_lookup_elem(&alioth_connections, &w->forward);
	if (conn && (is_opening(pkt) || asking != ASKS_SERVICE))
		conn = conn_reopen(conn, w, service);
	if (conn) {
		conn_touch(conn, pkt);
		conn_backend(w, conn);
	} else {
		reason = conn_open(skb, pkt, service, w, asking);
		if (reason)
			return reason;
	}
	if (set_addr(skb, pkt, SIDE_DST, &w->backend.ip) || set_port(skb, pkt, SIDE_DST, w->backend.port) ||
	    (w->pod_port && set_port(skb, pkt, SIDE_SRC, w->pod_port)))
		return DROP_REWRITE_FAILED;
	return UNDECIDED;
}

/* error_to_backend sends an ICMP error about a service's reply to the backend that sent
 * the reply. check_error has read the error. table as in to_backend.
 */
__noinline enum reason error_to_backend(struct __sk_buff *skb, struct packet *pkt, __u32 table)
{
	struct work *w = take_work();
	struct conn *conn;
	struct quote *q;

	if (!pkt || !w)
		return DROP_REWRITE_FAILED;
	q = &w->quote;
	if (!q->l4 || !addr_equal(&q->src, &pkt->dst))
		return DROP_NO_CONNECTION;
	conn_key(&w->forward, pkt, CONN_FORWARD, &pkt->src, q->dport, &pkt->dst, q->sport, q->proto,
		 table != SHARED_VNI);
	conn = bpf_map_lookup_elem(&alioth_connections, &w->forward);
	if (!conn)
		return DROP_NO_CONNECTION;
	conn_backend(w, conn);
	if (w->pod_port && quote_port(skb, pkt, q, SIDE_DST, w->pod_port))
		return DROP_REWRITE_FAILED;
	if (quote_port(skb, pkt, q, SIDE_SRC, w->backend.port) || quote_addr(skb, pkt, q, SIDE_SRC, &w->backend.ip) ||
	    set_addr(skb, pkt, SIDE_DST, &w->backend.ip))
		return DROP_REWRITE_FAILED;
	return UNDECIDED;
}

/* to_shared sends a packet to a backend of a shared service: requests, and errors about
 * replies.
 */
static __always_inline enum reason to_shared(struct __sk_buff *skb, struct packet *pkt)
{
	struct work *w;

	if (is_icmp_error(pkt))
		return error_to_backend(skb, pkt, SHARED_VNI);
	if (pkt->proto == IPPROTO_ICMP || pkt->proto == IPPROTO_ICMPV6)
		return DROP_SERVICE_ICMP;
	w = take_work();
	if (!w)
		return DROP_REWRITE_FAILED;
	name_service(w, pkt, SHARED_VNI);
	return to_backend(skb, pkt, ASKS_SERVICE);
}

/* shared_service handles packets to a shared virtual address. It returns UNDECIDED for
 * all others, and for packets that were translated for a service of the VPC, since a
 * service never leads to another service.
 */
static __always_inline enum reason shared_service(struct __sk_buff *skb, struct packet *pkt,
						  const struct interface *from)
{
	enum reason reason;

	if (pkt->translated || !lookup_service(pkt, SHARED_VNI, 0, 0))
		return UNDECIDED;
	reason = parse_l4(skb, pkt);
	if (reason)
		return reason == DROP_EGRESS_PROTOCOL ? DROP_SERVICE_PORT : reason;
	if (pkt->fragment && pkt->proto == IPPROTO_TCP) /* as in reply_to_node */
		return DROP_EGRESS_FRAGMENT;
	if (addr_is_zero(own_shadow(from, pkt->family)))
		return DROP_NO_SHADOW;
	reason = to_shared(skb, pkt);
	return reason ? reason : leave(skb, pkt, from, MARK_SHARED);
}

/* from_backend finds the service's address for a peer of the pod; NULL if the peer is
 * not a backend of one of the pod's flows. Packets of the host's stack to a pod are
 * sent to its shadow address, all others to its address in the VPC.
 */
static __always_inline struct conn *from_backend(struct work *w, const struct packet *pkt, const struct addr *pod,
						 __be16 pod_port, const struct addr *peer, __be16 peer_port, __u8 proto)
{
	conn_key(&w->reverse, pkt, CONN_REVERSE, pod, pod_port, peer, peer_port, proto,
		 pkt->direction != DIRECTION_TO_POD);
	return bpf_map_lookup_elem(&alioth_connections, &w->reverse);
}

/* end_stale reports whether a reply to a connection's opening meets the entry of a flow that
 * has ended, and removes that flow. An opening to the service would have replaced the entry,
 * so the pod has used the port again to connect to the backend's own address. A backend that
 * has not seen the pod's first segments repeats its reply after the pod has closed its side:
 * that flow goes on.
 */
static __always_inline bool end_stale(struct work *w, const struct conn *answers, const struct packet *pkt)
{
	struct conn *asks;

	if (pkt->proto != IPPROTO_TCP || (pkt->tcp_flags & (TCP_SYN | TCP_ACK)) != (TCP_SYN | TCP_ACK))
		return false;
	asks = conn_asks(w, answers);
	if (asks && !conn_ended(asks, answers) && !(answers->flags & CONN_FIN))
		return false;
	if (asks && !bpf_map_delete_elem(&alioth_connections, &w->other))
		conn_release(answers->ifindex);
	bpf_map_delete_elem(&alioth_connections, &w->reverse);
	return true;
}

/* reveal_service replaces the source of a backend's reply by the service's address. The pod has
 * sent to this address.
 */
static __always_inline int reveal_service(struct __sk_buff *skb, struct packet *pkt, struct work *w,
					  const struct addr *pod)
{
	struct conn *conn = from_backend(w, pkt, pod, pkt->dport, &pkt->src, pkt->sport, pkt->proto);

	if (!conn || end_stale(w, conn, pkt))
		return 0;
	conn_touch(conn, pkt);
	w->backend.ip = conn->addr;
	w->backend.port = conn->port;
	w->pod_port = conn->pod_port;
	if (pkt->fragment)
		remember_first(skb, pkt, &pkt->src, &w->backend.ip, 0);
	if (set_port(skb, pkt, SIDE_SRC, w->backend.port) || (w->pod_port && set_port(skb, pkt, SIDE_DST, w->pod_port)))
		return -1;
	return set_addr(skb, pkt, SIDE_SRC, &w->backend.ip);
}

/* reveal_after_first does so for a later fragment, if the first one was translated. */
static __always_inline int reveal_after_first(struct __sk_buff *skb, struct packet *pkt, struct work *w)
{
	struct first_fragment *first = find_first(skb, pkt, &pkt->src);

	if (!first)
		return 0;
	w->backend.ip = first->shown;
	return set_addr(skb, pkt, SIDE_SRC, &w->backend.ip);
}

/* reveal_quote translates the quote of an error about one of the pod's packets: the
 * pod's own address, and the backend's address into the service's.
 */
static __always_inline int reveal_quote(struct __sk_buff *skb, struct packet *pkt, struct work *w,
					const struct addr *pod)
{
	struct quote *q = &w->quote;
	struct conn *conn;
	bool by_backend;

	if (read_quote(skb, pkt, q) || !addr_equal(&q->src, &pkt->dst))
		return 0;
	if (!addr_equal(pod, &pkt->dst) && quote_addr(skb, pkt, q, SIDE_SRC, pod))
		return -1;
	if (!q->l4)
		return 0;
	conn = from_backend(w, pkt, pod, q->sport, &q->dst, q->dport, q->proto);
	if (!conn)
		return 0;
	w->backend.ip = conn->addr;
	w->backend.port = conn->port;
	w->pod_port = conn->pod_port;
	by_backend = addr_equal(&pkt->src, &q->dst);
	if (w->pod_port && quote_port(skb, pkt, q, SIDE_SRC, w->pod_port))
		return -1;
	if (quote_port(skb, pkt, q, SIDE_DST, w->backend.port) || quote_addr(skb, pkt, q, SIDE_DST, &w->backend.ip))
		return -1;
	return by_backend ? set_addr(skb, pkt, SIDE_SRC, &w->backend.ip) : 0;
}

/* reveal translates the ends of a packet to a pod to the addresses that the pod uses.
 * The packet's destination may be the pod's shadow address, pod is its address in the
 * VPC. Any result but UNDECIDED and DROP_REWRITE_FAILED reports that the packet could
 * not be read, and is unchanged.
 */
__noinline enum reason reveal(struct __sk_buff *skb, struct packet *pkt, const struct addr *pod)
{
	struct work *w = take_work();
	enum reason reason;

	if (!pkt || !pod || !w)
		return DROP_REWRITE_FAILED;
	if (pkt->later)
		return reveal_after_first(skb, pkt, w) ? DROP_REWRITE_FAILED : UNDECIDED;
	reason = parse_l4(skb, pkt);
	if (reason)
		return reason;
	if (is_icmp_error(pkt) && reveal_quote(skb, pkt, w, pod))
		return DROP_REWRITE_FAILED;
	if (pkt->sport && reveal_service(skb, pkt, w, pod))
		return DROP_REWRITE_FAILED;
	return UNDECIDED;
}

#endif
