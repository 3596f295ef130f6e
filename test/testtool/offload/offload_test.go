// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package offload

import "testing"

func TestIsSegmentation_KernelNames_Known(t *testing.T) {
	tests := map[string]bool{
		"tx-tcp-segmentation": true, "tx-tcp6-segmentation": true, "tx-generic-segmentation": true,
		"tx-udp_tnl-segmentation": true, "tx-udp_tnl-csum-segmentation": true, "tx-udp-segmentation": true,
		"tx-gso-partial": true, "tx-gso-list": true,
		"tx-tcp-ecn-segmentation": true, "tx-checksum-ip-generic": false, "rx-gro": false, "tx-scatter-gather": false,
	}
	for name, want := range tests {
		if got := IsSegmentation(name); got != want {
			t.Errorf("%s: %t, want %t", name, got, want)
		}
	}
}

func TestFeatures_LoopbackDevice_Named(t *testing.T) {
	err := withSocket(func(fd int) error {
		names, err := features(fd, "lo")
		if err != nil {
			return err
		}
		for _, name := range names {
			if name == "tx-tcp-segmentation" {
				return nil
			}
		}
		t.Errorf("no tx-tcp-segmentation among %q", names)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
