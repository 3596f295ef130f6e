// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package hostlink

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/feed"
	"github.com/alioth-net/alioth/operator/operatortest"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/multinet"
)

// red is VXLAN 100 on ens4, which the networks of these tests are on.
var red = multinet.LinkID{Device: "ens4", Type: multinet.VXLAN, VNI: 100}

func network(namespace string, age int, change func(*multinet.Network)) *multinet.Network {
	n := &multinet.Network{
		Meta:      operatortest.Meta("uid-"+namespace, age),
		Ref:       multinet.Ref{Group: "danm.k8s.io", Kind: multinet.KindDanmNet, Namespace: namespace, Name: "net"},
		NetworkID: "id-" + namespace, Type: multinet.TypeMACVLAN, HostDevice: "ens4", VXLAN: 100, Ready: true,
	}
	if change != nil {
		change(n)
	}
	return n
}

func claimOf(net *multinet.Network) *multinet.Claim {
	return &multinet.Claim{Meta: operatortest.Meta("claim", 0), Namespace: net.Namespace, Name: "p.net1", PodUID: "p", Network: net.Reference()}
}

func TestLink_Networks_WantedWhileUsed(t *testing.T) {
	mtu := func(mtu int) func(*multinet.Network) { return func(n *multinet.Network) { n.Settings.MTU = mtu } }
	unready := func(n *multinet.Network) { n.Ready = false }
	spec := func(networkID string, mtu int32) *v1alpha1.HostLinkSpec {
		return &v1alpha1.HostLinkSpec{Type: "vxlan", VNI: 100, Device: "ens4", NetworkID: networkID, MTU: mtu}
	}
	for name, c := range map[string]struct {
		rows []any
		want *v1alpha1.HostLinkSpec
	}{
		"no network":                  {},
		"one":                         {[]any{network("a", 0, mtu(1400))}, spec("id-a", 1400)},
		"ipvlan":                      {[]any{network("a", 0, func(n *multinet.Network) { n.Type = multinet.TypeIPVLAN })}, spec("id-a", 0)},
		"two, and the older names it": {[]any{network("a", 1, mtu(1400)), network("b", 2, mtu(1450))}, spec("id-a", 1450)},
		"one leaves the MTU open":     {[]any{network("a", 1, mtu(1400)), network("b", 2, nil)}, spec("id-a", 0)},
		"not ready":                   {[]any{network("a", 0, unready)}, nil},
		"not ready, with a pod":       {[]any{network("a", 0, unready), claimOf(network("a", 0, nil))}, spec("id-a", 0)},
		"that no node serves":         {[]any{network("a", 0, func(n *multinet.Network) { n.Ready, n.Reason = false, v1alpha1.NoServingNodeReason })}, spec("id-a", 0)},
		"the device alone":            {[]any{network("a", 0, func(n *multinet.Network) { n.VXLAN = 0 })}, nil},
		"another number":              {[]any{network("a", 0, func(n *multinet.Network) { n.VXLAN = 101 })}, nil},
		"another type of number":      {[]any{network("a", 0, func(n *multinet.Network) { n.VXLAN, n.VLAN = 0, 100 })}, nil},
		"another device":              {[]any{network("a", 0, func(n *multinet.Network) { n.HostDevice = "ens5" })}, nil},
		"functions of a device":       {[]any{network("a", 0, func(n *multinet.Network) { n.Type, n.HostDevice, n.DevicePool = multinet.TypeSRIOV, "", "ens4" })}, nil},
		"a plugin of its own":         {[]any{network("a", 0, func(n *multinet.Network) { n.Type = "bridge" })}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var got *v1alpha1.HostLinkSpec
			operatortest.New(t, c.rows...).View(func(tx store.ReadTx) { got = (&Reconciler{Delegation: true}).wanted(tx, red) })
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestDevice_NetworksWithoutNumber_WantedItself: the NetworkIDs and MTUs of the networks make no difference.
func TestDevice_NetworksWithoutNumber_WantedItself(t *testing.T) {
	plain := func(n *multinet.Network) { n.VXLAN, n.Settings.MTU = 0, 1400 }
	operatortest.New(t, network("a", 0, nil), network("b", 1, plain), network("c", 2, plain)).View(func(tx store.ReadTx) {
		got := (&Reconciler{}).wanted(tx, multinet.LinkID{Device: "ens4", Type: multinet.DeviceOnly})
		if diff := cmp.Diff(&v1alpha1.HostLinkSpec{Type: v1alpha1.HostLinkDevice, Device: "ens4"}, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if got := (&Reconciler{}).wanted(tx, multinet.LinkID{Device: "ens5", Type: multinet.DeviceOnly}); got != nil {
			t.Errorf("another device is wanted: %+v", got)
		}
	})
}

// granted returns a grant of plugins to the namespace of the definitions of these tests.
func granted(plugins ...string) *multinet.Grant {
	return &multinet.Grant{Meta: operatortest.Meta("grant", 0), Name: "grant", Namespaces: []string{"a"}, Plugins: plugins}
}

// plain returns a namespace without a tenant label.
func plain(name string) *store.Namespace {
	return &store.Namespace{Meta: operatortest.Meta("uid-"+name, 0), Name: name, Tenant: v1alpha1.NamespaceTenantPrefix + name}
}

// TestLink_Definition_OnlyWhileGranted: its author decides nothing by itself.
func TestLink_Definition_OnlyWhileGranted(t *testing.T) {
	definition := func(change func(*multinet.Definition)) *multinet.Definition {
		def := &multinet.Definition{
			Meta: operatortest.Meta("def", 0), Namespace: "a", Name: "wire", Link: red,
			Config: `{"cniVersion":"1.0.0","type":"macvlan","master":"ens4","vxlan":100}`,
		}
		if change != nil {
			change(def)
		}
		return def
	}
	spec := &v1alpha1.HostLinkSpec{Type: "vxlan", VNI: 100, Device: "ens4", NetworkID: "wire"}
	lent := &multinet.Grant{
		Meta:           operatortest.Meta("lent", 0),
		Name:           "lent",
		Namespaces:     []string{"b"},
		FromNamespaces: []string{"a"},
		Plugins:        []string{"macvlan"},
	}
	tenants := &store.Namespace{Meta: operatortest.Meta("a", 0), Name: "a", Tenant: "red"}
	number := &multinet.HostVNIClaim{Meta: operatortest.Meta("number", 0), Name: "number", Type: "vxlan", VNI: 100, Device: "ens4"}
	claim := &multinet.Claim{Meta: operatortest.Meta("claim", 0), Namespace: "a", Name: "p.net1", PodUID: "p", Network: definition(nil).Reference()}
	for name, c := range map[string]struct {
		rows []any
		// of is the namespace of the definition, by default one without a tenant label.
		of   *store.Namespace
		off  bool
		want *v1alpha1.HostLinkSpec
	}{
		"granted":                 {rows: []any{definition(nil), granted("macvlan")}, want: spec},
		"no grant":                {rows: []any{definition(nil)}},
		"lent":                    {rows: []any{definition(nil), lent}, want: spec},
		"lent by a tenant":        {rows: []any{definition(nil), lent}, of: tenants},
		"granted to a tenant":     {rows: []any{definition(nil), granted("macvlan")}, of: tenants},
		"of a tenant, with a pod": {rows: []any{definition(nil), claim}, of: tenants, want: spec},
		"an unknown namespace":    {rows: []any{definition(nil), granted("macvlan"), lent}, of: plain("other")},
		"another plugin":          {rows: []any{definition(nil), granted("ipvlan")}},
		"no delegation at all":    {rows: []any{definition(nil), granted("macvlan")}, off: true},
		"no grant, with a pod":    {rows: []any{definition(nil), claim}, want: spec},
		"being deleted":           {rows: []any{definition(func(d *multinet.Definition) { d.Deleting = true }), granted("macvlan")}},
		"a tenant's number":       {rows: []any{definition(nil), granted("macvlan"), number}},
		"beside a network": {
			rows: []any{definition(nil), granted("macvlan"), network("b", 0, func(n *multinet.Network) { n.Settings.MTU = 1400 })},
			want: &v1alpha1.HostLinkSpec{Type: "vxlan", VNI: 100, Device: "ens4", NetworkID: "id-b"},
		},
		"an IPAM without grant": {rows: []any{definition(func(d *multinet.Definition) {
			d.Config = `{"type":"macvlan","master":"ens4","vxlan":100,"ipam":{"type":"dhcp"}}`
		}), granted("macvlan")}},
	} {
		t.Run(name, func(t *testing.T) {
			namespace := c.of
			if namespace == nil {
				namespace = plain("a")
			}
			var got *v1alpha1.HostLinkSpec
			operatortest.New(t, append(c.rows, namespace)...).View(func(tx store.ReadTx) {
				got = (&Reconciler{Delegation: !c.off}).wanted(tx, red)
				if requests := ofDefinitions(tx); len(requests) != 1 {
					t.Errorf("requests are %v", requests)
				}
			})
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestNamespaceRequests_TenantLabelChanges_ItsLinks: the links may begin or end with the label.
func TestNamespaceRequests_TenantLabelChanges_ItsLinks(t *testing.T) {
	def := &multinet.Definition{Meta: operatortest.Meta("def", 0), Namespace: "a", Name: "wire", Link: red}
	other := &multinet.Definition{
		Meta:      operatortest.Meta("other", 0),
		Namespace: "b",
		Name:      "wire",
		Link:      multinet.LinkID{Device: "ens5", Type: multinet.VLAN, VNI: 5},
	}
	labelled := plain("a")
	labelled.Tenant = "red"
	operatortest.New(t, def, other).View(func(tx store.ReadTx) {
		for _, c := range []struct {
			old, now *store.Namespace
			want     []feed.Request
		}{
			{plain("a"), labelled, request(red)}, {nil, plain("a"), request(red)}, {labelled, nil, request(red)}, {plain("a"), plain("a"), nil},
		} {
			if got := ofNamespace(tx, c.old, c.now); !slices.Equal(got, c.want) {
				t.Errorf("from %v to %v: requests are %v", c.old, c.now, got)
			}
		}
	})
}

func TestNetworkRequests_Network_ItsLink(t *testing.T) {
	got := fmt.Sprint(of(network("a", 0, nil)))
	if want := fmt.Sprintf("[%v]", of(network("b", 0, nil))[0]); got != want || len(of(nil)) != 0 {
		t.Errorf("requests are %s, want %s", got, want)
	}
}
