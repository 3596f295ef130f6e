/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Copyright The Alioth Authors. */

/* Identification of the kubelet: a process that listens at the port which its Node
 * object names, in the node's own network namespace, and has CAP_SYS_ADMIN in the first
 * user namespace. A pod on the node's network can listen there while the kubelet is
 * away, but has that capability only if it has the rights of the node anyway. The
 * programs ask the kernel at the connect itself, so that the daemon need not watch the
 * start and end of processes.
 */
#ifndef ALIOTH_KUBELET_H
#define ALIOTH_KUBELET_H

#include "maps.h"
#include <bpf/bpf_core_read.h>

#define CAP_SYS_ADMIN 21
#define TCP_LISTEN 10
#define IPPROTO_MPTCP 262
#define FILE_TYPE 0170000
#define FILE_SOCKET 0140000

/* Number of files of a process that are examined. The kubelet listens soon after its
 * start, and the kernel gives it the lowest free number.
 */
#define MAX_FILES 16384

struct search {
	struct file **files;
	bool found;
};

/* listens_here reports whether the socket accepts the kubelet's connections. Programs
 * in Go listen for both protocols at once.
 */
static __always_inline bool listens_here(const struct sock *sk)
{
	__u16 protocol = BPF_CORE_READ(sk, sk_protocol);

	return (protocol == IPPROTO_TCP || protocol == IPPROTO_MPTCP) &&
	       BPF_CORE_READ(sk, __sk_common.skc_state) == TCP_LISTEN &&
	       BPF_CORE_READ(sk, __sk_common.skc_num) == alioth_config.kubelet_port &&
	       BPF_CORE_READ(sk, __sk_common.skc_net.net, net_cookie) == alioth_config.netns_cookie;
}

static long look_at_file(__u32 number, void *data)
{
	struct search *search = data;
	struct socket___kernel *socket;
	struct file *file = 0;
	struct sock *sk;

	bpf_probe_read_kernel(&file, sizeof(file), search->files + number);
	if (!file || (BPF_CORE_READ(file, f_inode, i_mode) & FILE_TYPE) != FILE_SOCKET)
		return 0;
	socket = BPF_CORE_READ(file, private_data);
	if (!socket)
		return 0;
	sk = BPF_CORE_READ(socket, sk);
	search->found = sk && listens_here(sk);
	return search->found;
}

static __always_inline bool is_administrator(struct task_struct *task)
{
	const struct cred *cred = BPF_CORE_READ(task, cred);
	__u32 effective = 0;

	bpf_core_read(&effective, sizeof(effective), &cred->cap_effective);
	return effective >> CAP_SYS_ADMIN & 1 && !BPF_CORE_READ(cred, user_ns, level);
}

/* is_kubelet reports whether the calling process is the kubelet. */
static __noinline bool is_kubelet(void)
{
	struct task_struct *task = (void *)bpf_get_current_task();
	struct process process = { .port = alioth_config.kubelet_port };
	struct search search = {};
	__u32 files, known = 1;

	process.id = BPF_CORE_READ(task, tgid);
	process.started = BPF_CORE_READ(task, group_leader, start_boottime);
	if (bpf_map_lookup_elem(&alioth_kubelets, &process))
		return true;
	if (!is_administrator(task))
		return false;
	search.files = BPF_CORE_READ(task, files, fdt, fd);
	files = BPF_CORE_READ(task, files, fdt, max_fds);
	bpf_loop(files < MAX_FILES ? files : MAX_FILES, look_at_file, &search, 0);
	if (search.found)
		bpf_map_update_elem(&alioth_kubelets, &process, &known, BPF_ANY);
	return search.found;
}

#endif
