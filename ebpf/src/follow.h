/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Copyright The Alioth Authors. */

/* A fragment without a transport header is translated like the first fragment of its
 * datagram, between VPC and shadow address and for services. The result of the first
 * one is kept per interface, direction and a few bits of the datagram's id: so an
 * interface has FOLLOWED datagrams in progress at once, and the map has room for 128
 * interfaces. A later fragment without such an entry is dropped.
 */
#ifndef ALIOTH_FOLLOW_H
#define ALIOTH_FOLLOW_H

#include "maps.h"
#include "parse.h"

#define FOLLOWED 64
/* Linux waits as long for the remaining fragments of a datagram. */
#define FOLLOW_NS 30000000000ULL

/* fragment_id reads the id that the fragments of a datagram have in common; 0 if the
 * packet has none.
 */
static __always_inline __u32 fragment_id(struct __sk_buff *skb, const struct packet *pkt)
{
	__be32 v6 = 0;
	__be16 v4 = 0;

	if (pkt->family == FAMILY_V6) {
		bpf_skb_load_bytes(skb, pkt->fragment_header + 4, &v6, sizeof(v6));
		return bpf_ntohl(v6);
	}
	bpf_skb_load_bytes(skb, ETH_HLEN + 4, &v4, sizeof(v4));
	return bpf_ntohs(v4);
}

/* fragment_offset is the place of a fragment in its datagram, in bytes. */
static __always_inline __u32 fragment_offset(struct __sk_buff *skb, const struct packet *pkt)
{
	__be16 frag = 0;

	if (pkt->family == FAMILY_V6) {
		bpf_skb_load_bytes(skb, pkt->fragment_header + 2, &frag, sizeof(frag));
		return bpf_ntohs(frag) & IPV6_FRAGMENT_OFFSET;
	}
	bpf_skb_load_bytes(skb, ETH_HLEN + 6, &frag, sizeof(frag));
	return (bpf_ntohs(frag) & IPV4_FRAGMENT_OFFSET) * 8;
}

/* fragment_len returns the number of bytes of its datagram that a first fragment has. */
static __always_inline __u32 fragment_len(const struct packet *pkt)
{
	return pkt->end - (pkt->family == FAMILY_V6 ? pkt->fragment_header + 8 : pkt->l4);
}

/* describe_datagram makes the identity of a datagram of an interface, which includes
 * the address of its peer. In IPv6 the id alone is enough (RFC 8200 section 4.5).
 */
static __always_inline void describe_datagram(struct datagram *d, const struct packet *pkt, const struct addr *peer,
					      __u32 id)
{
	d->vni = pkt->vni;
	d->peer = *peer;
	d->id = id;
	d->proto = pkt->family == FAMILY_V4 ? pkt->proto : 0;
}

static __always_inline bool same_datagram(const struct datagram *a, const struct datagram *b)
{
	return a->vni == b->vni && a->id == b->id && a->proto == b->proto && addr_equal(&a->peer, &b->peer);
}

/* follow_slot makes the key for the first fragment of a datagram. Datagrams from the
 * interface's VPC and from the node's stack have different keys, since the same address
 * belongs to different hosts there.
 */
static __always_inline void follow_slot(struct follow_key *key, struct __sk_buff *skb, const struct packet *pkt,
					__u32 id)
{
	key->ifindex = pkt->ifindex;
	key->direction = pkt->ifindex == skb->ifindex ? pkt->direction : DIRECTION_FROM_TUNNEL;
	key->slot = id % FOLLOWED;
}

/* remember_first keeps the result of a first fragment for the later ones: peer is the
 * address of the other end as received, shown the one as sent.
 */
static __noinline int remember_first(struct __sk_buff *skb, const struct packet *pkt, const struct addr *peer,
				     const struct addr *shown, __u32 mark)
{
	struct first_fragment first = {};
	struct follow_key key = {};
	__u32 id;

	if (!pkt || !peer || !shown)
		return 0;
	id = fragment_id(skb, pkt);
	follow_slot(&key, skb, pkt, id);
	describe_datagram(&first.of, pkt, peer, id);
	first.of.first = fragment_len(pkt);
	first.until = bpf_ktime_get_ns() + FOLLOW_NS;
	first.shown = *shown;
	first.mark = mark;
	bpf_map_update_elem(&alioth_fragments, &key, &first, BPF_ANY);
	return 0;
}

/* follows reports whether a later fragment is of the datagram of a first one that was kept. A
 * later fragment that overlaps the first one is not: it could overwrite the ports (RFC 3128, RFC
 * 5722).
 */
static __always_inline bool follows(struct __sk_buff *skb, const struct packet *pkt, const struct first_fragment *first,
				    const struct datagram *of)
{
	return first->until >= bpf_ktime_get_ns() && same_datagram(&first->of, of) &&
	       fragment_offset(skb, pkt) >= first->of.first;
}

/* find_first finds the first fragment of a later one's datagram. */
static __always_inline struct first_fragment *find_first(struct __sk_buff *skb, const struct packet *pkt,
							 const struct addr *peer)
{
	__u32 id = fragment_id(skb, pkt);
	struct first_fragment *first;
	struct follow_key key = {};
	struct datagram of = {};

	follow_slot(&key, skb, pkt, id);
	first = bpf_map_lookup_elem(&alioth_fragments, &key);
	describe_datagram(&of, pkt, peer, id);
	return first && follows(skb, pkt, first, &of) ? first : 0;
}

#endif
