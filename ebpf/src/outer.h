/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Copyright The Alioth Authors. */

/* The tunnel's outer headers (RFC 7348 section 5). For usual packets, those over IPv4
 * along a route whose MTU they fit, they are pushed and popped here, which saves the
 * path through the tunnel's device and the host's stack on both nodes. All other
 * packets go through the device, which fragments, handles IPv6, and translates
 * congestion marks on arrival.
 */
#ifndef ALIOTH_OUTER_H
#define ALIOTH_OUTER_H

#include "checksum.h"
#include "class.h"
#include "maps.h"
#include "parse.h"

/* Limit of the hops of a packet between nodes that play a role for its VPC. */
#define OUTER_TTL 8

#define VXLAN_HAS_VNI 0x08000000
#define ECN_MASK 3
#define ECN_ECT_0 2
#define ECN_CE 3

/* Source ports that RFC 7348 recommends: 49152 to 65535. */
#define SOURCE_PORT_FIRST 49152
#define SOURCE_PORT_MASK 0x3fff

/* Multiplicative hashing: 2^32 divided by the golden ratio. */
#define GOLDEN_RATIO 0x9e3779b1u

/* The headers between the outer Ethernet header and the inner IP header. */
struct outer {
	struct iphdr ip;
	struct udphdr udp;
	__be32 vxlan_flags;
	__be32 vni; /* in the upper 24 bits */
	struct ethhdr inner;
	__u16 pad; /* not on the wire */
};
#define OUTER_LEN (20 + 8 + 8 + 14)

/* The next node of a packet. */
struct hop {
	const struct addr *node;
	const __u8 *mac; /* the inner Ethernet destination */
	enum packet_class class;
	__u32 origin;
};

enum pushing { PUSHED, NOT_PUSHED, HALF_PUSHED };

/* inner_len returns the length of the packet on the wire, inner Ethernet header
 * included; the length of one segment, if the packet will be cut. 0 if the length can't
 * be determined.
 */
static __always_inline __u32 inner_len(struct __sk_buff *skb, const struct packet *pkt)
{
	__u8 offset;

	if (!skb->gso_size)
		return skb->len;
	if (pkt->proto == IPPROTO_UDP)
		return pkt->l4 + sizeof(struct udphdr) + skb->gso_size;
	if (pkt->proto != IPPROTO_TCP || bpf_skb_load_bytes(skb, pkt->l4 + 12, &offset, sizeof(offset)))
		return 0;
	return pkt->l4 + (offset >> 4) * 4 + skb->gso_size;
}

/* Bytes between the outer IP header and the inner one, without both. */
#define INNER_OFFSET (8 + 8 + 14)

/* An outer packet in two fragments, see outer_fragment.h. */
#define FRAGMENT_HEADER 8
#define FIRST_MAX 0xffff

/* The path to a node, as far as the host's routes determine it. */
struct way {
	__u32 device; /* 0: the tunnel's device selects it */
	__u32 limit; /* bytes of an inner packet that fit; 0: this packet fits, or the limit is unknown */
	bool over_v6;
	struct bpf_redir_neigh next;
};

/* The result of a route lookup is valid for this part of a second. A lookup takes as
 * long as all other decisions about a packet together.
 */
#define WAY_SHARE 16

/* outer_header is the length of the outer IP header. */
static __always_inline __u32 outer_header(enum family family)
{
	return family == FAMILY_V4 ? sizeof(struct iphdr) : sizeof(struct ipv6hdr);
}

static __always_inline bool is_mapped(const struct addr *a)
{
	const __u32 *w = (const __u32 *)a->b;

	return !w[0] && !w[1] && w[2] == bpf_htonl(0xffff);
}

/* recall_way finds the path to a node for an outer packet of len bytes among the
 * results of recent route lookups.
 */
static __always_inline bool recall_way(__be32 node, __u32 len, struct way *way)
{
	struct known_way *known = bpf_map_lookup_elem(&alioth_ways, &node);

	if (!known || len > known->mtu || bpf_jiffies64() >= known->until)
		return false;
	way->device = known->device;
	way->next.nh_family = AF_INET;
	way->next.ipv4_nh = known->next;
	return true;
}

