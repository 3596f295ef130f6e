// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"context"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	danmv1 "github.com/alioth-net/alioth/api/danm/v1"
	danmiov1 "github.com/alioth-net/alioth/api/danmio/v1"
	"github.com/alioth-net/alioth/api/v1alpha1"
)

func tenantNetwork(name, kind, device, pool string) *danmv1.TenantNetwork {
	return &danmv1.TenantNetwork{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: danmv1.NetworkSpec{
			NetworkID: "internal", NetworkType: kind, Options: danmv1.NetworkOptions{HostDevice: device, DevicePool: pool},
		},
	}
}

// offer has the operator publish the offer of a TenantConfig; nil for no TenantConfig.
func offer(t *testing.T, grant *v1alpha1.TenantNetworkGrant) {
	t.Helper()
	c := as(t, operator())
	grants := new(v1alpha1.AdmissionGrants)
	if err := c.Get(t.Context(), client.ObjectKey{Name: v1alpha1.TenantNetworkGrants}, grants); err != nil {
		t.Fatal(err)
	}
	grants.TenantNetworks = grant
	if err := c.Update(t.Context(), grants); err != nil {
		t.Fatal(err)
	}
}

// eventuallyCreate creates an object when the API server has read the parameters.
func eventuallyCreate(t *testing.T, c client.Client, object client.Object) {
	t.Helper()
	eventually(t, func(ctx context.Context) error { return c.Create(ctx, object) })
}

// TestTenantNetwork_DeviceUnoffered_Refused has the cases 96-98 of DANM's own tests, for
// both groups. Expressed otherwise:
//   - 97: a device is refused for static types, too.
//   - 99: exhausted numbers are a condition, because two requests can race.
//   - 100, 101, 103: the operator gives devices and numbers after the creation.
//   - a static type that networkIds lack is refused; DANM lets users choose any program.
func TestTenantNetwork_DeviceUnoffered_Refused(t *testing.T) {
	start(t)
	who := clusterAdmin()
	both := func(name string, network *danmv1.TenantNetwork, refused string) []attempt {
		other := danmiov1.TenantNetwork(*network)
		return slices.Concat(
			creations(t, name, who, network, refused),
			creations(t, name+", danm.io", who, &other, refused),
		)
	}
	offer(t, nil)
	run(t, both("case 96: no TenantConfig", tenantNetwork("n", "", "", ""), "no TenantConfig serves TenantNetworks"))
	offer(t, &v1alpha1.TenantNetworkGrant{TenantConfig: "pools", DevicePools: []string{"a.b/c"}})
	run(t, both("case 98: no device and only pools", tenantNetwork("n", "", "", ""), "name a device_pool, offered are: a.b/c (TenantConfig \"pools\")"))
	offer(t, &v1alpha1.TenantNetworkGrant{
		TenantConfig: "config", Devices: []string{"ens4", "ens5"}, DevicePools: []string{"a.b/c"}, NetworkTypes: []string{"flannel"},
	})
	const source = ` (TenantConfig "config")`
	eventually(t, func(ctx context.Context) error {
		return as(t, who).Create(ctx, tenantNetwork("n", "", "", ""), client.DryRunAll)
	})
	run(t, slices.Concat(
		both(
			"case 97: another device",
			tenantNetwork("n", "ipvlan", "ens3", ""),
			`host_device: "ens3" is not offered to TenantNetworks; offered are: ens4, ens5`+source,
		),
		both("case 97: another device of a static type", tenantNetwork("n", "flannel", "ens3", ""), `"ens3" is not offered`),
		both("case 97: another pool", tenantNetwork("n", "sriov", "", "a.b/d"), `device_pool: "a.b/d" is not offered to TenantNetworks; offered are: a.b/c`+source),
		both(
			"another type",
			tenantNetwork("n", "Calico", "", ""),
			`NetworkType: "calico" is not offered to TenantNetworks; offered are: ipvlan, macvlan, sriov, flannel`+source,
		),
		both("an offered type", tenantNetwork("n", "Flannel", "", ""), ""),
		both("an offered device", tenantNetwork("n", "MACVLAN", "ens5", ""), ""),
		both("an offered pool", tenantNetwork("n", "sriov", "", "a.b/c"), ""),
		both("no device", tenantNetwork("n", "", "", ""), ""),
	))
}

