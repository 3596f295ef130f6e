/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Copyright The Alioth Authors. */

/* Translation of packets to scaled endpoints, which are services in the sender's own
 * VPC. It precedes the lookup of the destination, so that all later decisions use the
 * backend's address.
 */
#ifndef ALIOTH_SCALED_H
#define ALIOTH_SCALED_H

#include "service.h"

#define ICMP_PROTOCOL_UNREACHABLE 2
#define ICMP_PORT_UNREACHABLE 3
#define ICMPV6_UNREACHABLE 1
#define ICMPV6_PORT_UNREACHABLE 4
#define ICMP_ECHO 8
#define ICMPV6_ECHO 128

struct tcp_header {
	__be16 source;
	__be16 dest;
	__be32 seq;
	__be32 ack;
	__u8 length; /* in words of 4 bytes, in the upper half */
	__u8 flags;
	__be16 window;
	__u16 check;
	__u16 urgent;
};

struct reset_v4 {
	struct ethhdr eth;
	struct iphdr ip;
	struct tcp_header tcp;
} __attribute__((packed));

struct reset_v6 {
	struct ethhdr eth;
	struct ipv6hdr ip;
	struct tcp_header tcp;
} __attribute__((packed));

/* reset_header makes the header of the reset that refuses an opening (RFC 9293 section
 * 3.10.7.1).
 */
static __always_inline int reset_header(struct __sk_buff *skb, const struct packet *pkt, struct tcp_header *tcp)
{
	struct pseudo_header pseudo = {
		.src = pkt->dst,
		.dst = pkt->src,
		.len = bpf_htonl(sizeof(*tcp)),
		.proto = bpf_htonl(IPPROTO_TCP),
	};
	__be32 seq;

	if (bpf_skb_load_bytes(skb, pkt->l4 + 4, &seq, sizeof(seq)))
		return -1;
	tcp->source = pkt->dport;
	tcp->dest = pkt->sport;
	tcp->ack = bpf_htonl(bpf_ntohl(seq) + 1);
	tcp->length = sizeof(*tcp) / 4 << 4;
	tcp->flags = TCP_RST | TCP_ACK;
	/* The mapped form of IPv4 adds the same value to the sum twice, which is one
	 * time too many.
	 */
	if (pkt->family == FAMILY_V4) {
		__builtin_memset(pseudo.src.b, 0, 12);
		__builtin_memset(pseudo.dst.b, 0, 12);
	}
	tcp->check = fold_checksum(bpf_csum_diff(0, 0, (__be32 *)tcp, sizeof(*tcp),
						 bpf_csum_diff(0, 0, (__be32 *)&pseudo, sizeof(pseudo), 0)));
	return 0;
}

static __always_inline int write_reset_v4(struct __sk_buff *skb, const struct packet *pkt, const struct interface *from,
					  const struct tcp_header *tcp)
{
	struct reset_v4 r = {
		.eth.h_proto = bpf_htons(ETH_P_IP),
		.ip = {
			.version = 4,
			.ihl = sizeof(r.ip) / 4,
			.tot_len = bpf_htons(sizeof(r.ip) + sizeof(r.tcp)),
			.frag_off = bpf_htons(IPV4_DONT_FRAGMENT),
			.ttl = ICMP_TTL,
			.protocol = IPPROTO_TCP,
			.saddr = addr_v4(&pkt->dst),
			.daddr = addr_v4(&pkt->src),
		},
		.tcp = *tcp,
	};
	struct iphdr ip = r.ip;

	r.ip.check = ipv4_check(&ip);
	__builtin_memcpy(r.eth.h_dest, from->mac, 6);
	__builtin_memcpy(r.eth.h_source, virtual_mac, 6);
	if (skb->len != sizeof(r) && bpf_skb_change_tail(skb, sizeof(r), 0))
		return -1;
	return bpf_skb_store_bytes(skb, 0, &r, sizeof(r), 0) ? -1 : 0;
}

static __always_inline int write_reset_v6(struct __sk_buff *skb, const struct packet *pkt, const struct interface *from,
					  const struct tcp_header *tcp)
{
	struct reset_v6 r = {
		.eth.h_proto = bpf_htons(ETH_P_IPV6),
		.ip = {
			.version = 6,
			.payload_len = bpf_htons(sizeof(r.tcp)),
			.nexthdr = IPPROTO_TCP,
			.hop_limit = ICMP_TTL,
		},
		.tcp = *tcp,
	};

	__builtin_memcpy(r.ip.saddr, pkt->dst.b, 16);
	__builtin_memcpy(r.ip.daddr, pkt->src.b, 16);
	__builtin_memcpy(r.eth.h_dest, from->mac, 6);
	__builtin_memcpy(r.eth.h_source, virtual_mac, 6);
	if (skb->len != sizeof(r) && bpf_skb_change_tail(skb, sizeof(r), 0))
		return -1;
	return bpf_skb_store_bytes(skb, 0, &r, sizeof(r), 0) ? -1 : 0;
}