/* note_way keeps the result of a route lookup for the time of WAY_SHARE. */
static __always_inline void note_way(__be32 node, const struct bpf_fib_lookup *route)
{
	struct known_way known = {
		.until = bpf_jiffies64() + alioth_config.linger_jiffies / WAY_SHARE,
		.device = route->ifindex,
		.mtu = route->mtu_result,
		.next = route->ipv4_dst,
	};

	bpf_map_update_elem(&alioth_ways, &node, &known, BPF_ANY);
}

/* forget_way removes the entry of note_way if the path's MTU has decreased since. */
static __always_inline void forget_way(__be32 node, __u32 mtu)
{
	struct known_way *known = bpf_map_lookup_elem(&alioth_ways, &node);

	if (known && known->mtu > mtu)
		known->until = 0;
}

/* Work area for ask_routes, see work.h. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, __u32);
	__type(value, struct bpf_fib_lookup);
	__uint(max_entries, 1);
} routes SEC(".maps");

/* ask_routes looks up the path of an outer packet of len bytes in the host's routes. */
static __noinline void ask_routes(struct __sk_buff *skb, const struct addr *node, enum family family, __u32 len,
				  struct way *way)
{
	struct bpf_fib_lookup *route;
	struct addr source;
	__u32 only = 0;
	long found;

	route = bpf_map_lookup_elem(&routes, &only);
	if (!route)
		return;
	__builtin_memset(route, 0, sizeof(*route));
	route->l4_protocol = IPPROTO_UDP;
	route->tot_len = len;
	addr_from_config(&source, &alioth_config.tunnel_source[family]);
	route->ifindex = alioth_config.underlay_ifindex[family];
	if (family == FAMILY_V4) {
		route->family = AF_INET;
		route->ipv4_src = addr_v4(&source);
		route->ipv4_dst = addr_v4(node);
	} else {
		route->family = AF_INET6;
		__builtin_memcpy(route->ipv6_src, source.b, 16);
		__builtin_memcpy(route->ipv6_dst, node->b, 16);
	}
	if (!route->ifindex)
		return;
	found = bpf_fib_lookup(skb, route, sizeof(*route), BPF_FIB_LOOKUP_OUTPUT | BPF_FIB_LOOKUP_SKIP_NEIGH);
	if (found == BPF_FIB_LKUP_RET_FRAG_NEEDED) {
		way->limit = route->mtu_result - INNER_OFFSET - outer_header(family);
		if (family == FAMILY_V4)
			forget_way(addr_v4(node), route->mtu_result);
	}
	if (found != BPF_FIB_LKUP_RET_SUCCESS || family != FAMILY_V4 || route->family != AF_INET)
		return;
	way->device = route->ifindex;
	way->next.nh_family = AF_INET;
	way->next.ipv4_nh = route->ipv4_dst;
	note_way(addr_v4(node), route);
}

/* first_length returns the number of bytes of an outer IPv6 packet in the first of two
 * fragments, for an inner packet of len bytes where limit bytes fit; 0 if two fragments
 * can't carry it. All fragments but the last have a multiple of 8 bytes.
 */
static __always_inline __u32 first_length(__u32 len, __u32 limit)
{
	__u32 first = (limit + INNER_OFFSET - FRAGMENT_HEADER) & ~7;

	return len + 8 + 8 > 2 * first || first > FIRST_MAX ? 0 : first;
}

/* find_way finds the way of a packet to a node. */
static __always_inline void find_way(struct __sk_buff *skb, const struct packet *pkt, const struct addr *node,
				     struct way *way)
{
	enum family family = is_mapped(node) ? FAMILY_V4 : FAMILY_V6;
	__u32 len = inner_len(skb, pkt);

