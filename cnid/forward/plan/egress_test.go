// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/ebpf/datapath/state"
	"github.com/alioth-net/alioth/store"
)

// openVPC is a VPC with egress and lists.
func openVPC(name string, vni uint32, allow, deny []string) func(store.Tx) error {
	return func(tx store.Tx) error {
		return store.PutVPC(tx, &store.VPC{
			Meta: store.Meta{UID: name}, Name: name, VNI: vni, Ready: true, Prefixes: prefixes("10.10.0.0/16"),
			EgressMasquerade: true, EgressAllow: prefixes(allow...), EgressDeny: prefixes(deny...),
		})
	}
}

func TestEgress_AllowedAndDenied_DenyWins(t *testing.T) {
	const vni = 20
	entry := func(class state.ClosedClass, text string) state.ClosedPrefix {
		return state.ClosedPrefix{VNI: vni, Prefix: prefix(text), Class: class}
	}
	unlisted := []state.ClosedPrefix{entry(state.ClosedUnlisted, "0.0.0.0/0"), entry(state.ClosedUnlisted, "::/0")}
	listed := []state.ClosedPrefix{entry(state.OpenListed, "0.0.0.0/0"), entry(state.OpenListed, "::/0")}
	cases := map[string]struct {
		allow, deny []string
		want        []state.ClosedPrefix
	}{
		"no list": {},
		"denied alone": {
			deny: []string{"2001:db8::/32", "203.0.113.0/24"},
			want: append(slices.Clone(listed), entry(state.ClosedDenied, "203.0.113.0/24"), entry(state.ClosedDenied, "2001:db8::/32")),
		},
		"allowed alone": {
			allow: []string{"203.0.113.0/24"},
			want:  append(slices.Clone(unlisted), entry(state.OpenListed, "203.0.113.0/24")),
		},
		"a part of the allowed is denied": {
			allow: []string{"203.0.113.0/24"}, deny: []string{"203.0.113.9/32"},
			want: append(slices.Clone(unlisted), entry(state.OpenListed, "203.0.113.0/24"), entry(state.ClosedDenied, "203.0.113.9/32")),
		},
		"the allowed is a part of the denied": {
			allow: []string{"203.0.113.9/32"}, deny: []string{"203.0.113.0/24"},
			want: append(slices.Clone(unlisted), entry(state.ClosedDenied, "203.0.113.0/24")),
		},
		"the same is allowed and denied": {
			allow: []string{"203.0.113.0/24"}, deny: []string{"203.0.113.0/24"},
			want: append(slices.Clone(unlisted), entry(state.ClosedDenied, "203.0.113.0/24")),
		},
		"everything of one family is allowed": {
			allow: []string{"0.0.0.0/0"},
			want:  []state.ClosedPrefix{entry(state.OpenListed, "0.0.0.0/0"), entry(state.ClosedUnlisted, "::/0")},
		},
		"everything of one family is denied": {
			allow: []string{"0.0.0.0/0", "2001:db8::/32"}, deny: []string{"0.0.0.0/0"},
			want: []state.ClosedPrefix{
				entry(state.ClosedDenied, "0.0.0.0/0"), entry(state.ClosedUnlisted, "::/0"), entry(state.OpenListed, "2001:db8::/32"),
			},
		},
		"all of IPv6 is denied": {
			deny: []string{"::/0"},
			want: []state.ClosedPrefix{entry(state.OpenListed, "0.0.0.0/0"), entry(state.ClosedDenied, "::/0")},
		},
		"a metadata address by itself": {
			allow: []string{"169.254.169.254/32", "fd00:ec2::254/128"},
			want: append(slices.Clone(unlisted),
				entry(state.OpenMetadata, "169.254.169.254/32"), entry(state.OpenMetadata, "fd00:ec2::254/128")),
		},
		"a metadata address in a range": {
			allow: []string{"169.254.169.254/31"},
			want:  append(slices.Clone(unlisted), entry(state.OpenListed, "169.254.169.254/31")),
		},
		"a metadata address, denied as well": {
			allow: []string{"169.254.169.254/32"}, deny: []string{"169.254.0.0/16"},
			want: append(slices.Clone(unlisted), entry(state.ClosedDenied, "169.254.0.0/16")),
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, node("node1", "192.0.2.1"), openVPC("blue", vni, c.allow, c.deny))
			w.attach("blue", vni, "b1", "10.10.1.10/24")
			got := w.build(func(cfg *Config) { cfg.Metadata = ips("169.254.169.254", "fd00:ec2::254") }).Datapath.Closed
			for _, metadata := range []string{"169.254.169.254/32", "fd00:ec2::254/128"} {
				if closed := (state.ClosedPrefix{Prefix: prefix(metadata), Class: state.ClosedMetadata}); !slices.Contains(got, closed) {
					t.Errorf("%s is not closed to all VPCs: %v", metadata, got)
				}
			}
			own := slices.DeleteFunc(slices.Clone(got), func(p state.ClosedPrefix) bool { return p.VNI == 0 })
			byPrefix := func(a, b state.ClosedPrefix) int { return a.Prefix.Compare(b.Prefix) }
			slices.SortFunc(c.want, byPrefix)
			if diff := cmp.Diff(c.want, own, byValue); diff != "" {
				t.Errorf("the VPC's own (-want +got):\n%s", diff)
			}
		})
	}
}

func TestEgress_Off_ListsIgnored(t *testing.T) {
	closedVPC := func(tx store.Tx) error {
		return store.PutVPC(tx, &store.VPC{
			Meta: store.Meta{UID: "blue"}, Name: "blue", VNI: 20, Ready: true, Prefixes: prefixes("10.10.0.0/16"),
			EgressAllow: prefixes("0.0.0.0/0"), EgressDeny: prefixes("203.0.113.0/24"),
		})
	}
	w := newWorld(t, node("node1", "192.0.2.1"), closedVPC)
	w.attach("blue", 20, "b1", "10.10.1.10/24")
	for _, closed := range w.build().Datapath.Closed {
		if closed.VNI != 0 {
			t.Errorf("an entry of the VPC's own: %v", closed)
		}
	}
}