/* reset turns a TCP opening into the reset that refuses it. */
__noinline enum telling reset(struct __sk_buff *skb, struct packet *pkt, const struct interface *from)
{
	struct tcp_header tcp = {};

	if (!pkt || !from || !may_tell(skb->ifindex) || reset_header(skb, pkt, &tcp))
		return NOT_TOLD;
	if (pkt->family == FAMILY_V4 ? write_reset_v4(skb, pkt, from, &tcp) : write_reset_v6(skb, pkt, from, &tcp))
		return HALF_TOLD;
	pkt->action = to_interface(skb, skb->ifindex, from->flags);
	return TOLD;
}

/* is_refused reports whether the sender gets an error for a packet that is dropped. The
 * packet is unchanged.
 */
static __always_inline bool is_refused(enum reason reason)
{
	return reason == DROP_NO_BACKEND || reason == DROP_CONN_CONFLICT || reason == DROP_SERVICE_PORT;
}

/* refuse informs the sender at once that a service does not take its packet, as a host
 * without a listener would, so that the sender need not wait for its timeout. Of TCP only
 * openings get a reply.
 */
static __always_inline enum reason refuse(struct __sk_buff *skb, struct packet *pkt, const struct interface *from,
					  enum reason reason)
{
	struct complaint c = { .type = ICMP_UNREACHABLE, .code = ICMP_PORT_UNREACHABLE };
	enum telling told;

	if (pkt->family == FAMILY_V6) {
		c.type = ICMPV6_UNREACHABLE;
		c.code = ICMPV6_PORT_UNREACHABLE;
	} else if (pkt->proto != IPPROTO_UDP) {
		c.code = ICMP_PROTOCOL_UNREACHABLE;
	}
	if (pkt->proto == IPPROTO_TCP)
		told = opens_anew(pkt) ? reset(skb, pkt, from) : NOT_TOLD;
	else
		told = tell_from(skb, pkt, from, &c);
	if (told == NOT_TOLD)
		return reason;
	return told == TOLD ? REPLIED_REFUSED : DROP_REWRITE_FAILED;
}

/* after_first handles a later fragment like the first one of its datagram, with the
 * same destination and mark.
 */
static __always_inline enum reason after_first(struct __sk_buff *skb, struct packet *pkt, struct work *w)
{
	struct first_fragment *first = find_first(skb, pkt, &pkt->dst);

	if (!first)
		return DROP_EGRESS_FRAGMENT;
	w->backend.ip = first->shown;
	skb->mark = (skb->mark & ~MARK_MASK) | first->mark;
	return set_addr(skb, pkt, SIDE_DST, &w->backend.ip) ? DROP_REWRITE_FAILED : UNDECIDED;
}

/* control_of_scaled handles ICMP to a virtual address: echo requests get a reply. */
static __always_inline enum reason control_of_scaled(struct __sk_buff *skb, struct packet *pkt)
{
	if (pkt->icmp_type == (pkt->family == FAMILY_V4 ? ICMP_ECHO : ICMPV6_ECHO))
		return REPLIED;
	return is_icmp_error(pkt) ? error_to_backend(skb, pkt, pkt->vni) : DROP_SERVICE_ICMP;
}

/* back_to_self translates the reply of a pod to itself: the pod sent to a service,
 * which sent to the pod from the gateway's address.
 */
static __always_inline enum reason back_to_self(struct __sk_buff *skb, struct packet *pkt, struct work *w)
{
	struct conn *conn;

	if (walk_extensions(skb, pkt) || pkt->later || parse_l4(skb, pkt) || !pkt->sport)
		return UNDECIDED;
	conn = from_backend(w, pkt, &pkt->src, pkt->dport, &pkt->src, pkt->sport, pkt->proto);
	if (!conn)
		return UNDECIDED;
	conn_touch(conn, pkt);
	w->backend.ip = conn->addr;
	w->backend.port = conn->port;
	w->pod_port = conn->pod_port;
	w->quote.src = pkt->src;
	if ((w->pod_port && set_port(skb, pkt, SIDE_DST, w->pod_port)) ||
	    set_port(skb, pkt, SIDE_SRC, w->backend.port) || set_addr(skb, pkt, SIDE_SRC, &w->backend.ip) ||
	    set_addr(skb, pkt, SIDE_DST, &w->quote.src))
		return DROP_REWRITE_FAILED;
	return UNDECIDED;
}

/* to_address translates packets to the address that they ask: packets to a virtual address, and
 * packets that asks() has found.
 */
static __always_inline enum reason to_address(struct __sk_buff *skb, struct packet *pkt, struct work *w,
					      enum asking asking)
{
	enum reason reason = walk_extensions(skb, pkt);

