// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package addons

import (
	"slices"
	"strings"
	"testing"
)

func TestBridgeConflist_Node_RangePerFamily(t *testing.T) {
	raw, err := bridgeConflist(PodRanges(2), 1430)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"10.244.2.0/24"`, `"fd44:0:0:2::/64"`, `"0.0.0.0/0"`, `"::/0"`, `"host-local"`, `"mtu": 1430`} {
		if !strings.Contains(string(raw), want) {
			t.Errorf("%s is missing in:\n%s", want, raw)
		}
	}
}

func TestReadSubnet_FlannelFile_RangesAndMTURead(t *testing.T) {
	text := "FLANNEL_NETWORK=10.244.0.0/16\nFLANNEL_SUBNET=10.244.1.1/24\nFLANNEL_IPV6_NETWORK=fd44::/48\nFLANNEL_IPV6_SUBNET=fd44:0:0:1::1/64\nFLANNEL_MTU=1430\nFLANNEL_IPMASQ=true\n"
	ranges, mtu, err := readSubnet(text)
	if want := PodRanges(1); err != nil || mtu != 1430 || !slices.Equal(ranges, want) {
		t.Errorf("got %v with MTU %d, %v; want %v", ranges, mtu, err, want)
	}
	for _, key := range []string{"FLANNEL_SUBNET", "FLANNEL_IPV6_SUBNET", "FLANNEL_MTU"} {
		if _, _, err := readSubnet(strings.ReplaceAll(text, key+"=", "OTHER=")); err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("without %s: error %v does not name it", key, err)
		}
	}
}
