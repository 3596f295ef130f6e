/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Copyright The Alioth Authors. */

/* Translation of Services at the socket: a socket that connects or sends to a service of its VPC
 * is given a backend as its peer, but is shown the service's address. Its packets look like any
 * flow to the backend, so all decisions about packets use the backend's address, and scaled.h has
 * nothing to translate. Connections that are left alone here are translated there.
 *
 * The programs of packets may interrupt the hooks, and so have work areas of their own.
 */
#ifndef ALIOTH_SOCKET_SERVICE_H
#define ALIOTH_SOCKET_SERVICE_H

#include "count.h"
#include "service.h"
#include <bpf/bpf_core_read.h>

#define ALLOW 1
#define REFUSE 0
#define ECONNREFUSED 111

static __always_inline enum family family_of(const struct addr *a)
{
	const __u32 *w = (const __u32 *)a->b;

	return !w[0] && !w[1] && w[2] == bpf_htonl(0xffff) ? FAMILY_V4 : FAMILY_V6;
}

static __always_inline bool at_node(struct bpf_sock_addr *ctx)
{
	return bpf_get_netns_cookie(ctx) == alioth_config.netns_cookie;
}

static __always_inline struct socket *socket_of(struct bpf_sock_addr *ctx, __u64 flags)
{
	struct bpf_sock *sk = ctx->sk;

	return sk ? bpf_sk_storage_get(&alioth_sockets, sk, 0, flags) : 0;
}

static __always_inline bool same_service(const struct service_key *a, const struct service_key *b)
{
	return a->vni == b->vni && a->port == b->port && a->proto == b->proto && addr_equal(&a->vip, &b->vip);
}

/* forget_backend removes a backend from the services that the socket has sent to: from
 * now on a packet of that address is a reply to something else.
 */
static __always_inline void forget_backend(struct socket *s, const struct addr *ip, __be16 port)
{
	for (int i = 0; i < SOCKET_PEERS; i++)
		if (leads_to(&s->asked[i], ip, port))
			s->asked[i].backend.port = 0;
}

/* first_vpc finds the first VPC of a namespace that has a virtual address. */
static __always_inline struct netns_vpc *first_vpc(struct netns *ns, const struct addr *vip)
{
	struct service_key key = { .vip = *vip };

	for (int i = 0; i < MAX_NETNS_VPCS; i++) {
		key.vni = ns->vpc[i].vni;
		if (!key.vni)
			return 0;
		if (bpf_map_lookup_elem(&alioth_services, &key))
			return &ns->vpc[i];
	}
	return 0;
}

/* choose selects a backend for a new flow of the client: a random one, unless the
 * client has affinity.
 */
static __always_inline bool choose(struct peer *to, const struct service *service, const struct netns_vpc *client,
				   enum family family)
{
	struct backend_key slot = { .service = service->id };
	struct choice *choice = bpf_map_lookup_elem(&alioth_choices, &slot.service);
	struct affinity_key who = { .service = to->service, .vni = client->vni };
	void *affinities = affinities_of(choice, client->vni);
	struct affinity row = {};
	struct backend *backend;

	if (choice && affinities) {
		who.client = family == FAMILY_V4 ? client->ip[FAMILY_V4] : client->ip[FAMILY_V6];
		if (kept_backend(affinities, &who, &to->backend, service, choice))
			return true;
	}
	slot.slot = bpf_get_prandom_u32() % service->backends;
	backend = bpf_map_lookup_elem(&alioth_backends, &slot);
	if (!backend)
		return false;
	to->backend = *backend;
	if (affinities)
		keep_backend(affinities, &who, &to->backend, &row);
	return true;
}

/* is_virtual reports whether a destination without a service is at a virtual address of
 * the VPC: the address lacks that port or protocol.
 */
static __always_inline bool is_virtual(const struct service_key *lacking)
{
	struct service_key key = { .vni = lacking->vni, .vip = lacking->vip };

	return bpf_map_lookup_elem(&alioth_services, &key);
}

