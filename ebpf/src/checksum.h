/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Copyright The Alioth Authors. */

/* Checksums (RFC 1071) of packets that the programs make themselves. */
#ifndef ALIOTH_CHECKSUM_H
#define ALIOTH_CHECKSUM_H

#include "types.h"
#include <bpf/bpf_helpers.h>

/* The part of the checksum of a transport over IPv6 outside of the transport. */
struct pseudo_header {
	struct addr src;
	struct addr dst;
	__be32 len;
	__be32 proto;
};

static __always_inline __u16 fold_checksum(__u64 sum)
{
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return ~sum;
}

/* ipv4_check returns the checksum of a header without options, whose own field
 * is zero.
 */
static __always_inline __sum16 ipv4_check(const struct iphdr *ip)
{
	const __u16 *word = (const __u16 *)ip;
	__u32 sum = 0;

#pragma unroll
	for (int i = 0; i < (int)(sizeof(*ip) / 2); i++)
		sum += word[i];
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return ~sum;
}

#endif
