// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package links_test

import (
	"strings"
	"testing"

	"github.com/alioth-net/alioth/cnid/forward/hostlink/links"
	"github.com/alioth-net/alioth/store/rows/multinet"
)

// FuzzNames: whatever networks write, each link has a name that the kernel takes and that no
// other link and no foreign device has, and the same one in each pass.
func FuzzNames(f *testing.F) {
	f.Add("red", "red", "vx_red", uint32(100), uint32(200))
	f.Add("", "a/b c", "red.100", uint32(1), uint32(16777215))
	f.Add("exactly10c", "exactly10c", "exactly10c.4094", uint32(4094), uint32(4094))
	f.Add("netz-ä", "..", "..", uint32(5), uint32(5))
	f.Add("alvred", "alioth-too-long", "alvred.1310", uint32(1310), uint32(1310))
	f.Fuzz(func(t *testing.T, first, second, foreign string, vlan, vxlan uint32) {
		vlan, vxlan = vlan%4094+1, vxlan%(1<<24-1)+1
		s := stateWith(
			wanted(on("eth0", "vlan", vlan), first), wanted(on("eth0", "vxlan", vxlan), first),
			wanted(on("eth1", "vlan", vlan), second), wanted(on("eth1", "vxlan", vxlan), second),
		)
		devices := []links.Device{ethernet(2, "eth0", "192.0.2.1"), ethernet(3, "eth1", "2001:db8::1"), ethernet(4, foreign)}
		p := links.Decide(s, devices, port)
		again := links.Decide(s, devices, port)
		taken := map[string]bool{"eth0": true, "eth1": true, foreign: true}
		for id, link := range p.Links {
			name := link.Name
			if len(name) == 0 || len(name) > 15 || strings.ContainsAny(name, "/: \t\n\x00") || name == "." || name == ".." || taken[name] {
				t.Errorf("%s has the name %q", id, name)
			}
			if multinet.ReservedDevice(name) {
				t.Errorf("%s has the reserved name %q", id, name)
			}
			taken[name] = true
			if again.Links[id].Name != name {
				t.Errorf("%s has the name %q, and then %q", id, name, again.Links[id].Name)
			}
		}
	})
}

// FuzzMarks checks that an alias is read as a mark only if Mark returns it for the same link.
func FuzzMarks(f *testing.F) {
	f.Add("alioth-hostlink vlan 100 eth0", "eth0")
	f.Add("alioth-hostlink vxlan 0 a%20b", "a b")
	f.Add("alioth-hostlink vlan 01 eth0", "")
	f.Fuzz(func(t *testing.T, alias, device string) {
		if id, ok := links.Marked(alias); ok && links.Mark(id) != alias {
			t.Errorf("%q is taken for %+v", alias, id)
		}
		id := multinet.LinkID{Device: device, Type: multinet.VLAN, VNI: 7}
		if got, ok := links.Marked(links.Mark(id)); !ok || got != id {
			t.Errorf("%+v is marked %q, which is read as %+v", id, links.Mark(id), got)
		}
	})
}
