// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"errors"
	"testing"

	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// TestAnInterfaceIsCheckedWithoutTheServicesOfItsVPC is what CNI CHECK asks: it
// knows one attachment, and nothing of the VPC.
func TestAnInterfaceIsCheckedWithoutTheServicesOfItsVPC(t *testing.T) {
	w := newWorld(t)
	one := state.State{Interfaces: w.state().Interfaces[:1], Addresses: w.state().Addresses[:2]}
	Must(t, w.Check(one))
	s := w.state()
	s.Services = append(s.Services, state.Service{
		VNI: one.Interfaces[0].VNI, VIP: Ip("10.0.200.1"), Port: 80, Proto: state.ProtoTCP, Backends: []state.Backend{{IP: Ip("10.0.1.11"), Port: 8080}},
	})
	Must(t, w.Apply(s))
	Must(t, w.Check(one))
	one.Interfaces[0].MAC = MacB
	if err := w.Check(one); !errors.Is(err, ErrDiffers) {
		t.Errorf("another MAC gives %v", err)
	}
}
