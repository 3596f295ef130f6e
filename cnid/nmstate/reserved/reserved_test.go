// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package reserved

import (
	"testing"

	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/cnid/netdev/hostdev"
)

func TestInterfacesOfPodsAndOfAliothAreReserved(t *testing.T) {
	uplink := "uplink to rack 7"
	for _, c := range []struct {
		i    document.Interface
		want bool
	}{
		{document.Interface{Name: hostdev.Tunnel, Type: document.VXLANType}, true},
		{document.Interface{Name: hostdev.PodPrefix + "0123456789ab", Type: document.Unknown}, true},
		{document.Interface{Name: "veth0", Type: document.VethPair, Veth: &document.Veth{}}, true},
		{document.Interface{Name: "veth0", Type: document.VethPair, Veth: &document.Veth{Peer: "veth1"}}, false},
		{document.Interface{Name: "eth0", Type: document.Ethernet, Description: &uplink}, false},
	} {
		if got := Is(c.i); got != c.want {
			t.Errorf("%+v: %v", c.i, got)
		}
	}
}