/* is_left_out reports whether a service without backends has endpoints that count for
 * another proxy. That proxy may serve them to the node.
 */
static __always_inline bool is_left_out(const struct service *service)
{
	struct choice *choice = bpf_map_lookup_elem(&alioth_choices, &service->id);

	return choice && choice->entries == ENTRIES_LEFT_OUT;
}

/* ask_service finds the backend of the service at a socket's destination, and returns
 * the result: SERVICE_REWRITTEN, REPLIED_REFUSED if the virtual address does not have the
 * port or the service has no backend, and UNDECIDED if the socket is not translated.
 * before is the socket's present backend for the service, or NULL.
 */
static __always_inline enum reason ask_service(struct bpf_sock_addr *ctx, struct peer *to, const struct peer *before,
					       const struct netns_vpc *vpc, enum family family)
{
	struct service *service = bpf_map_lookup_elem(&alioth_services, &to->service);

	if (!service)
		return is_virtual(&to->service) ? REPLIED_REFUSED : UNDECIDED;
	if (!service->backends)
		return at_node(ctx) && is_left_out(service) ? UNDECIDED : REPLIED_REFUSED;
	if (before && is_backend(service, &before->backend))
		to->backend = before->backend;
	else if (!choose(to, service, vpc, family))
		return UNDECIDED;
	return SERVICE_REWRITTEN;
}

/* find_vpc finds the VPC of the service; NULL if the socket's namespace has none with
 * that address. Shared services are translated for the node's sockets only: at a
 * tenant's socket the backend's address may be one of the tenant's own.
 */
static __always_inline struct netns_vpc *find_vpc(struct bpf_sock_addr *ctx, struct netns *ns, struct peer *to)
{
	struct netns_vpc *vpc = first_vpc(ns, &to->service.vip);

	to->service.vni = vpc ? vpc->vni : SHARED_VNI;
	if (vpc)
		return vpc;
	return ns->flags & NETNS_SHARED && at_node(ctx) ? &ns->vpc[0] : 0;
}

static __always_inline struct netns *netns_of(struct bpf_sock_addr *ctx)
{
	__u64 cookie = bpf_get_netns_cookie(ctx);

	return bpf_map_lookup_elem(&alioth_netns, &cookie);
}

/* is_served reports whether the socket's protocol is one that services have. */
static __always_inline bool is_served(struct bpf_sock_addr *ctx)
{
	return ctx->protocol == IPPROTO_TCP || ctx->protocol == IPPROTO_UDP;
}

/* may_move reports whether a connected UDP socket has to be translated in packets
 * instead. This is so if the daemon does not end such sockets when their backend is
 * removed: only the translation in packets moves the flow to another backend. Where no
 * program sees the packets, the socket stays with its backend.
 */
static __always_inline bool may_move(struct bpf_sock_addr *ctx, const struct netns_vpc *vpc)
{
	return !alioth_config.connected_datagrams && ctx->protocol == IPPROTO_UDP && vpc->ifindex && !at_node(ctx);
}

/* note_parent repeats a decision about a connect for the socket of MPTCP that the process
 * has: the kernel connects a TCP socket of its own in place of that one, and getpeername
 * asks about the socket of the process. Later TCP sockets of the same connection lead to
 * other addresses of the peer, and change nothing.
 */
static __always_inline void note_parent(struct bpf_sock *sk, const struct peer *to, bool translated)
{
	struct mptcp_sock *parent;
	struct socket *s;

	if (!sk || !bpf_core_field_exists(struct mptcp_sock, sk))
		return;
	parent = bpf_skc_to_mptcp_sock(sk);
	if (!parent || parent->sk.icsk_inet.sk.__sk_common.skc_state == TCP_ESTABLISHED)
		return;
	s = bpf_sk_storage_get(&alioth_sockets, parent, 0, translated ? BPF_SK_STORAGE_GET_F_CREATE : 0);
	if (!s)
		return;
	if (translated)
		s->connected = *to;
	else
		s->connected.backend.port = 0;
}

