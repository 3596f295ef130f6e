// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package bpf

// The compiler's version is pinned, so that generating gives the same bytes
// everywhere: Debian's packages clang-19 and llvm-19.
//
//go:generate go tool bpf2go -cc clang-19 -strip llvm-strip-19 -target bpfel -cflags "-O2 -g -mcpu=v3 -Wall -Werror -nostdinc" -type reason -type direction -type mark -type interface_flag -type netns_flag -type address_kind -type vpc_flag -type closed_class -type role_flag -type cached_state -type packet_class -type miss -type target_scope -type conn_direction -type conn_flag -type family -type packet_event -type tuple -type stale_socket -type affinity_key -type affinity -type guarded -type guarded_flag -type policy_space -type policy_rule -type judged_flag Alioth ../src/alioth.bpf.c -- -I../src/headers
