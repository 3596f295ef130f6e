/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Copyright The Alioth Authors. */

/* The guard of a TCP port of the node that is for the node's processes alone: its server
 * listens on loopback. The programs are attached to the cgroup of all pods, so they see
 * the sockets of pods on the node's network, and none of the node's own processes. The
 * server asks for the cgroup of each client too, because packets of a raw socket pass no
 * hook of sockets.
 */
#ifndef ALIOTH_GUARDED_H
#define ALIOTH_GUARDED_H

#include "count.h"
#include "socket_service.h"

/* is_loopback reports whether a connect to the address stays on this machine. To an
 * unspecified address the kernel connects as to loopback.
 */
static __always_inline bool is_loopback(const struct addr *a)
{
	const __u32 *w = (const __u32 *)a->b;

	if (family_of(a) == FAMILY_V4)
		return a->b[12] == 127 || !w[3];
	return !w[0] && !w[1] && !w[2] && (!w[3] || w[3] == bpf_htonl(1));
}

/* guard decides about a connect of a process in the cgroup of pods. A pod's own loopback
 * is in another network namespace. SCTP and UDP have ports of their own; the flows of
 * MPTCP and SMC sockets connect as sockets of TCP.
 */
static __always_inline int guard(struct bpf_sock_addr *ctx, const struct peer *to)
{
	if (!alioth_config.guarded_port || to->service.port != alioth_config.guarded_port)
		return ALLOW;
	if (ctx->protocol == IPPROTO_UDP || !is_loopback(&to->service.vip) || !at_node(ctx))
		return ALLOW;
	count(DROP_GUARDED_PORT, DIRECTION_SOCKET, 0);
	return REFUSE;
}

static __always_inline int guard4(struct bpf_sock_addr *ctx)
{
	struct peer to = {};

	read_v4(ctx, &to);
	return guard(ctx, &to);
}

static __always_inline int guard6(struct bpf_sock_addr *ctx)
{
	struct peer to = {};

	read_v6(ctx, &to);
	return guard(ctx, &to);
}

#endif