/* connect_service decides about a connect to to->service. */
static __always_inline enum reason connect_service(struct bpf_sock_addr *ctx, struct peer *to, enum family family)
{
	enum reason reason = UNDECIDED;
	struct netns_vpc *vpc;
	struct socket *s;
	struct netns *ns;

	if (!is_served(ctx))
		return UNDECIDED;
	ns = netns_of(ctx);
	if (!ns)
		return UNDECIDED;
	vpc = find_vpc(ctx, ns, to);
	if (vpc && !may_move(ctx, vpc))
		reason = ask_service(ctx, to, 0, vpc, family);
	if (ctx->protocol == IPPROTO_TCP)
		note_parent(ctx->sk, to, reason == SERVICE_REWRITTEN);
	s = socket_of(ctx, reason == SERVICE_REWRITTEN ? BPF_SK_STORAGE_GET_F_CREATE : 0);
	if (!s) /* without this entry, the process would see the backend's address */
		return reason == SERVICE_REWRITTEN ? UNDECIDED : reason;
	s->connected.backend.port = 0;
	if (reason != SERVICE_REWRITTEN)
		return reason;
	forget_backend(s, &to->backend.ip, to->backend.port);
	s->connected = *to;
	return reason;
}

/* passes_program reports whether the packets of a socket in a VPC pass alioth_from_pod. */
static __always_inline bool passes_program(struct bpf_sock_addr *ctx, const struct netns_vpc *vpc)
{
	return vpc->ifindex && !at_node(ctx);
}

/* gateway_of finds the gateway in the VPC of a service, if the socket's packets pass a program
 * there.
 */
static __always_inline bool gateway_of(struct bpf_sock_addr *ctx, struct netns *ns, const struct peer *p,
				       enum family family, struct addr *gateway)
{
	struct interface *device = 0;

	for (int i = 0; i < MAX_NETNS_VPCS; i++) {
		if (ns->vpc[i].vni != p->service.vni)
			continue;
		if (passes_program(ctx, &ns->vpc[i]))
			device = bpf_map_lookup_elem(&alioth_interfaces, &ns->vpc[i].ifindex);
		break;
	}
	if (!device)
		return false;
	*gateway = family == FAMILY_V4 ? device->gateway[FAMILY_V4] : device->gateway[FAMILY_V6];
	return !addr_is_zero(gateway);
}

/* asked_aside_for finds the backend of a port of the gateway, see ask_aside(). */
static __always_inline struct peer *asked_aside_for(struct bpf_sock_addr *ctx, const struct peer *from)
{
	__u32 i = bpf_ntohs(from->service.port) - ASIDE_PORT;
	struct addr gateway;
	struct socket *s;
	struct netns *ns;

	if (i >= SOCKET_PEERS)
		return 0;
	s = socket_of(ctx, 0);
	ns = netns_of(ctx);
	if (!s || !ns || !s->asked[i].backend.port)
		return 0;
	if (!gateway_of(ctx, ns, &s->asked[i], family_of(&from->service.vip), &gateway) ||
	    !addr_equal(&gateway, &from->service.vip))
		return 0;
	return &s->asked[i];
}

/* asked_for finds the service whose backend is a peer of the socket. */
static __always_inline struct peer *asked_for(struct bpf_sock_addr *ctx, const struct peer *from, bool datagrams)
{
	struct socket *s = socket_of(ctx, 0);

	if (!s)
		return 0;
	if (leads_to(&s->connected, &from->service.vip, from->service.port))
		return &s->connected;
	if (!datagrams)
		return 0;
	for (int i = 0; i < SOCKET_PEERS; i++)
		if (leads_to(&s->asked[i], &from->service.vip, from->service.port))
			return &s->asked[i];
	return 0;
}

/* read_v4 and read_v6 read the socket's peer from the context. */
static __always_inline void read_v4(struct bpf_sock_addr *ctx, struct peer *p)
{
	addr_from_v4(&p->service.vip, ctx->user_ip4);
	p->service.port = ctx->user_port;
	p->service.proto = ctx->protocol;
}

