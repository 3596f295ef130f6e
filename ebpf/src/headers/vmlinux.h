/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Copyright The Alioth Authors. */

/* The few kernel types that the programs touch, kept by hand. Layouts of the
 * user API (packet headers, program contexts) are fixed. Of the kernel's inner
 * structs only the fields that are read are named, and the loader relocates
 * each access to the running kernel.
 */
#ifndef ALIOTH_VMLINUX_H
#define ALIOTH_VMLINUX_H

typedef unsigned char __u8;
typedef signed char __s8;
typedef unsigned short __u16;
typedef short __s16;
typedef unsigned int __u32;
typedef int __s32;
typedef unsigned long long __u64;
typedef long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u64 __be64;
typedef __u16 __sum16;
typedef __u32 __wsum;
typedef _Bool bool;

enum { false = 0, true = 1 };

enum bpf_map_type {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERCPU_HASH = 5,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_LPM_TRIE = 11,
	BPF_MAP_TYPE_HASH_OF_MAPS = 13,
	BPF_MAP_TYPE_SK_STORAGE = 24,
	BPF_MAP_TYPE_RINGBUF = 27,
};

enum {
	BPF_ANY = 0,
	BPF_NOEXIST = 1,
	BPF_EXIST = 2,
};

/* Where bpf_skb_load_bytes_relative counts from. */
enum {
	BPF_HDR_START_NET = 1,
};

enum {
	BPF_SK_STORAGE_GET_F_CREATE = 1,
};

enum {
	BPF_F_NO_PREALLOC = 1,
};

/* Flags of the checksum helpers. */
enum {
	BPF_F_HDR_FIELD_MASK = 0xf,
	BPF_F_PSEUDO_HDR = 1 << 4,
	BPF_F_MARK_MANGLED_0 = 1 << 5,
};

/* Flags of the tunnel key helpers. */
enum {
	BPF_F_TUNINFO_IPV6 = 1 << 0,
	BPF_F_ZERO_CSUM_TX = 1 << 1,
};

/* Flags and modes of bpf_skb_adjust_room and bpf_csum_level. */
enum {
	BPF_ADJ_ROOM_MAC = 1,
	BPF_F_ADJ_ROOM_FIXED_GSO = 1 << 0,
	BPF_F_ADJ_ROOM_ENCAP_L3_IPV4 = 1 << 1,
	BPF_F_ADJ_ROOM_ENCAP_L4_UDP = 1 << 4,
	BPF_F_ADJ_ROOM_NO_CSUM_RESET = 1 << 5,
	BPF_F_ADJ_ROOM_ENCAP_L2_ETH = 1 << 6,
	BPF_F_ADJ_ROOM_DECAP_L3_IPV4 = 1 << 7,
	BPF_F_ADJ_ROOM_DECAP_L3_IPV6 = 1 << 8,
	BPF_CSUM_LEVEL_DEC = 2,
};
#define BPF_F_ADJ_ROOM_ENCAP_L2(len) ((__u64)(len) << 56)

/* Flags and results of bpf_fib_lookup. */
enum {
	BPF_FIB_LOOKUP_OUTPUT = 1 << 1,
	BPF_FIB_LOOKUP_SKIP_NEIGH = 1 << 2,
	BPF_FIB_LKUP_RET_SUCCESS = 0,
	BPF_FIB_LKUP_RET_FRAG_NEEDED = 8,
};

enum {
	AF_INET = 2,
	AF_INET6 = 10,
};

enum {
	TCX_NEXT = -1,
	TC_ACT_OK = 0,
	TC_ACT_SHOT = 2,
	TC_ACT_REDIRECT = 7,
};

enum {
	PACKET_HOST = 0,
};

enum {
	TCP_ESTABLISHED = 1,
};

/* As programs see a socket. */
struct bpf_sock {
	__u32 bound_dev_if;
	__u32 family;
	__u32 type;
	__u32 protocol;
	__u32 mark;
	__u32 priority;
	__u32 src_ip4;
	__u32 src_ip6[4];
	__u32 src_port; /* in host order */
};
struct bpf_flow_keys;

struct __sk_buff {
	__u32 len;
	__u32 pkt_type;
	__u32 mark;
	__u32 queue_mapping;
	__u32 protocol;
	__u32 vlan_present;
	__u32 vlan_tci;
	__u32 vlan_proto;
	__u32 priority;
	__u32 ingress_ifindex;
	__u32 ifindex;
	__u32 tc_index;
	__u32 cb[5];
	__u32 hash;
	__u32 tc_classid;
	__u32 data;
	__u32 data_end;
	__u32 napi_id;
	__u32 family;
	__u32 remote_ip4;
	__u32 local_ip4;
	__u32 remote_ip6[4];
	__u32 local_ip6[4];
	__u32 remote_port;
	__u32 local_port;
	__u32 data_meta;
	union {
		struct bpf_flow_keys *flow_keys;
		__u64 flow_keys_word;
	} __attribute__((aligned(8)));
	__u64 tstamp;
	__u32 wire_len;
	__u32 gso_segs;
	union {
		struct bpf_sock *sk;
		__u64 sk_word;
	} __attribute__((aligned(8)));
	__u32 gso_size;
};

