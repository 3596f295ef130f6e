/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Copyright The Alioth Authors. */

/* What sockets do. Most are a pod's, and talk to services: socket_service.h. Here
 * are the kubelet's connections to pods. It lives in the node's own network
 * namespace, where a pod's address means nothing or something else; its probes
 * are known by a linger time of 1 s, set before connect, and its lifecycle
 * hooks by the exact address and port that the pod names.
 */
#ifndef ALIOTH_SOCKET_H
#define ALIOTH_SOCKET_H

#include "count.h"
#include "socket_service.h"
#include <bpf/bpf_core_read.h>

#define SOCK_STREAM 1
#define NODE_SCOPE 0

static __always_inline bool lingers_like_probe(struct bpf_sock_addr *ctx)
{
	struct tcp_sock *tcp;
	struct sock *sk;

	if (!ctx->sk)
		return false;
	tcp = bpf_skc_to_tcp_sock(ctx->sk);
	if (!tcp)
		return false;
	sk = &tcp->inet_conn.icsk_inet.sk;
	if (!(sk->__sk_common.skc_flags >> bpf_core_enum_value(enum sock_flags, SOCK_LINGER) & 1))
		return false;
	return sk->sk_lingertime == alioth_config.linger_jiffies;
}

/* shadow_of finds where a connect of the node's own has to go instead. */
static __always_inline struct addr *shadow_of(struct bpf_sock_addr *ctx, const struct addr *dst, enum reason *reason)
{
	struct target_key key = { .scope = NODE_SCOPE, .ip = *dst };
	struct addr *shadow;

	shadow = bpf_map_lookup_elem(&alioth_targets, &key);
	if (shadow && lingers_like_probe(ctx)) {
		*reason = PROBE_REWRITTEN;
		return shadow;
	}
	key.port = ctx->user_port;
	if (!key.port)
		return 0;
	*reason = HOOK_REWRITTEN;
	return bpf_map_lookup_elem(&alioth_targets, &key);
}

static __always_inline bool from_node(struct bpf_sock_addr *ctx)
{
	return ctx->type == SOCK_STREAM && ctx->protocol == IPPROTO_TCP &&
	       bpf_get_netns_cookie(ctx) == alioth_config.netns_cookie;
}

/* connect_hook decides about a connect to the port that the context has. */
static __always_inline enum reason connect_hook(struct bpf_sock_addr *ctx, struct peer *to, enum family family)
{
	enum reason reason = UNDECIDED;
	struct addr *shadow;

	if (from_node(ctx)) {
		shadow = shadow_of(ctx, &to->service.vip, &reason);
		if (shadow) {
			to->backend.ip = *shadow;
			to->backend.port = ctx->user_port;
			return reason;
		}
	}
	return connect_service(ctx, to, family);
}

static __always_inline int connect4(struct bpf_sock_addr *ctx)
{
	struct peer to = {};

	read_v4(ctx, &to);
	return conclude_v4(ctx, &to, connect_hook(ctx, &to, FAMILY_V4));
}

/* connect6 serves IPv4-mapped destinations as well: what takes the place of one is
 * of the same family, so writing all four words suits both.
 */
static __always_inline int connect6(struct bpf_sock_addr *ctx)
{
	struct peer to = {};

	read_v6(ctx, &to);
	return conclude_v6(ctx, &to, connect_hook(ctx, &to, family_of(&to.service.vip)));
}

#endif