static __always_inline void read_v6(struct bpf_sock_addr *ctx, struct peer *p)
{
	__u32 *w = (__u32 *)p->service.vip.b;

	w[0] = ctx->user_ip6[0];
	w[1] = ctx->user_ip6[1];
	w[2] = ctx->user_ip6[2];
	w[3] = ctx->user_ip6[3];
	p->service.port = ctx->user_port;
	p->service.proto = ctx->protocol;
}

static __always_inline void write_v4(struct bpf_sock_addr *ctx, const struct addr *ip, __be16 port)
{
	ctx->user_ip4 = addr_v4(ip);
	ctx->user_port = port;
}

static __always_inline void write_v6(struct bpf_sock_addr *ctx, const struct addr *ip, __be16 port)
{
	const __u32 *w = (const __u32 *)ip->b;

	ctx->user_ip6[0] = w[0];
	ctx->user_ip6[1] = w[1];
	ctx->user_ip6[2] = w[2];
	ctx->user_ip6[3] = w[3];
	ctx->user_port = port;
}

/* refuses reports whether the call has to fail. */
static __always_inline bool refuses(enum reason reason)
{
	return reason == REPLIED_REFUSED || reason == DROP_KUBELET_NO_POD;
}

/* refuse_socket makes the call fail at once. */
static __always_inline int refuse_socket(enum reason reason)
{
	count(reason, DIRECTION_SOCKET, 0);
	bpf_set_retval(-ECONNREFUSED);
	return REFUSE;
}

/* conclude_v4 and conclude_v6 replace the call's destination by to->backend. */
static __always_inline int conclude_v4(struct bpf_sock_addr *ctx, const struct peer *to, enum reason reason)
{
	if (reason == UNDECIDED)
		return ALLOW;
	if (refuses(reason))
		return refuse_socket(reason);
	write_v4(ctx, &to->backend.ip, to->backend.port);
	count(reason, DIRECTION_SOCKET, 0);
	return ALLOW;
}

static __always_inline int conclude_v6(struct bpf_sock_addr *ctx, const struct peer *to, enum reason reason)
{
	if (reason == UNDECIDED)
		return ALLOW;
	if (refuses(reason))
		return refuse_socket(reason);
	write_v6(ctx, &to->backend.ip, to->backend.port);
	count(reason, DIRECTION_SOCKET, 0);
	return ALLOW;
}

/* show_v4 and show_v6 replace the backend's address by the service's, for the caller. */
static __always_inline int show_v4(struct bpf_sock_addr *ctx, bool datagrams)
{
	struct peer from = {}, *asked;

	read_v4(ctx, &from);
	asked = asked_for(ctx, &from, datagrams);
	if (asked) {
		write_v4(ctx, &asked->service.vip, asked->service.port);
		return ALLOW;
	}
	asked = datagrams ? asked_aside_for(ctx, &from) : 0;
	if (asked)
		write_v4(ctx, &asked->backend.ip, asked->backend.port);
	return ALLOW;
}

static __always_inline int show_v6(struct bpf_sock_addr *ctx, bool datagrams)
{
	struct peer from = {}, *asked;

	read_v6(ctx, &from);
	asked = asked_for(ctx, &from, datagrams);
	if (asked) {
		write_v6(ctx, &asked->service.vip, asked->service.port);
		return ALLOW;
	}
	asked = datagrams ? asked_aside_for(ctx, &from) : 0;
	if (asked)
		write_v6(ctx, &asked->backend.ip, asked->backend.port);
	return ALLOW;
}

static __always_inline int recvmsg4(struct bpf_sock_addr *ctx)
{
	return show_v4(ctx, true);
}

static __always_inline int recvmsg6(struct bpf_sock_addr *ctx)
{
	return show_v6(ctx, true);
}

static __always_inline int getpeername4(struct bpf_sock_addr *ctx)
{
	return show_v4(ctx, false);
}

static __always_inline int getpeername6(struct bpf_sock_addr *ctx)
{
	return show_v6(ctx, false);
}

#endif
