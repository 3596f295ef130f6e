// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package vm runs the tests that depend on the kernel on kernels that this
// machine does not run, each in a virtual machine.
package vm

import "time"

// Kernel is a kernel that the tests run on.
type Kernel struct {
	// Series is how people call it, Release the Debian release that has it.
	Series, Release string
	// Modules are further modules, which newer kernels have built into others.
	Modules []string
	// Hardware: its machine has a network adapter with virtual functions.
	Hardware bool
}

// Kernels returns the oldest kernel that Alioth supports, which has neither TCX nor netkit, and a
// kernel that has both.
func Kernels() []Kernel {
	return []Kernel{
		{Series: "6.1", Release: "bookworm", Modules: []string{"nft_objref"}},
		{Series: "6.12", Release: "trixie", Hardware: true},
	}
}

// everything is the pattern of all files of tests.
const everything = "*_test.go"

// Package is a package whose tests are about the behaviour of the kernel.
type Package struct {
	// Path is relative to the project's root folder.
	Path string
	// Run is a pattern of the tests that run, "" for all.
	Run string
	// Omitted has the tests that some kernels leave out.
	Omitted []Omission
	// Files are the files of the project that its tests read, relative to its folder; they have
	// testdata anyway.
	Files []string
	// Tools are programs of this machine that its tests run.
	Tools []string
	// Hardware: its tests need a network adapter with virtual functions, and run on machines with
	// an adapter only. A test that skips there is a failure, because the machine lacks nothing.
	Hardware bool
	// Soaked: other machines may lack what its tests need, so make soak runs those that
	// test/soak marks here, as it does with those that need hardware.
	Soaked bool
}

// Packages returns the packages that run by default.
func Packages() []Package {
	return []Package{
		{Path: "./cnid/system/netns", Omitted: betweenOthers()},
		{Path: "./cnid/cni/drivers/pair"},
		{Path: "./cnid/cni/drivers/macvlan", Omitted: betweenOthers()},
		{Path: "./cnid/cni/drivers/ipvlan", Soaked: true},
		{Path: "./cnid/forward/hostlink"},
		{Path: "./cnid/system/neighbours", Omitted: betweenOthers()},
		{Path: "./cnid/forward/netdev", Omitted: betweenOthers()},
		{Path: "./cnid/nmstate/kernel"},
		{Path: "./cnid/nmstate/snapshot", Tools: []string{"ip", "bridge", "sysctl", "tc"}},
		{
			Path:  "./cnid/nmstate/transaction",
			Run:   "RandomDocuments|RandomHosts|NmstateManifests",
			Tools: []string{"ip", "bridge", "sysctl", "tc"},
		},
		{Path: "./cnid/system/sockdiag", Omitted: betweenOthers()},
		{Path: "./cnid/nodeipam/loopback", Omitted: betweenOthers()},
		{
			Path:    "./cnid/forward/netfilter",
			Omitted: betweenOthers(),
			Tools:   []string{"nft"},
			Files:   []string{"../../../docs/reference/reasons.md"},
		},
		{Path: "./cnid/inspect/preflight/nodefacts", Tools: []string{"nft"}},
		{Path: "./ebpf/datapath", Omitted: datapathOmissions()},
		{
			Path:    "./ebpf/datapath/test/verdicts",
			Omitted: verdictOmissions(),
			Files:   []string{"../../../../docs/reference/packets.md"},
		},
		{Path: "./ebpf/datapath/test/traffic", Omitted: trafficOmissions()},
		{Path: "./ebpf/datapath/test/roles", Omitted: roleOmissions()},
		{
			Path:  "./ebpf/datapath/test/forged",
			Tools: []string{"nft"},
			Omitted: onBoth(
				"random frames are for the programs, which are the same on all kernels; this machine's runs many more of them in the same time",
			),
		},
		{Path: "./ebpf/datapath/test/guarded"},
		{Path: "./ebpf/datapath/test/policies"},
		{
			Path: "./ebpf/datapath/test/reports",
			Omitted: onBoth(
				"maps, counters and events are the same from 6.1 on, and trials are about single frames whose length stays",
			),
		},
		{Path: "./test/vm/hardware", Hardware: true},
		{Path: "./cnid/cni/drivers/sriov", Hardware: true},
		{Path: "./cnid/nmstate/kernel/hardware", Hardware: true},
		{Path: "./cnid/nodeipam/plugin/nodenic", Run: "DelegatedVF", Hardware: true},
		{Path: "./cnid", Run: "PodDevice_SettingChanged|OverlappingVPCOnTwoNodes", Omitted: []Omission{{
			Kernels: []string{"6.12"}, Files: []string{"assembly_test.go"},
			Reason: "two nodes carry the traffic of the test of devices, too, which needs 6.7; 6.1 and this machine's kernel run this one",
		}}},
	}
}

// betweenOthers leaves a whole package out on 6.12.
func betweenOthers() []Omission {
	return []Omission{{
		Kernels: []string{"6.12"}, Files: []string{everything},
		Reason: "routes, sockets and nf_tables of 6.12 are between those of 6.1 and of this machine's kernel, which run these tests",
	}}
}

// onBoth leaves a whole package out on all kernels.
func onBoth(reason string) []Omission {
	return []Omission{{Kernels: []string{"6.1", "6.12"}, Files: []string{everything}, Reason: reason}}
}

func datapathOmissions() []Omission {
	return []Omission{{
		Kernels: []string{"6.1", "6.12"},
		Files:   []string{"check_test.go", "parts_test.go", "reader_test.go", "repair_test.go", "stack_test.go"},
		Reason:  "maps are the same from 6.1 on; each kernel has attaching, adopting and what the verifier takes",
	}}
}

func verdictOmissions() []Omission {
	both := []string{"6.1", "6.12"}
	return []Omission{{
		Kernels: both,
		Files: []string{
			"[abiqs]*_test.go", "nodeport_test.go", "odd_test.go", "outside_test.go", "tunnel_test.go",
		},
		Reason: "what becomes of a single frame whose length stays: programs, maps and helpers are the same on all kernels, and this machine's runs them",
	}, {
		Kernels: both, Files: []string{"world_*_test.go"},
		Reason: "random frames are for the programs, which are the same on all kernels; this machine's runs many more of them in the same time",
	}}
}

func trafficOmissions() []Omission {
	return []Omission{{
		Kernels: []string{"6.12"},
		Files: []string{
			"kubelet_test.go", "outside_test.go", "own_socket_test.go", "scaled_test.go", "shadow_test.go",
			"socket*_test.go", "stale_test.go",
		},
		Reason: "hooks on sockets and shadow addresses: 6.1 and this machine's kernel run these; 6.12 has traffic, tunnels, netkit and fragments",
	}}
}

func roleOmissions() []Omission {
	return []Omission{{
		Kernels: []string{"6.1", "6.12"},
		Files:   []string{"c*_test.go", "misses_test.go"},
		Reason:  "decisions, maps and rings are the same on all kernels; each kernel has the ways between nodes, and the errors that change a frame's length",
	}}
}

// Bounds of one machine, generous for a translated processor on a busy host.
const (
	memory       = 2048 // MiB
	packageLimit = 60 * time.Minute
	machineLimit = 150 * time.Minute
)
