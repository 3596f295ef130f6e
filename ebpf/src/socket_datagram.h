/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Copyright The Alioth Authors. */

/* Datagrams with a destination of their own: a socket may ask several services and other
 * hosts in turn. A reply shows its sender only. So a socket asks a backend for one service;
 * all that it asks the same backend beside that is translated in packets, with a port of
 * its own.
 */
#ifndef ALIOTH_SOCKET_DATAGRAM_H
#define ALIOTH_SOCKET_DATAGRAM_H

#include "socket_service.h"

/* asked_before finds the socket's present backend for a service; NULL: none. */
static __always_inline struct peer *asked_before(struct socket *s, const struct service_key *service)
{
	for (int i = 0; i < SOCKET_PEERS; i++)
		if (s->asked[i].backend.port && same_service(&s->asked[i].service, service))
			return &s->asked[i];
	return 0;
}

/* slot_for finds the place for another service of the socket: a free one, or one of a
 * service that is deleted. Another place that is in use is taken only if the packets of
 * further services pass no program.
 */
static __always_inline struct peer *slot_for(struct socket *s, bool replace)
{
	for (int i = 0; i < SOCKET_PEERS; i++)
		if (!s->asked[i].backend.port)
			return &s->asked[i];
	for (int i = 0; i < SOCKET_PEERS; i++)
		if (!bpf_map_lookup_elem(&alioth_services, &s->asked[i].service))
			return &s->asked[i];
	return replace ? &s->asked[s->next++ % SOCKET_PEERS] : 0;
}

/* has_entry reports whether alioth_connections has an entry for packets between the socket
 * and a peer.
 */
static __always_inline bool has_entry(struct bpf_sock_addr *ctx, const struct netns_vpc *vpc, enum family family,
				      enum conn_direction direction, const struct addr *peer, __be16 port,
				      const struct backend *to)
{
	struct conn_key key = { .vni = vpc->vni, .direction = direction, .proto = IPPROTO_UDP, .inside = 1 };
	struct bpf_sock *sk = ctx->sk;

	if (!sk)
		return false;
	key.pod = family == FAMILY_V4 ? vpc->ip[FAMILY_V4] : vpc->ip[FAMILY_V6];
	key.pod_port = bpf_htons(sk->src_port);
	key.peer = *peer;
	key.peer_port = port;
	if (direction == CONN_REVERSE && to->outside)
		key.inside = 0;
	return bpf_map_lookup_elem(&alioth_connections, &key);
}

/* is_distinct reports whether replies of a backend to this socket are replies of one service:
 * neither the socket nor an earlier packet of its port has asked that backend for something
 * else. A flow to the service that is translated in packets stays there.
 */
static __always_inline bool is_distinct(struct bpf_sock_addr *ctx, const struct socket *s, const struct peer *to,
					const struct netns_vpc *vpc, enum family family)
{
	for (int i = 0; i < SOCKET_PEERS; i++)
		if (leads_to(&s->asked[i], &to->backend.ip, to->backend.port) &&
		    !same_service(&s->asked[i].service, &to->service))
			return false;
	return !has_entry(ctx, vpc, family, CONN_REVERSE, &to->backend.ip, to->backend.port, &to->backend) &&
	       !has_entry(ctx, vpc, family, CONN_FORWARD, &to->service.vip, to->service.port, &to->backend);
}

/* note_service stores the backend that the socket was given for a service. It returns false
 * if the datagram has to be translated in packets instead, which give a flow a port of its
 * own: the replies to it could not be told from others. Without a program on the packets'
 * way the service that was asked last counts. before is as in ask_service.
 */
static __always_inline bool note_service(struct bpf_sock_addr *ctx, struct socket *s, struct peer *before,
					 const struct peer *to, const struct netns_vpc *vpc, enum family family)
{
	bool passes = passes_program(ctx, vpc);

	if (!passes)
		forget_backend(s, &to->backend.ip, to->backend.port);
	else if (!is_distinct(ctx, s, to, vpc, family))
		return false;
	if (!before)
		before = slot_for(s, !passes);
	if (!before)
		return false;
	*before = *to;
	return true;
}

/* is_hidden reports whether another VPC of the namespace, which precedes a VPC, has an
 * address too: then the address means a host of that one.
 */
static __always_inline bool is_hidden(const struct netns *ns, __u32 vni, const struct addr *ip)
{
	for (int i = 0; i < MAX_NETNS_VPCS; i++) {
		if (!ns->vpc[i].vni || ns->vpc[i].vni == vni)
			return false;
		if (in_ranges(&alioth_vpc_ranges, ns->vpc[i].vni, ip))
			return true;
	}
	return false;
}

/* ask_aside decides about a datagram to the own address of a backend that the socket asks for
 * a service too. It goes to a port of the gateway that stands for the backend: so
 * alioth_from_pod can tell it from the datagrams for the service, and give its flow a port
 * of its own.
 */
static __always_inline enum reason ask_aside(struct bpf_sock_addr *ctx, struct socket *s, struct netns *ns,
					     struct peer *to, enum family family)
{
	int i;

	for (i = 0; i < SOCKET_PEERS; i++)
		if (leads_to(&s->asked[i], &to->service.vip, to->service.port))
			break;
	if (i >= SOCKET_PEERS)
		return UNDECIDED;
	if (!is_hidden(ns, s->asked[i].service.vni, &to->service.vip) &&
	    gateway_of(ctx, ns, &s->asked[i], family, &to->backend.ip)) {
		to->backend.port = bpf_htons(ASIDE_PORT + i);
		return SERVICE_REWRITTEN;
	}
	s->asked[i].backend.port = 0; /* from now on its replies are to something else */
	return UNDECIDED;
}

/* send_service decides about a datagram to to->service. */
static __always_inline enum reason send_service(struct bpf_sock_addr *ctx, struct peer *to, enum family family)
{
	struct peer *before = 0;
	struct netns_vpc *vpc;
	enum reason reason;
	struct socket *s;
	struct netns *ns;

	if (ctx->protocol != IPPROTO_UDP)
		return UNDECIDED;
	ns = netns_of(ctx);
	if (!ns)
		return UNDECIDED;
	s = socket_of(ctx, 0);
	vpc = find_vpc(ctx, ns, to);
	if (!vpc)
		return s ? ask_aside(ctx, s, ns, to, family) : UNDECIDED;
	if (s)
		before = asked_before(s, &to->service);
	reason = ask_service(ctx, to, before, vpc, family);
	if (reason != SERVICE_REWRITTEN || (before && leads_to(before, &to->backend.ip, to->backend.port)))
		return reason;
	s = socket_of(ctx, BPF_SK_STORAGE_GET_F_CREATE);
	if (!s || !note_service(ctx, s, before, to, vpc, family))
		return UNDECIDED;
	return reason;
}

static __always_inline int sendmsg4(struct bpf_sock_addr *ctx)
{
	struct peer to = {};

	read_v4(ctx, &to);
	return conclude_v4(ctx, &to, send_service(ctx, &to, FAMILY_V4));
}

/* sendmsg6 gets no mapped destinations: the kernel calls sendmsg4 for those. */
static __always_inline int sendmsg6(struct bpf_sock_addr *ctx)
{
	struct peer to = {};

	read_v6(ctx, &to);
	return conclude_v6(ctx, &to, send_service(ctx, &to, FAMILY_V6));
}

#endif
