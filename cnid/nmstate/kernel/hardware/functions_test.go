// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package hardware_test tests package kernel on a network adapter with virtual functions.
package hardware_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/cnid/nmstate/kernel"
	"github.com/alioth-net/alioth/cnid/nmstate/plan"
)

// adapter returns the first interface whose hardware has virtual functions.
func adapter(t *testing.T, k *kernel.Kernel) document.Interface {
	t.Helper()
	state, err := k.Show(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range state.Interfaces {
		if i.Ethernet != nil && i.Ethernet.SRIOV != nil {
			return i
		}
	}
	t.Skip("no network adapter of this machine has virtual functions")
	return document.Interface{}
}

func TestVirtualFunctions_Set_ShownUnchanged(t *testing.T) {
	k, err := kernel.Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.Close)
	before := adapter(t, k)
	name := before.Name
	set := func(count int, vfs ...document.VF) document.SRIOV {
		t.Helper()
		sriov := document.SRIOV{TotalVFs: &count, DriversAutoprobe: new(false), VFs: vfs}
		if err := k.Do(t.Context(), plan.SetVFs{Name: name, SRIOV: sriov}); err != nil {
			t.Fatal(err)
		}
		shown := *adapter(t, k).Ethernet.SRIOV
		if *shown.TotalVFs != count || len(shown.VFs) != count || *shown.DriversAutoprobe {
			t.Fatalf("%d functions are shown as %+v", count, shown)
		}
		return shown
	}
	t.Cleanup(func() {
		// Without drivers for new functions, later tests would wait for their devices in vain.
		none := plan.SetVFs{Name: name, SRIOV: document.SRIOV{TotalVFs: new(0), DriversAutoprobe: before.Ethernet.SRIOV.DriversAutoprobe}}
		if err := k.Do(context.WithoutCancel(t.Context()), none); err != nil {
			t.Error(err)
		}
	})
	first := document.VF{ID: 1, MACAddress: "02:00:00:00:00:1F", SpoofCheck: new(false), Trust: new(true), VLANID: new(7), QoS: new(3)}
	got := set(2, first).VFs
	if got[0].ID != 0 || got[0].MACAddress == first.MACAddress || *got[0].VLANID != 0 {
		t.Errorf("the other function is %+v", got[0])
	}
	set(2, got...) // the values that Show returned
	shown := got[1]
	shown.MinTxRate, shown.MaxTxRate, shown.VLANProto = nil, nil, ""
	if diff := cmp.Diff(first, shown); diff != "" {
		t.Errorf("the function is other than wanted (-want +got):\n%s", diff)
	}
	set(3)
	set(3)
	set(0)
	tooMany := plan.SetVFs{Name: name, SRIOV: document.SRIOV{TotalVFs: new(1000)}}
	if err := k.Do(t.Context(), tooMany); err == nil || !strings.Contains(err.Error(), "ethernet.sr-iov.total-vfs") {
		t.Errorf("1000 functions: %v", err)
	}
}
