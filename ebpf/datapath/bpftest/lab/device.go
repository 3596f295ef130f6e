// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"strconv"
	"testing"

	"github.com/vishvananda/netns"

	"github.com/alioth-net/alioth/ebpf/datapath/bpftest"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// PodDevice is the kind of the interfaces of a lab's pods.
type PodDevice string

// Devices of a lab's pods.
const (
	Veth       PodDevice = "veth"
	netkitPair PodDevice = "netkit"
	// Either gives every other pod a netkit, as on a node whose setting was
	// changed while pods ran.
	Either PodDevice = "veth and netkit"
)

func (d PodDevice) isNetkit(slot int) bool {
	return d == netkitPair || d == Either && slot%2 == 1
}

// join makes a pod's pair from within the node's namespace, and returns the
// indexes of both ends.
func (d PodDevice) join(t testing.TB, slot int, pod netns.NsHandle) (here, there int) {
	t.Helper()
	name := "pod" + strconv.Itoa(slot)
	if !d.isNetkit(slot) {
		return bpftest.LinkTo(t, name, state.VirtualMAC, pod, "eth0", bpftest.PodMTU)
	}
	here = bpftest.AddLink(t, bpftest.Netkit(name, state.VirtualMAC, pod))
	return here, bpftest.BringUp(t, pod, "eth0")
}

// OnEveryDevice runs a test with each kind of device that a pod can have.
func OnEveryDevice(t *testing.T, test func(*testing.T, PodDevice)) {
	t.Helper()
	t.Run(string(Veth), func(t *testing.T) { test(t, Veth) })
	t.Run(string(netkitPair), func(t *testing.T) {
		bpftest.NeedNetkit(t)
		test(t, netkitPair)
	})
}
