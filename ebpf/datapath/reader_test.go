// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath_test

import (
	"testing"

	"github.com/alioth-net/alioth/ebpf/datapath"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/wire"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/world"
)

func TestReader_Addresses_PresentOnesTold(t *testing.T) {
	w := world.New(t)
	reader, err := datapath.OpenReader(w.Config.PinDir)
	bpftest.Must(t, err)
	defer reader.Close()
	cases := []struct {
		vni  uint32
		ip   string
		want bool
	}{
		{world.VNIRed, "10.0.1.10", true}, {world.VNIRed, "10.0.1.99", false}, {world.VNIRed, "fd10:0:0:1::10", true}, {99, "10.0.1.10", false},
	}
	for _, c := range cases {
		if got, err := reader.HasAddress(c.vni, wire.IP(c.ip)); err != nil || got != c.want {
			t.Errorf("%s of VNI %d: %v, error %v", c.ip, c.vni, got, err)
		}
	}
}
