// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package reserved

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/cnid/forward/hostlink/links"
	"github.com/alioth-net/alioth/cnid/forward/netdev/hostdev"
	"github.com/alioth-net/alioth/store/rows/multinet"
)

func TestReserved_PodAndAliothInterfaces_Reserved(t *testing.T) {
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

func TestReserved_DocumentUsesAliothNamesOrMarks_Refused(t *testing.T) {
	mark, text := links.Mark(multinet.LinkID{Device: "eth0", Type: multinet.VXLAN, VNI: 7}), "uplink"
	err := Check(&document.State{Interfaces: []document.Interface{
		{Name: "eth0", Description: &text},
		{Name: "eth1", Description: &mark},
		{Name: hostdev.PodPrefix + "1"},
		{Name: "eth2", Description: &mark, State: document.Ignore},
		{Name: hostdev.Tunnel, State: document.Absent},
		{Name: "eth3", AltNames: []document.AltName{{Name: "fine"}, {Name: "alioth-x"}, {Name: "alv1", State: document.Absent}}},
	}})
	want := "interfaces[1].description: " + mark + ": it is reserved for interfaces of Alioth; choose another text\n" +
		"interfaces[2].name: alv1: it is reserved for interfaces of Alioth; choose another name\n" +
		"interfaces[5].alt-names[1].name: alioth-x: it is reserved for interfaces of Alioth; choose another name"
	if !errors.Is(err, ErrReserved) || strings.TrimSpace(err.Error()) != want {
		t.Errorf("got %v", err)
	}
	if err := Check(&document.State{Interfaces: []document.Interface{{Name: "eth0", Description: &text}}}); err != nil {
		t.Error(err)
	}
}

func TestReserved_ShadowRangeAddresses_Reserved(t *testing.T) {
	is := Addresses([]netip.Prefix{netip.MustParsePrefix("169.254.64.0/18"), netip.MustParsePrefix("fd41::/64")})
	for text, want := range map[string]bool{
		"169.254.64.1/32": true, "169.254.127.1/16": true, "fd41::1/128": true,
		"169.254.20.10/32": false, "fd41:0:0:1::1/64": false, "192.0.2.1/24": false,
	} {
		if got := is(netip.MustParsePrefix(text)); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
}