	way->over_v6 = family == FAMILY_V6;
	if (!len || len > 0xffff - INNER_OFFSET - 40)
		return;
	len = len - ETH_HLEN + INNER_OFFSET + outer_header(family);
	if (family == FAMILY_V4 && recall_way(addr_v4(node), len, way))
		return;
	ask_routes(skb, node, family, len, way);
}

/* ecn returns the packet's congestion bits. */
static __always_inline __u8 ecn(struct __sk_buff *skb, enum family family)
{
	__u8 head[2];

	if (bpf_skb_load_bytes(skb, ETH_HLEN, head, sizeof(head)))
		return 0;
	return (family == FAMILY_V4 ? head[1] : head[1] >> 4) & ECN_MASK;
}

/* flow_hash is equal for the packets of a flow. For packets of a socket, the socket has
 * the hash. To compute it from the packet takes as long as a route lookup, and ICMP has no
 * ports.
 */
static __always_inline __u32 flow_hash(struct __sk_buff *skb, const struct packet *pkt)
{
	__u32 hash = skb->hash;

	if (!hash && pkt->proto == IPPROTO_ICMP)
		return (addr_v4(&pkt->src) ^ addr_v4(&pkt->dst)) * GOLDEN_RATIO >> 16;
	return hash ? hash : bpf_get_hash_recalc(skb);
}

/* source_port spreads flows over the ports that RFC 7348 recommends. */
static __always_inline __be16 source_port(struct __sk_buff *skb, const struct packet *pkt)
{
	return bpf_htons(SOURCE_PORT_FIRST + (flow_hash(skb, pkt) & SOURCE_PORT_MASK));
}

/* describe_outer fills the headers for a packet of len bytes, inner Ethernet header
 * included. A packet that will be cut may exceed the length fields, which are filled
 * when it is cut.
 */
static __always_inline void describe_outer(struct __sk_buff *skb, const struct packet *pkt, const struct addr *node,
					   struct outer *outer)
{
	__u32 len = skb->len - ETH_HLEN + OUTER_LEN;
	__u8 inner_ecn = ecn(skb, pkt->family);
	struct addr source;

	addr_from_config(&source, &alioth_config.tunnel_source[FAMILY_V4]);
	outer->ip.version = 4;
	outer->ip.ihl = sizeof(outer->ip) / 4;
	/* RFC 6040 section 4.1, normal mode, except for CE: that mark stays in the
	 * inner header, and the outer one starts as ECT(0) (RFC 3168 section 9.1.1).
	 */
	outer->ip.tos = inner_ecn == ECN_CE ? ECN_ECT_0 : inner_ecn;
	outer->ip.tot_len = len > 0xffff ? 0 : bpf_htons(len);
	outer->ip.frag_off = bpf_htons(IPV4_DONT_FRAGMENT);
	outer->ip.ttl = OUTER_TTL;
	outer->ip.protocol = IPPROTO_UDP;
	outer->ip.saddr = addr_v4(&source);
	outer->ip.daddr = addr_v4(node);
	outer->ip.check = ipv4_check(&outer->ip);
	outer->udp.source = source_port(skb, pkt);
	outer->udp.dest = alioth_config.tunnel_port;
	len -= sizeof(outer->ip);
	outer->udp.len = len > 0xffff ? 0 : bpf_htons(len);
	outer->vxlan_flags = bpf_htonl(VXLAN_HAS_VNI);
	outer->vni = bpf_htonl(pkt->vni << 8);
}

/* push_outer adds the outer headers and the inner Ethernet header to the packet. After
 * HALF_PUSHED the packet must be dropped, after NOT_PUSHED it is unchanged.
 */