// TestTenantNetwork_OperatorFieldsChanged_Refused has the user guide's rules 1-6 of TenantNetworks,
// and case 92 of DANM's own tests for UPDATE.
func TestTenantNetwork_OperatorFieldsChanged_Refused(t *testing.T) {
	admin := start(t)
	offer(t, &v1alpha1.TenantNetworkGrant{TenantConfig: "config", Devices: []string{"ens4", "ens5"}})
	bare, given := tenantNetwork("bare", "", "", ""), tenantNetwork("given", "", "", "")
	for _, network := range []*danmv1.TenantNetwork{bare, given} {
		eventuallyCreate(t, admin, network)
	}
	// As an earlier version of the operator wrote it.
	written := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"Options":{"host_device":"ens4","vlan":500}}}`))
	if err := as(t, operator()).Patch(t.Context(), given, written); err != nil {
		t.Fatalf("the operator gives a device and a number: %v", err)
	}
	other := danmiov1.TenantNetwork(*tenantNetwork("bare", "", "", ""))
	eventuallyCreate(t, admin, &other)

	who := person("tn-editor")
	grantIn(t, admin, "default", who, "edit")
	type edits = func(*danmv1.NetworkOptions)
	var changes []change[*danmv1.TenantNetwork]
	for _, tt := range []struct {
		name    string
		object  *danmv1.TenantNetwork
		edit    edits
		refused string
	}{
		{"rule 3: a VLAN", bare, func(o *danmv1.NetworkOptions) { o.VLAN = 5 }, "vlan: the Alioth operator chooses it"},
		{"rule 4: a VXLAN", bare, func(o *danmv1.NetworkOptions) { o.VXLAN = 5 }, "vxlan: the Alioth operator chooses it"},
		{"rule 5: a device", bare, func(o *danmv1.NetworkOptions) { o.HostDevice = "ens5" }, "host_device of a TenantNetwork can't change"},
		{"rule 6: a pool", bare, func(o *danmv1.NetworkOptions) { o.DevicePool = "a.b/c" }, "device_pool of a TenantNetwork can't change"},
		{"rule 3: another VLAN", given, func(o *danmv1.NetworkOptions) { o.VLAN = 501 }, "vlan: the Alioth operator chooses it"},
		{"no VLAN, which the status has not either", given, func(o *danmv1.NetworkOptions) { o.VLAN = 0 }, "vlan: the Alioth operator chooses it"},
		{"rule 5: another device", given, func(o *danmv1.NetworkOptions) { o.HostDevice = "ens5" }, "host_device of a TenantNetwork can't change"},
		{"no device, as in the manifest", given, func(o *danmv1.NetworkOptions) { o.HostDevice = "" }, ""},
		{"a range", given, func(o *danmv1.NetworkOptions) { o.CIDR = "10.0.0.0/24" }, ""},
	} {
		changes = append(changes, change[*danmv1.TenantNetwork]{
			name: tt.name, who: who, object: tt.object, edit: func(n *danmv1.TenantNetwork) { tt.edit(&n.Spec.Options) }, refused: tt.refused, except: byApply,
		})
	}
	changes = append(changes, change[*danmv1.TenantNetwork]{
		name: "a type that is not offered", who: who, object: given, edit: func(n *danmv1.TenantNetwork) { n.Spec.NetworkType = "evil" }, refused: `"evil" is not offered`, except: byApply,
	})
	runChanges(t, changes)
	before := given.DeepCopy()
	given.Status.Profile = &danmv1.NetworkProfile{HostDevice: "ens4", VLAN: 500}
	if err := as(t, operator()).Status().Patch(t.Context(), given, client.MergeFrom(before)); err != nil {
		t.Fatalf("the operator writes the profile into the status: %v", err)
	}
	runChanges(t, []change[*danmv1.TenantNetwork]{
		{name: "no VLAN, as in the manifest", who: who, object: given, edit: func(n *danmv1.TenantNetwork) { n.Spec.Options.VLAN = 0 }, except: byApply},
	})
	runChanges(t, []change[*danmiov1.TenantNetwork]{
		{
			name:    "rule 3, danm.io",
			who:     who,
			object:  &other,
			edit:    func(n *danmiov1.TenantNetwork) { n.Spec.Options.VLAN = 5 },
			refused: "vlan: the Alioth operator chooses it",
		},
	})
}

// TestTenantNetwork_OtherTenantEntry_Refused: entries of a TenantConfig for single tenants.
func TestTenantNetwork_OtherTenantEntry_Refused(t *testing.T) {
	admin := start(t)
	const shop, bank = "offers-shop", "offers-bank"
	create(t, admin, namespace(shop, map[string]string{v1alpha1.TenantLabel: "shop"}))
	create(t, admin, namespace(bank, map[string]string{v1alpha1.TenantLabel: "bank"}))
	offer(t, &v1alpha1.TenantNetworkGrant{TenantConfig: "config", Devices: []string{"ens4"}, Tenants: []v1alpha1.TenantDevices{
		{Tenant: "ns:default", Devices: []string{"ens6"}}, {Tenant: "shop", Devices: []string{"ens5"}, DevicePools: []string{"a.b/c"}},
	}})
	in := func(namespace, device, pool string) *danmv1.TenantNetwork {
		network := tenantNetwork("n", "", device, pool)
		if network.Namespace = namespace; pool != "" {
			network.Spec.NetworkType = "sriov"
		}
		return network
	}
	eventually(t, func(ctx context.Context) error {
		return as(t, clusterAdmin()).Create(ctx, in(shop, "ens5", ""), client.DryRunAll)
	})
	run(t, slices.Concat(
		creations(t, "for all", clusterAdmin(), in(shop, "ens4", ""), ""),
		creations(t, "its own", clusterAdmin(), in(shop, "ens5", ""), ""),
		creations(t, "its own pool", clusterAdmin(), in(shop, "", "a.b/c"), ""),
		creations(t, "that of a namespace without a label", clusterAdmin(), in("default", "ens6", ""), ""),
		creations(t, "a device of another tenant", clusterAdmin(), in(bank, "ens5", ""), `"ens5" is not offered to TenantNetworks; offered are: ens4 (`),
		creations(t, "a pool of another tenant", clusterAdmin(), in(bank, "", "a.b/c"), `"a.b/c" is not offered to TenantNetworks; offered are: none`),
		creations(t, "a device of a namespace", clusterAdmin(), in(shop, "ens6", ""), `"ens6" is not offered to TenantNetworks; offered are: ens4, ens5 (`),
	))
}

// TestTenantNetwork_GiantRange_Refused: for new networks, and for ranges that change. A giant range
// from before stays.
func TestTenantNetwork_GiantRange_Refused(t *testing.T) {
	admin := start(t)
	const shop = "giant-shop"
	create(t, admin, namespace(shop, map[string]string{v1alpha1.TenantLabel: "shop"}))
	offer(t, &v1alpha1.TenantNetworkGrant{TenantConfig: "config", Devices: []string{"ens4"}})
	ranges := func(namespace, cidr, net6 string) *danmv1.TenantNetwork {
		network := tenantNetwork("giant", "", "", "")
		network.Namespace, network.Spec.Options.CIDR, network.Spec.Options.Net6 = namespace, cidr, net6
		return network
	}
	eventually(t, func(ctx context.Context) error {
		return as(t, clusterAdmin()).Create(ctx, ranges("default", "", ""), client.DryRunAll)
	})
	const giant4, giant6 = "spec.Options.cidr: 10.0.0.0/15 is larger than /16", "spec.Options.net6: fd00::/63 is larger than /64"
	var all []attempt
	for _, tt := range []struct{ cidr, net6, refused string }{
		{"10.0.0.0/16", "fd00::/64", ""}, {"10.0.0.0/15", "", giant4}, {"", "fd00::/63", giant6}, {"", "", ""},
	} {
		tenants := ranges("default", tt.cidr, tt.net6)
		tenantsIO := danmiov1.TenantNetwork(*tenants)
		labelled := danmv1.DanmNet(*ranges(shop, tt.cidr, tt.net6))
		labelled.Spec.Options.HostDevice = "ens4"
		labelledIO := danmiov1.DanmNet(labelled)
		trusted := labelled
		trusted.Namespace = "default"
		shared := danmv1.ClusterNetwork{ObjectMeta: metav1.ObjectMeta{Name: "giant"}, Spec: labelled.Spec}
		name := tt.cidr + " " + tt.net6
		all = slices.Concat(
			all,
			creations(
				t,
				"TenantNetwork "+name,
				clusterAdmin(),
				tenants,
				tt.refused,
			),
			creations(t, "TenantNetwork, danm.io "+name, clusterAdmin(), &tenantsIO, tt.refused),
			creations(t, "DanmNet "+name, clusterAdmin(), &labelled, tt.refused),
			creations(t, "DanmNet, danm.io "+name, clusterAdmin(), &labelledIO, tt.refused),
			creations(t, "DanmNet without a tenant label "+name, clusterAdmin(), &trusted, ""),
			creations(t, "ClusterNetwork "+name, clusterAdmin(), &shared, ""),
		)
	}
	run(t, all)
	before := ranges("default", "", "")
	before.Name = "before"
	create(t, admin, before)
	giant := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"Options":{"cidr":"10.0.0.0/8","net6":"fd00::/32"}}}`))
	if err := as(t, operator()).Patch(t.Context(), before, giant); err != nil { // the policy is not for the operator
		t.Fatal(err)
	}
	edit := func(name, refused string, edit func(*danmv1.NetworkOptions)) change[*danmv1.TenantNetwork] {
		return change[*danmv1.TenantNetwork]{
			name: name, who: clusterAdmin(), object: before, edit: func(n *danmv1.TenantNetwork) { edit(&n.Spec.Options) }, refused: refused, except: byApply,
		}
	}
	runChanges(t, []change[*danmv1.TenantNetwork]{
		edit("another field of a giant from before", "", func(o *danmv1.NetworkOptions) { o.MTU = 1400 }),
		edit("a smaller range", "", func(o *danmv1.NetworkOptions) { o.CIDR = "10.0.0.0/24" }),
		edit("another giant", "is larger than /16", func(o *danmv1.NetworkOptions) { o.CIDR = "11.0.0.0/8" }),
		edit("a larger one", "is larger than /64", func(o *danmv1.NetworkOptions) { o.Net6 = "fd00::/20" }),
	})
}
