/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Copyright The Alioth Authors. */

/* Hooks of sockets. Most sockets are a pod's, and connect to services:
 * socket_service.h. This file handles the kubelet's connections to pods. The kubelet
 * runs in the node's own network namespace, where a pod's address has no meaning or
 * another one. A linger time of 1 s, set before connect, distinguishes its probes from
 * its other connections. Other processes of the node are never directed to a pod, see
 * kubelet.h.
 */
#ifndef ALIOTH_SOCKET_H
#define ALIOTH_SOCKET_H

#include "count.h"
#include "kubelet.h"
#include "socket_datagram.h"
#include <bpf/bpf_core_read.h>

#define SOCK_STREAM 1

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

static __always_inline bool from_node(struct bpf_sock_addr *ctx)
{
	return ctx->type == SOCK_STREAM && ctx->protocol == IPPROTO_TCP &&
	       bpf_get_netns_cookie(ctx) == alioth_config.netns_cookie;
}

/* lead decides about a connect of the node itself, and finds its new destination. The
 * lookup of the destination precedes the check of the caller: few connects are to such
 * an address.
 */
static __always_inline enum reason lead(struct bpf_sock_addr *ctx, struct peer *to)
{
	bool probe = lingers_like_probe(ctx);
	struct target_key key = { .scope = probe ? TARGET_PROBE : TARGET_HOOK, .ip = to->service.vip };
	struct addr *shadow = bpf_map_lookup_elem(&alioth_targets, &key);
	struct bpf_sock *sk = ctx->sk;

	if (!shadow || !is_kubelet())
		return UNDECIDED;
	if (addr_is_zero(shadow) || !sk || !bpf_sk_storage_get(&alioth_led, sk, 0, BPF_SK_STORAGE_GET_F_CREATE))
		return DROP_KUBELET_NO_POD;
	to->backend.ip = *shadow;
	to->backend.port = ctx->user_port;
	return probe ? PROBE_REWRITTEN : HOOK_REWRITTEN;
}

/* connect_hook decides about a connect to the port that the context has. */
static __always_inline enum reason connect_hook(struct bpf_sock_addr *ctx, struct peer *to, enum family family)
{
	enum reason reason = UNDECIDED;

	if (from_node(ctx))
		reason = lead(ctx, to);
	return reason ? reason : connect_service(ctx, to, family);
}

static __always_inline int connect4(struct bpf_sock_addr *ctx)
{
	struct peer to = {};

	read_v4(ctx, &to);
	return conclude_v4(ctx, &to, connect_hook(ctx, &to, FAMILY_V4));
}

/* connect6 handles IPv4-mapped destinations too: a replacement has the same family as
 * the original, so both can be written as four words.
 */
static __always_inline int connect6(struct bpf_sock_addr *ctx)
{
	struct peer to = {};

	read_v6(ctx, &to);
	return conclude_v6(ctx, &to, connect_hook(ctx, &to, family_of(&to.service.vip)));
}

#endif