static __always_inline enum pushing push_outer(struct __sk_buff *skb, struct packet *pkt, const struct hop *hop)
{
	const __u64 flags = BPF_F_ADJ_ROOM_FIXED_GSO | BPF_F_ADJ_ROOM_ENCAP_L3_IPV4 | BPF_F_ADJ_ROOM_ENCAP_L4_UDP |
			    BPF_F_ADJ_ROOM_ENCAP_L2(ETH_HLEN) | BPF_F_ADJ_ROOM_ENCAP_L2_ETH;
	struct outer outer = {};

	describe_outer(skb, pkt, hop->node, &outer);
	__builtin_memcpy(outer.inner.h_dest, hop->mac, 6);
	write_source(outer.inner.h_source, hop->origin, hop->class);
	outer.inner.h_proto = pkt->ethertype;
	if (bpf_skb_adjust_room(skb, OUTER_LEN, BPF_ADJ_ROOM_MAC, flags))
		return NOT_PUSHED;
	pkt->outer = OUTER_LEN;
	return bpf_skb_store_bytes(skb, ETH_HLEN, &outer, OUTER_LEN, 0) ? HALF_PUSHED : PUSHED;
}

/* tunnelled reports whether outer is the header of a usual tunnel packet to this node. */
static __always_inline bool tunnelled(const struct outer *outer)
{
	struct addr own;

	addr_from_config(&own, &alioth_config.tunnel_source[FAMILY_V4]);
	return outer->ip.version == 4 && outer->ip.ihl == sizeof(outer->ip) / 4 && outer->ip.protocol == IPPROTO_UDP &&
	       outer->ip.daddr == addr_v4(&own) && outer->udp.dest == alioth_config.tunnel_port &&
	       !(outer->ip.frag_off & bpf_htons(IPV4_MORE_FRAGMENTS | IPV4_FRAGMENT_OFFSET)) &&
	       (outer->ip.tos & ECN_MASK) != ECN_CE && !outer->udp.check &&
	       outer->vxlan_flags == bpf_htonl(VXLAN_HAS_VNI) &&
	       (outer->inner.h_proto == bpf_htons(ETH_P_IP) || outer->inner.h_proto == bpf_htons(ETH_P_IPV6));
}

/* read_outer reads the outer headers of a packet from a known node for a VPC of this
 * node. If it returns false, the packet goes to the tunnel's device, where refused
 * packets are counted.
 */
static __always_inline bool read_outer(struct __sk_buff *skb, struct packet *pkt, struct ethhdr *inner,
				       struct addr *node)
{
	struct outer *outer;

	if (skb->pkt_type != PACKET_HOST || skb->vlan_present || skb->protocol != bpf_htons(ETH_P_IP))
		return false;
	outer = (void *)(long)skb->data + ETH_HLEN;
	if ((void *)outer + OUTER_LEN > (void *)(long)skb->data_end || !tunnelled(outer))
		return false;
	addr_from_v4(node, outer->ip.saddr);
	pkt->vni = bpf_ntohl(outer->vni) >> 8;
	*inner = outer->inner;
	return bpf_map_lookup_elem(&alioth_nodes, node) && bpf_map_lookup_elem(&alioth_vpcs, &pkt->vni);
}

/* pop_outer removes the outer headers of such a packet, and returns the node that sent
 * it. If it returns false, the packet is unchanged.
 */
static __always_inline bool pop_outer(struct __sk_buff *skb, struct packet *pkt, struct addr *node)
{
	__u64 flags = BPF_F_ADJ_ROOM_FIXED_GSO | BPF_F_ADJ_ROOM_NO_CSUM_RESET;
	struct ethhdr inner;

	if (!read_outer(skb, pkt, &inner, node))
		return false;
	/* If the family changes, the kernel has to be informed, which is not possible
	 * before Linux 6.3: there the device takes the packet.
	 */
	if (inner.h_proto == bpf_htons(ETH_P_IPV6))
		flags |= BPF_F_ADJ_ROOM_DECAP_L3_IPV6;
	if (bpf_skb_adjust_room(skb, -OUTER_LEN, BPF_ADJ_ROOM_MAC, flags))
		return false;
	/* The NIC has verified the outer checksum, not the inner one. */
	bpf_csum_level(skb, BPF_CSUM_LEVEL_DEC);
	/* A packet whose header can't be written fails every check to come. */
	bpf_skb_store_bytes(skb, 0, &inner, sizeof(inner), 0);
	return true;
}

#endif
