/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Copyright The Alioth Authors. */

/* A socket's notes about the services that it asks (alioth_sockets), as the programs of packets
 * read them: a datagram keeps its socket up to alioth_from_pod.
 */
#ifndef ALIOTH_ASKED_H
#define ALIOTH_ASKED_H

#include "work.h"

static __always_inline bool leads_to(const struct peer *p, const struct addr *ip, __be16 port)
{
	return p->backend.port && p->backend.port == port && addr_equal(&p->backend.ip, ip);
}

/* asker returns the notes of the socket that has sent a packet of UDP; NULL without notes. TCP
 * sockets stay with their backend.
 */
static __always_inline struct socket *asker(struct __sk_buff *skb, const struct packet *pkt)
{
	struct bpf_sock *sk;

	if (pkt->proto == IPPROTO_TCP)
		return 0;
	sk = skb->sk;
	if (!sk)
		return 0;
	sk = bpf_sk_fullsock(sk);
	return sk ? bpf_sk_storage_get(&alioth_sockets, sk, 0, 0) : 0;
}

/* asks_backend reports whether a socket has asked a backend by its own packets, for a
 * service of the VPC: the backend's replies have no entry in alioth_connections.
 */
static __always_inline bool asks_backend(const struct socket *s, __u32 vni, const struct backend *b)
{
	if (!s)
		return false;
	if (s->connected.service.vni == vni && leads_to(&s->connected, &b->ip, b->port))
		return true;
	for (int i = 0; i < SOCKET_PEERS; i++)
		if (s->asked[i].service.vni == vni && leads_to(&s->asked[i], &b->ip, b->port))
			return true;
	return false;
}

#endif
