/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Copyright The Alioth Authors. */

/* The kubelet's connections to pods. It lives in the node's own network
 * namespace, where a pod's address means nothing or something else; its probes
 * are known by a linger time of 1 s, set before connect, and its lifecycle
 * hooks by the exact address and port that the pod names.
 */
#ifndef ALIOTH_SOCKET_H
#define ALIOTH_SOCKET_H

#include "count.h"
#include <bpf/bpf_core_read.h>

#define SOCK_STREAM 1
#define NODE_SCOPE 0
#define ALLOW_CONNECT 1

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

static __always_inline int connect4(struct bpf_sock_addr *ctx)
{
	enum reason reason = UNDECIDED;
	struct addr dst, *shadow;

	if (!from_node(ctx))
		return ALLOW_CONNECT;
	addr_from_v4(&dst, ctx->user_ip4);
	shadow = shadow_of(ctx, &dst, &reason);
	if (!shadow)
		return ALLOW_CONNECT;
	ctx->user_ip4 = addr_v4(shadow);
	count(reason, DIRECTION_SOCKET, 0);
	return ALLOW_CONNECT;
}

/* connect6 serves IPv4-mapped destinations as well: the target's shadow is of
 * the same family as the target, so writing all four words suits both.
 */
static __always_inline int connect6(struct bpf_sock_addr *ctx)
{
	enum reason reason = UNDECIDED;
	struct addr dst, *shadow;
	__u32 *w = (__u32 *)dst.b;

	if (!from_node(ctx))
		return ALLOW_CONNECT;
	w[0] = ctx->user_ip6[0];
	w[1] = ctx->user_ip6[1];
	w[2] = ctx->user_ip6[2];
	w[3] = ctx->user_ip6[3];
	shadow = shadow_of(ctx, &dst, &reason);
	if (!shadow)
		return ALLOW_CONNECT;
	w = (__u32 *)shadow->b;
	ctx->user_ip6[0] = w[0];
	ctx->user_ip6[1] = w[1];
	ctx->user_ip6[2] = w[2];
	ctx->user_ip6[3] = w[3];
	count(reason, DIRECTION_SOCKET, 0);
	return ALLOW_CONNECT;
}

#endif
