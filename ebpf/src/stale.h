/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Copyright The Alioth Authors. */

/* Stale sockets: UDP sockets that are connected to a removed backend, and whose packets no
 * program sends to another one. Nothing reports the removal to such a socket. The iterator
 * compares all UDP sockets of a network namespace that have a backend in alioth_sockets with the
 * maps: so the cause and the time of the removal do not matter.
 */
#ifndef ALIOTH_STALE_H
#define ALIOTH_STALE_H

#include "socket_service.h"

#define AF_INET 2

/* read_ends reads the present ends of a connected socket. */
static __noinline void read_ends(const struct sock *sk, struct stale_socket *row)
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

/* has_host_end reports whether the packets of a pod's socket in a VPC pass alioth_from_pod,
 * which sends them to another backend.
 */
static __always_inline bool has_host_end(const struct sock *sk, __u32 vni)
{
	__u64 cookie = sk->__sk_common.skc_net.net->net_cookie;
	struct netns *ns;

	if (cookie == alioth_config.netns_cookie)
		return false;
	ns = bpf_map_lookup_elem(&alioth_netns, &cookie);
	for (int i = 0; ns && i < MAX_NETNS_VPCS; i++)
		if (ns->vpc[i].vni == vni)
			return ns->vpc[i].ifindex;
	return false;
}

/* report_stale writes a row for the socket if it is stale. An entry outlives its connection, so
 * the ends of the socket itself are compared. While its service exists, a socket whose packets
 * pass a program is led to another backend.
 */
static __always_inline void report_stale(struct bpf_iter_meta *meta, struct sock *sk, const struct socket *notes)
{
	struct peer p = notes->connected;
	struct stale_socket row = {};
	struct service *service;

	if (!p.backend.port || p.service.proto != IPPROTO_UDP)
		return;
	read_ends(sk, &row);
	if (!leads_to(&p, &row.remote, row.remote_port))
		return;
	service = bpf_map_lookup_elem(&alioth_services, &p.service);
	if (service && (is_backend(service, &p.backend) || has_host_end(sk, p.service.vni)))
		return;
	row.cookie = bpf_get_socket_cookie(sk);
	bpf_seq_write(meta->seq, &row, sizeof(row));
}

#endif