struct bpf_sock_addr {
	__u32 user_family;
	__u32 user_ip4;
	__u32 user_ip6[4];
	__u32 user_port;
	__u32 family;
	__u32 type;
	__u32 protocol;
	__u32 msg_src_ip4;
	__u32 msg_src_ip6[4];
	union {
		struct bpf_sock *sk;
		__u64 sk_word;
	} __attribute__((aligned(8)));
};

struct bpf_tunnel_key {
	__u32 tunnel_id;
	union {
		__u32 remote_ipv4;
		__u32 remote_ipv6[4];
	};
	__u8 tunnel_tos;
	__u8 tunnel_ttl;
	__u16 tunnel_ext;
	__u32 tunnel_label;
	union {
		__u32 local_ipv4;
		__u32 local_ipv6[4];
	};
};

struct bpf_fib_lookup {
	__u8 family;
	__u8 l4_protocol;
	__be16 sport;
	__be16 dport;
	union {
		__u16 tot_len;
		__u16 mtu_result;
	};
	__u32 ifindex;
	__u32 rt_metric;
	union {
		__be32 ipv4_src;
		__u32 ipv6_src[4];
	};
	union {
		__be32 ipv4_dst;
		__u32 ipv6_dst[4];
	};
	__u32 tbid;
	__u8 smac[6];
	__u8 dmac[6];
};

struct bpf_redir_neigh {
	__u32 nh_family;
	union {
		__be32 ipv4_nh;
		__u32 ipv6_nh[4];
	};
};

struct ethhdr {
	__u8 h_dest[6];
	__u8 h_source[6];
	__be16 h_proto;
} __attribute__((packed));

struct iphdr {
	__u8 ihl : 4, version : 4;
	__u8 tos;
	__be16 tot_len;
	__be16 id;
	__be16 frag_off;
	__u8 ttl;
	__u8 protocol;
	__sum16 check;
	__be32 saddr;
	__be32 daddr;
};

struct ipv6hdr {
	__u8 priority : 4, version : 4;
	__u8 flow_lbl[3];
	__be16 payload_len;
	__u8 nexthdr;
	__u8 hop_limit;
	__be32 saddr[4];
	__be32 daddr[4];
};

struct udphdr {
	__be16 source;
	__be16 dest;
	__be16 len;
	__sum16 check;
};

/* enum sock_flags: only the name matters, the value is relocated. */
enum sock_flags {
	SOCK_LINGER = 4,
};

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct in6_addr {
	union {
		__be32 u6_addr32[4];
	} in6_u;
};

struct net {
	__u64 net_cookie;
};

typedef struct {
	struct net *net;
} possible_net_t;

struct sock_common {
	__be32 skc_daddr;
	__be32 skc_rcv_saddr;
	__be16 skc_dport;
	__u16 skc_num;
	unsigned short skc_family;
	volatile unsigned char skc_state;
	int skc_bound_dev_if;
	possible_net_t skc_net;
	struct in6_addr skc_v6_daddr;
	struct in6_addr skc_v6_rcv_saddr;
	unsigned long skc_flags;
};

struct sock {
	struct sock_common __sk_common;
	unsigned long sk_lingertime;
	__u16 sk_protocol;
};

struct inet_sock {
	struct sock sk;
};

struct udp_sock {
	struct inet_sock inet;
};

struct inet_connection_sock {
	struct inet_sock icsk_inet;
};

struct tcp_sock {
	struct inet_connection_sock inet_conn;
};

/* Without CONFIG_MPTCP the kernel's has no fields. */
struct mptcp_sock {
	struct inet_connection_sock sk;
};

/* The kernel's devices; they are not the devices of programs and maps. */
struct net_device___kernel {
	possible_net_t nd_net;
	void *rx_handler;
};

struct dst_entry___kernel {
	struct net_device___kernel *dev;
};

struct sk_buff___kernel {
	struct net_device___kernel *dev;
	struct sock *sk;
	unsigned long _skb_refdst;
	__u8 encapsulation : 1;
};

struct socket___kernel {
	struct sock *sk;
};

struct inode {
	unsigned short i_mode;
};

struct file {
	struct inode *f_inode;
	void *private_data;
};

struct fdtable {
	unsigned int max_fds;
	struct file **fd;
};

struct files_struct {
	struct fdtable *fdt;
};

struct user_namespace {
	int level;
};

/* Of the sets of capabilities only the first word is of interest. */
typedef struct {
	__u32 cap[2];
} kernel_cap_t;

struct cred {
	kernel_cap_t cap_effective;
	struct user_namespace *user_ns;
};

struct task_struct {
	int tgid;
	struct task_struct *group_leader;
	__u64 start_boottime;
	const struct cred *cred;
	struct files_struct *files;
};

struct seq_file;

struct bpf_iter_meta {
	struct seq_file *seq;
};

struct bpf_iter__udp {
	struct bpf_iter_meta *meta;
	struct udp_sock *udp_sk;
};

#pragma clang attribute pop

#endif
