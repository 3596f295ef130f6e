// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package vm runs the tests that depend on the kernel on kernels that this
// machine does not run, each in a virtual machine.
package vm

import "time"

// Kernel is one that the tests run on.
type Kernel struct {
	// Series is how people call it, Release the Debian release that has it.
	Series, Release string
	// Modules are further ones that are built into newer kernels' others.
	Modules []string
	// Between says that an older kernel and this machine's run all tests, so that
	// this one runs only those of what kernels do in different ways.
	Between bool
}

// Kernels are the oldest that Alioth supports, which has neither TCX nor
// netkit, and one that has both.
func Kernels() []Kernel {
	return []Kernel{
		{Series: "6.1", Release: "bookworm", Modules: []string{"nft_objref"}},
		{Series: "6.12", Release: "trixie", Between: true},
	}
}

// everything is the pattern of all files of tests.
const everything = "*_test.go"

// Package is one whose tests are about what the kernel does.
type Package struct {
	// Path is relative to the project's root folder.
	Path string
	// Run is a pattern of those of its tests that run, "" for all.
	Run string
	// Alike are patterns of its files with tests of what kernels do in one way. A
	// kernel that is between others leaves them out.
	Alike []string
	// Files are what its tests read of the project, relative to its folder; they
	// have testdata anyway.
	Files []string
	// Tools are programs of this machine that its tests run.
	Tools []string
}

// Packages are those that run where nobody names others.
func Packages() []Package {
	return []Package{
		{Path: "./cnid/netns", Alike: []string{everything}},
		{Path: "./cnid/attach/pair"},
		{Path: "./cnid/netdev", Alike: []string{everything}},
		{Path: "./cnid/sockdiag", Alike: []string{everything}},
		{Path: "./cnid/netfilter", Alike: []string{everything}, Tools: []string{"nft"}},
		{Path: "./ebpf/datapath", Alike: programsAlone(), Files: []string{"../../docs/packets.md"}},
		{Path: "./cnid", Run: "KeepsItsDevice|TwoNodesCarry"},
	}
}

// programsAlone are the files whose tests run loaded programs on single frames, by
// what helpers do that have always done it. Those of outer headers, fragments and
// errors about them are not among them: what changes a frame's length has changed.
func programsAlone() []string {
	return []string{
		"verdict_affinity_test.go", "verdict_[bdiqs]*_test.go", "verdict_nodeport_test.go", "verdict_odd_test.go",
		"verdict_outside_test.go", "world_*_test.go",
	}
}

// modules are the kernel's that these packages need, and that a node would load
// by itself when they are asked for.
func modules() []string {
	return []string{
		"crc32c_generic", // looked up by name when libcrc32c loads
		"veth", "macvlan", "bridge", "vxlan", "dummy", "tun",
		"sch_ingress", "cls_bpf", "cls_matchall", "act_gact", "act_mirred",
		"nf_tables", "nf_conntrack", "nft_ct", "nft_masq", "nft_nat", "nft_chain_nat", "nft_connlimit", "nft_limit", "nft_log", "nf_log_syslog",
		"nft_fib_inet", "nft_reject_inet", "nft_numgen", "nft_hash", "nf_conntrack_netlink",
		"tcp_diag", "udp_diag",
	}
}

// Bounds of one machine, generous for a translated processor on a busy host.
const (
	memory       = 2048 // MiB
	packageLimit = 30 * time.Minute
	machineLimit = 45 * time.Minute
)
