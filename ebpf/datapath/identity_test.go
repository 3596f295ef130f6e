// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath_test

import (
	"testing"

	"github.com/alioth-net/alioth/ebpf/datapath/bpftest"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/wire"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/world"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// A daemon that starts again sends what the daemon before it has sent, before it has read anything.
func TestIdentity_DatapathReopened_StillSent(t *testing.T) {
	w := world.New(t, world.OnUnderlay(t))
	s := w.State()
	s.Interfaces[0].Identity, s.Interfaces[0].SendsIdentity = 0x010203, true
	bpftest.Must(t, w.Apply(s))
	bpftest.Must(t, w.Close())
	again := bpftest.Open(t, w.Config)
	wantState(t, again, s)
	in := world.FromA(func(f *wire.Frame) { f.Dst = wire.IP("10.0.1.20") }).Bytes()
	_, out, _ := world.Run(t, again.Objects.AliothFromPod, w.PodA, in)
	if source := state.MAC(out[len(out)-len(in)+6:]); source != world.IdentitySource(0x010203, 0, 0) {
		t.Errorf("the inner Ethernet source is %s", source)
	}
}
