// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

import "testing"

func TestAReaderTellsWhichAddressesAreThere(t *testing.T) {
	w := newWorld(t)
	reader, err := OpenReader(w.cfg.PinDir)
	Must(t, err)
	defer reader.Close()
	cases := []struct {
		vni  uint32
		ip   string
		want bool
	}{
		{vniRed, "10.0.1.10", true}, {vniRed, "10.0.1.99", false}, {vniRed, "fd10:0:0:1::10", true}, {99, "10.0.1.10", false},
	}
	for _, c := range cases {
		if got, err := reader.HasAddress(c.vni, Ip(c.ip)); err != nil || got != c.want {
			t.Errorf("%s of VNI %d: %v, error %v", c.ip, c.vni, got, err)
		}
	}
}