	if (reason)
		return reason;
	if (pkt->later)
		return after_first(skb, pkt, w);
	reason = parse_l4(skb, pkt);
	if (reason)
		return reason == DROP_EGRESS_PROTOCOL ? DROP_SERVICE_PORT : reason;
	if (pkt->proto == IPPROTO_ICMP || pkt->proto == IPPROTO_ICMPV6)
		return pkt->fragment ? DROP_SERVICE_ICMP : control_of_scaled(skb, pkt);
	if (pkt->fragment && pkt->proto == IPPROTO_TCP) /* a later fragment could overwrite the flags */
		return DROP_EGRESS_FRAGMENT;
	if (asking == ASKS_SERVICE)
		name_service(w, pkt, pkt->vni);
	reason = to_backend(skb, pkt, asking);
	if (!reason && pkt->fragment)
		remember_first(skb, pkt, &pkt->came.dst, &pkt->dst, 0);
	/* A process does not know of the removal of its peer: an error is better than silence. */
	if (asking == ASKS_SUCCESSOR && (reason == DROP_CONN_LIMIT || reason == DROP_CONN_FULL))
		return DROP_NO_BACKEND;
	return reason;
}

/* is_left_behind reports whether a datagram's socket is connected to its destination, which
 * the socket was given as a backend, and which the service no longer has.
 */
static __always_inline bool is_left_behind(const struct socket *s, const struct packet *pkt)
{
	const struct peer *p = &s->connected;
	struct service *service;

	if (p->service.vni != pkt->vni || p->service.proto != IPPROTO_UDP || !leads_to(p, &pkt->dst, pkt->dport))
		return false;
	service = bpf_map_lookup_elem(&alioth_services, &p->service);
	return !service || !is_backend(service, &p->backend);
}

/* asked_aside finds the backend that a datagram to the gateway stands for, see ask_aside(); NULL
 * without such a backend.
 */
static __always_inline const struct peer *asked_aside(const struct socket *s, const struct packet *pkt,
						      const struct addr *gateway)
{
	__u32 i = bpf_ntohs(pkt->dport) - ASIDE_PORT;

	if (!addr_equal(&pkt->dst, gateway) || i >= SOCKET_PEERS)
		return 0;
	return s->asked[i].backend.port && s->asked[i].service.vni == pkt->vni ? &s->asked[i] : 0;
}

/* asks finds what a datagram asks by the notes of its socket, and fills the work area for
 * to_backend(). A function of its own, for its stack frame.
 */
static __noinline enum asking asks(struct __sk_buff *skb, struct packet *pkt, const struct socket *s,
				   const struct addr *gateway)
{
	struct work *w = take_work();
	const struct peer *aside;

	if (!w || walk_extensions(skb, pkt) || pkt->proto != IPPROTO_UDP)
		return ASKS_NOTHING;
	if (pkt->later)
		return find_first(skb, pkt, &pkt->dst) ? ASKS_BACKEND : ASKS_NOTHING;
	if (parse_l4(skb, pkt))
		return ASKS_NOTHING;
	aside = asked_aside(s, pkt, gateway);
	if (aside) {
		w->backend = aside->backend;
		return ASKS_BACKEND;
	}
	if (!is_left_behind(s, pkt))
		return ASKS_NOTHING;
	w->client.service = s->connected.service;
	return ASKS_SUCCESSOR;
}

/* to_scaled handles packets to a virtual address of the packet's own VPC. UNDECIDED:
 * the packet goes on to its destination, which may have changed. REPLIED: reply to its
 * echo request. If is_refused(), refuse() it.
 */
__noinline enum reason to_scaled(struct __sk_buff *skb, struct packet *pkt, const struct interface *from)
{
	enum asking asking = ASKS_SERVICE;
	const struct addr *gateway;
	struct work *w = take_work();
	enum reason reason;
	struct socket *s;

	if (!pkt || !from || !w)
		return DROP_REWRITE_FAILED;
	gateway = pkt->family == FAMILY_V4 ? &from->gateway[FAMILY_V4] : &from->gateway[FAMILY_V6];
	if (!lookup_service(pkt, pkt->vni, 0, 0)) {
		s = asker(skb, pkt);
		asking = s ? asks(skb, pkt, s, gateway) : ASKS_NOTHING;
		if (asking == ASKS_NOTHING)
			return addr_equal(&pkt->dst, gateway) ? back_to_self(skb, pkt, w) : UNDECIDED;
	}
	reason = to_address(skb, pkt, w, asking);
	if (reason || !addr_equal(&pkt->dst, &pkt->src))
		return reason;
	/* The pod is its own backend. It would not accept a packet from its own address. */
	if (addr_is_zero(gateway))
		return DROP_NO_BACKEND;
	return set_addr(skb, pkt, SIDE_SRC, gateway) ? DROP_REWRITE_FAILED : UNDECIDED;
}

#endif
