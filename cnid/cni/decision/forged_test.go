// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/api/annotations"
	"github.com/alioth-net/alioth/api/netif"
	"github.com/alioth-net/alioth/cnid/cni/attachment"
	"github.com/alioth-net/alioth/cnid/cni/drivers/netkit"
	"github.com/alioth-net/alioth/cnid/interfaces/ifdriver"
	"github.com/alioth-net/alioth/cnid/internal/testrows"
	"github.com/alioth-net/alioth/store"
)

// newThree returns a store for a pod with two interfaces in a VPC, and one outside. The second one
// has the default routes.
func newThree() *decided {
	d := newDecided()
	second := testrows.Address("blue", "blue1", "10.10.1.20", "node1", d.addresses[0].Holder, "10.10.1.20")
	second.Attachment = "net1"
	d.addresses = append(d.addresses, second)
	d.described.NoDefaultRoute = true
	d.more = []netif.Interface{{
		Name: "net1", AltName: "web", Definition: "ns/blue", Kind: netif.KindPair, VPC: "blue", Subnet: "blue1", MAC: second.MAC,
		Addresses: []netip.Prefix{netip.MustParsePrefix("10.10.1.20/24")},
	}, physical("net2", "198.51.100.7/24")}
	return d
}

// annotate replaces the annotation of the pod in a store.
func (d *decided) annotate(t *testing.T, s *store.Store, text string) {
	t.Helper()
	d.pod.Attachments, d.pod.ResourceVersion = text, "9"
	if err := s.Update(func(tx store.Tx) error { return store.PutPod(tx, &d.pod) }); err != nil {
		t.Fatal(err)
	}
}

func written(t *testing.T, list ...netif.Interface) string {
	t.Helper()
	text, err := annotations.FormatAttachments(list)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestDecide_ForgedAnnotation_ObjectsDecide: tenants may write the annotations of their pods, where
// no policy prevents it.
func TestDecide_ForgedAnnotation_ObjectsDecide(t *testing.T) {
	want := newThree().decide(t, thePod)
	if want.missing != "" || len(want.decisions) != 3 {
		t.Fatalf("answer %+v", want)
	}
	changed := func(change func([]netif.Interface)) string {
		d := newThree()
		list := append([]netif.Interface{d.described}, d.more...)
		change(list)
		return written(t, list...)
	}
	for name, text := range map[string]string{
		"removed": "", "no JSON": "{", "no interface": "[]",
		"the first alone":       written(t, newThree().described),
		"one more":              written(t, append([]netif.Interface{newThree().described}, append(newThree().more, physical("net3"))...)...),
		"another order":         written(t, newThree().more[1], newThree().more[0], newThree().described),
		"another second name":   changed(func(list []netif.Interface) { list[1].AltName = "forged" }),
		"another default route": changed(func(list []netif.Interface) { list[0].NoDefaultRoute, list[1].NoDefaultRoute = false, true }),
		"another VPC":           changed(func(list []netif.Interface) { list[0].VPC = "red" }),
		"another address":       changed(func(list []netif.Interface) { list[0].Addresses = list[1].Addresses }),
		"another kind":          changed(func(list []netif.Interface) { list[0].Kind = netif.KindExternal }),
		"outside":               changed(func(list []netif.Interface) { list[0] = physical("eth0") }),
	} {
		t.Run(name, func(t *testing.T) {
			d, s := newThree(), newRows(t)
			d.fill(t, s)
			d.annotate(t, s, text)
			got := d.ask(s, thePod)
			if diff := cmp.Diff(want.decisions, got.decisions, compareByValue); diff != "" || got.missing != "" {
				t.Errorf("missing %q (-want +got):\n%s", got.missing, diff)
			}
		})
	}
}

func TestRebuild_ForgedAnnotation_ObjectsDecide(t *testing.T) {
	decided := newThree().decide(t, thePod).decisions
	d, s := newThree(), newRows(t)
	d.fill(t, s)
	d.annotate(t, s, written(t, newThree().more[1], newThree().described))
	for _, one := range decided[:2] {
		found := ifdriver.Found{IfName: "eth0", PodUID: "p1"}
		if one.IfName != "" {
			found.IfName, found.Request = one.IfName, "eth0"
		}
		s.View(func(tx store.ReadTx) {
			rec, err := Rebuild(tx, planned(), kinds[netkit.Kind], found)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(reduced(one), reduced(attachment.Decision{Interface: rec.Interface}), compareByValue); diff != "" {
				t.Errorf("attachment %s (-decided +rebuilt):\n%s", one.Attachment, diff)
			}
		})
	}
}

// reduced returns the gateways and routes of a decision.
func reduced(d attachment.Decision) []any { return []any{d.Gateways, d.Routes} }

// TestDecide_ObjectsIncomplete_Waits: a pod with three interfaces never starts with two.
func TestDecide_ObjectsIncomplete_Waits(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*decided)
		want   string
	}{
		"the first address alone":  {func(d *decided) { d.addresses, d.unclaimed = d.addresses[:2], true }, "interface net1: its Address or AttachmentClaim has not arrived yet"},
		"without the claim":        {func(d *decided) { d.unclaimed = true }, "interface net2: its Address or AttachmentClaim has not arrived yet"},
		"without the first":        {func(d *decided) { d.addresses = d.addresses[2:] }, "the pod's Address objects have not arrived yet"},
		"a second that is deleted": {func(d *decided) { d.addresses[2].Deleting = true }, "interface net1: its Address"},
		"an Address and a claim":   {func(d *decided) { d.addresses[2].Attachment = "net2"; d.more = d.more[1:] }, "it has an Address in VPC blue, and an AttachmentClaim"},
	} {
		t.Run(name, func(t *testing.T) {
			d := newThree()
			c.change(d)
			if got := d.decide(t, thePod); !strings.Contains(got.missing, c.want) || got.decisions != nil {
				t.Errorf("answer %+v, want %q", got, c.want)
			}
		})
	}
}

func TestDecide_ConfigurationBeingChanged_Waits(t *testing.T) {
	d, s := newThree(), newRows(t)
	d.fill(t, s)
	row := d.addresses[0]
	row.Config, row.ResourceVersion = &netif.VPCConfig{AltName: "next"}, "2"
	if err := s.Update(func(tx store.Tx) error { return store.PutAddress(tx, &row) }); err != nil {
		t.Fatal(err)
	}
	if got := d.ask(s, thePod); !strings.Contains(got.missing, "is changing the configuration") {
		t.Errorf("answer %+v", got)
	}
}

// TestDecide_AddressesOfRelease01_AnnotationLists: a daemon may be newer than the operator.
func TestDecide_AddressesOfRelease01_AnnotationLists(t *testing.T) {
	want := newThree().decide(t, thePod)
	d := newThree()
	d.release01 = true
	got := d.decide(t, thePod)
	if diff := cmp.Diff(want.decisions, got.decisions, compareByValue); diff != "" || got.missing != "" {
		t.Errorf("missing %q (-want +got):\n%s", got.missing, diff)
	}
}
