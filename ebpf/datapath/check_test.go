// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath_test

import (
	"errors"
	"testing"

	"github.com/alioth-net/alioth/ebpf/datapath"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/wire"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/world"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// TestCheck_InterfaceWithoutVPCServices_Passes is about the State of CNI CHECK: it
// has one attachment, and nothing of the VPC.
func TestCheck_InterfaceWithoutVPCServices_Passes(t *testing.T) {
	w := world.New(t)
	one := state.State{Interfaces: w.State().Interfaces[:1], Addresses: w.State().Addresses[:2]}
	bpftest.Must(t, w.Check(one))
	s := w.State()
	s.Services = append(s.Services, state.Service{
		VNI: one.Interfaces[0].VNI, VIP: wire.IP("10.0.200.1"), Port: 80, Proto: state.ProtoTCP, Backends: []state.Backend{{IP: wire.IP("10.0.1.11"), Port: 8080}},
	})
	bpftest.Must(t, w.Apply(s))
	bpftest.Must(t, w.Check(one))
	one.Interfaces[0].MAC = world.MacB
	if err := w.Check(one); !errors.Is(err, datapath.ErrDiffers) {
		t.Errorf("another MAC gives %v", err)
	}
}
