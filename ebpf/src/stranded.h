/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Copyright The Alioth Authors. */

/* Sockets for datagrams that were connected to a backend which is one no more.
 * Nothing that such a socket hears says so. It is looked for among all sockets of
 * the node that have notes of the socket door, by comparing these with the maps:
 * so it doesn't matter who took the backend away, and when.
 */
#ifndef ALIOTH_STRANDED_H
#define ALIOTH_STRANDED_H

#include "socket_service.h"

#define AF_INET 2

/* read_ends takes from a socket with whom it is connected now, and as whom. */
static __noinline void read_ends(const struct sock *sk, struct stranded *row)
{
	const struct sock_common *common = &sk->__sk_common;
	__u32 *local = (__u32 *)row->local.b, *remote = (__u32 *)row->remote.b;

	row->local_port = bpf_htons(common->skc_num);
	row->remote_port = common->skc_dport;
	row->ifindex = common->skc_bound_dev_if;
	if (common->skc_family == AF_INET) {
		addr_from_v4(&row->local, common->skc_rcv_saddr);
		addr_from_v4(&row->remote, common->skc_daddr);
		return;
	}
	for (int i = 0; i < 4; i++) {
		local[i] = common->skc_v6_rcv_saddr.in6_u.u6_addr32[i];
		remote[i] = common->skc_v6_daddr.in6_u.u6_addr32[i];
	}
}

/* is_served_by tells whether a backend is one of the service. */
static __always_inline bool is_served_by(const struct peer *p)
{
	struct service *service = bpf_map_lookup_elem(&alioth_services, &p->service);

	return service && is_backend(service, &p->backend);
}

/* tell_stranded writes a row about the socket if it is stranded. A note outlives
 * the connection that it was made for, so the socket itself has the last word.
 */
static __always_inline void tell_stranded(struct bpf_iter__bpf_sk_storage_map *ctx, struct sock *sk,
					  const struct socket *notes)
{
	struct peer p = notes->connected;
	struct stranded row = {};

	if (!p.backend.port || p.service.proto != IPPROTO_UDP)
		return;
	read_ends(sk, &row);
	if (!leads_to(&p, &row.remote, row.remote_port) || is_served_by(&p))
		return;
	row.netns_cookie = sk->__sk_common.skc_net.net->net_cookie;
	row.cookie = bpf_get_socket_cookie(sk);
	bpf_seq_write(ctx->meta->seq, &row, sizeof(row));
}

#endif
