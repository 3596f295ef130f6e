// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"context"
	"slices"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/annotations"
	arktosv1 "github.com/alioth-net/alioth/api/arktos/v1"
	danmv1 "github.com/alioth-net/alioth/api/danm/v1"
	danmiov1 "github.com/alioth-net/alioth/api/danmio/v1"
)

func clusterNetwork(name string, edit func(*danmv1.NetworkSpec)) *danmv1.ClusterNetwork {
	network := &danmv1.ClusterNetwork{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: danmv1.NetworkSpec{NetworkID: "internal"}}
	if edit != nil {
		edit(&network.Spec)
	}
	return network
}

func danmNet(namespace, name string, edit func(*danmv1.NetworkSpec)) *danmv1.DanmNet {
	network := danmv1.DanmNet(*clusterNetwork(name, edit))
	network.Namespace = namespace
	return &network
}

// TestNetworkRanges_Contradictory_RefusedByPolicy has the rest of the cases 91 and 110 of DANM's
// own tests, and the keys of routes, which DANM does not check.
func TestNetworkRanges_Contradictory_RefusedByPolicy(t *testing.T) {
	start(t)
	pool := func(cidr, start, end string) func(*danmv1.NetworkSpec) {
		return func(s *danmv1.NetworkSpec) {
			s.Options.CIDR, s.Options.AllocationPool = cidr, &danmv1.AllocationPool{Start: start, End: end}
		}
	}
	pool6 := func(start, end string) func(*danmv1.NetworkSpec) {
		return func(s *danmv1.NetworkSpec) {
			s.Options.Net6, s.Options.AllocationPoolV6 = "2001:db8::/32", &danmv1.AllocationPoolV6{Start: start, End: end}
		}
	}
	routes := func(to, to6 string) func(*danmv1.NetworkSpec) {
		return func(s *danmv1.NetworkSpec) {
			s.Options.CIDR, s.Options.Routes = "10.0.0.0/24", map[string]danmv1.Gateway{to: "10.0.0.1"}
			s.Options.Net6, s.Options.Routes6 = "2001:db8::/64", map[string]danmv1.Gateway{to6: "2001:db8::1"}
		}
	}
	by := func(cidr string, gateway danmv1.Gateway) func(*danmv1.NetworkSpec) {
		return func(s *danmv1.NetworkSpec) {
			s.Options.CIDR, s.Options.Routes = cidr, map[string]danmv1.Gateway{"10.20.0.0/16": gateway}
		}
	}
	const (
		ends          = "spec.Options.routes: a gateway must not be the first or the last address of "
		c26           = "192.168.1.64/26"
		order6        = "allocation_pool_v6.end must be above allocation_pool_v6.start"
		start4, end4  = "allocation_pool.start must be below the last address", "allocation_pool.end must be above the first address"
		route, route6 = "spec.Options.routes: each key must be a destination", "spec.Options.routes6: each key must be a destination"
	)
	var all []attempt
	for _, tt := range []struct {
		name    string
		edit    func(*danmv1.NetworkSpec)
		refused string
	}{
		{"no options", nil, ""},
		{"a start with room behind it", pool(c26, "192.168.1.125", ""), ""},
		{"a start at the last address before broadcast", pool(c26, "192.168.1.126", ""), start4},
		{"a start at the broadcast address", pool(c26, "192.168.1.127", ""), start4},
		{"an end with room before it", pool(c26, "", "192.168.1.66"), ""},
		{"an end at the first address", pool(c26, "", "192.168.1.65"), end4},
		{"an end at the network address", pool(c26, "", "192.168.1.64"), end4},
		{"a start in the largest range", pool("10.0.0.0/8", "10.255.255.253", ""), ""},
		{"a start at the end of the largest range", pool("10.0.0.0/8", "10.255.255.254", ""), start4},
		{"a start in the smallest range", pool("10.0.0.4/30", "10.0.0.5", ""), ""},
		{"a start at the end of the smallest range", pool("10.0.0.4/30", "10.0.0.6", ""), start4},
		{"an end in a range with host bits", pool("192.168.1.100/26", "", "192.168.1.66"), ""},
		{"an end at the start of a range with host bits", pool("192.168.1.100/26", "", "192.168.1.65"), end4},
		{"IPv6, the end above the start", pool6("2001:db8::9", "2001:db8::a"), ""},
		{"IPv6, case 110: one address", pool6("2001:db8::9", "2001:db8::9"), order6},
		{"IPv6, one address in two forms", pool6("2001:db8::9", "2001:db8:0::0:9"), order6},
		{"IPv6, the end below the start", pool6("2001:db8::a", "2001:db8::9"), order6},
		{"IPv6, shorter numbers are lower", pool6("2001:db8::9", "2001:db8::10"), ""},
		{"IPv6, longer numbers are higher", pool6("2001:db8::10", "2001:db8::9"), order6},
		{"IPv6, zeros at different places", pool6("2001:db8:0:1::", "2001:db8::1:0:0:0"), order6},
		{"IPv6, zeros at the end", pool6("2001:db8::ffff", "2001:db8:1::"), ""},
		{"IPv6, no zeros", pool6("2001:db8:1:2:3:4:5:6", "2001:db8:1:2:3:4:5:7"), ""},
		{"IPv6, no zeros, downwards", pool6("2001:db8:1:2:3:4:5:7", "2001:db8:1:2:3:4:5:6"), order6},
		{"IPv6, capitals", pool6("2001:DB8::A", "2001:db8::b"), ""},
		{"destinations", routes("10.20.0.0/16", "2001:db8:9::/48"), ""},
		{"the default destinations", routes("0.0.0.0/0", "::/0"), ""},
		{"a gateway that is the network address", by(c26, "192.168.1.64"), ends + c26},
		{"a gateway that is the broadcast address", by(c26, "192.168.1.127"), ends + c26},
		{"a gateway that is the broadcast address, in a range with host bits", by("192.168.1.70/26", "192.168.1.127"), ends},
		{"the gateways beside them", by(c26, "192.168.1.126"), ""},
		{"an address as a destination", routes("10.20.0.1", "::/0"), route},
		{"a destination of the other family", routes("::/0", "::/0"), route},
		{"IPv6, an address as a destination", routes("0.0.0.0/0", "2001:db8::1"), route6},
		{"IPv6, a destination of the other family", routes("0.0.0.0/0", "0.0.0.0/0"), route6},
	} {
		network := clusterNetwork("ranges", tt.edit)
		other := danmiov1.ClusterNetwork(*network)
		all = append(all, creations(t, tt.name, clusterAdmin(), network, tt.refused)...)
		all = append(all, creations(t, tt.name+", danm.io", clusterAdmin(), &other, tt.refused)...)
	}
	run(t, all)
}

// TestTenantConfig_InvalidNetworkIDs_Refused is case 74 of DANM's own tests, and rule 4 of the user
// guide's rules of TenantConfigs. A device with a vniType gives networks a number, so the limit is
// 10 then, as in the network itself.
func TestTenantConfig_InvalidNetworkIDs_Refused(t *testing.T) {
	start(t)
	config := func(kind danmv1.VNIType, numbers string, ids map[string]danmv1.NetworkID) *danmv1.TenantConfig {
		return &danmv1.TenantConfig{
			ObjectMeta:  metav1.ObjectMeta{Name: "ids"},
			HostDevices: []danmv1.HostDevice{{Name: "ens4", VNIType: kind, VNIRange: numbers}}, NetworkIDs: ids,
		}
	}
	type ids = map[string]danmv1.NetworkID
	const dynamic, order = "the NetworkID of the dynamic NetworkType ", "the first number of a range in vniRange must not be above its last"
	var all []attempt
	for _, tt := range []struct {
		name    string
		object  *danmv1.TenantConfig
		refused string
	}{
		{"12 characters of a static type", config("", "", ids{"flannel": "abcdefghijkl"}), ""},
		{"12 characters of a dynamic type", config("", "", ids{"sriov": "abcdefghijkl"}), dynamic + "sriov must not be longer than 11"},
		{"12 characters of a dynamic type in capitals", config("", "", ids{"IPVLAN": "abcdefghijkl"}), dynamic + "IPVLAN must not be longer than 11"},
		{"11 characters without numbers", config("", "", ids{"ipvlan": "abcdefghijk"}), ""},
		{"11 characters with numbers", config("vlan", "1-2", ids{"ipvlan": "abcdefghijk"}), dynamic + "ipvlan must not be longer than 10"},
		{"10 characters with numbers", config("vlan", "1-2", ids{"flannel": "abcdefghijk", "sriov": "abcdefghij"}), ""},
		{"a type that is a path", config("", "", ids{"../evil": "a"}), "each key must be a NetworkType"},
		{"one type twice", config("", "", ids{"flannel": "a", "Flannel": "b"}), "two keys must not differ in upper and lower case only"},
		{"a range", config("vlan", "9-10,11", nil), ""},
		{"a range of one", config("vlan", "10-10", nil), ""},
		{"a range downwards", config("vlan", "1-2,10-9", nil), order},
	} {
		other := danmiov1.TenantConfig(*tt.object)
		all = append(all, creations(t, tt.name, clusterAdmin(), tt.object, tt.refused)...)
		all = append(all, creations(t, tt.name+", danm.io", clusterAdmin(), &other, tt.refused)...)
	}
	run(t, all)
}

// connect has the operator report pods of a network.
func connect(t *testing.T, network client.Object, status *danmv1.NetworkStatus) {
	t.Helper()
	before, err := copyOf(network)
	if err != nil {
		t.Fatal(err)
	}
	status.Pods, status.PodNames = 2, []string{"shop/web-0", "shop/web-1"}
	if err := as(t, operator()).Status().Patch(t.Context(), network, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}

func usedSpec(s *danmv1.NetworkSpec) {
	s.NetworkType = "macvlan"
	s.Options = danmv1.NetworkOptions{HostDevice: "ens4", VLAN: 300, CIDR: "10.0.0.0/24", Net6: "2001:db8::/64", MTU: 1500}
}

// TestNetwork_ChangeWhileInUse_Refused is rule 14 of the user guide and case 105 of DANM's own
// tests. Expressed otherwise: pods are counted in the status, and device_pool, cidr, net6,
// NetworkType and mtu are protected, too.
func TestNetwork_ChangeWhileInUse_Refused(t *testing.T) {
	admin := start(t)
	used, unused := clusterNetwork("in-use", usedSpec), clusterNetwork("not-in-use", usedSpec)
	create(t, admin, used)
	create(t, admin, unused)
	connect(t, used, &used.Status)
	other := danmiov1.ClusterNetwork(*clusterNetwork("in-use", usedSpec))
	create(t, admin, &other)
	connect(t, &other, &other.Status)

	const pods = " while pods are connected to the network (shop/web-0, shop/web-1)"
	var changes []change[*danmv1.ClusterNetwork]
	for _, tt := range []struct {
		name    string
		edit    func(*danmv1.NetworkOptions)
		refused string
	}{
		{"another device", func(o *danmv1.NetworkOptions) { o.HostDevice = "ens5" }, "host_device must not change" + pods},
		{"a pool for a device", func(o *danmv1.NetworkOptions) { o.HostDevice, o.DevicePool = "", "a.b/c" }, "must not change" + pods},
		{"another VLAN", func(o *danmv1.NetworkOptions) { o.VLAN = 301 }, "vlan must not change" + pods},
		{"no VLAN", func(o *danmv1.NetworkOptions) { o.VLAN = 0 }, "vlan must not change" + pods},
		{"a VXLAN for a VLAN", func(o *danmv1.NetworkOptions) { o.VLAN, o.VXLAN = 0, 5 }, "must not change" + pods},
		{"another range", func(o *danmv1.NetworkOptions) { o.CIDR = "10.0.1.0/24" }, "cidr may only grow" + pods},
		{"half of the range", func(o *danmv1.NetworkOptions) { o.CIDR = "10.0.0.0/25" }, "cidr may only grow" + pods},
		{"no range", func(o *danmv1.NetworkOptions) { o.CIDR = "" }, "cidr may only grow" + pods},
		{"twice the range", func(o *danmv1.NetworkOptions) { o.CIDR = "10.0.0.0/23" }, ""},
		{"half of the IPv6 range", func(o *danmv1.NetworkOptions) { o.Net6 = "2001:db8::/65" }, "net6 may only grow" + pods},
		{"a smaller MTU", func(o *danmv1.NetworkOptions) { o.MTU = 1400 }, "mtu may only be raised" + pods},
		{"the device's MTU", func(o *danmv1.NetworkOptions) { o.MTU = 0 }, "mtu may only be raised" + pods},
		{"a larger MTU", func(o *danmv1.NetworkOptions) { o.MTU = 9000 }, ""},
		{"another pool", func(o *danmv1.NetworkOptions) { o.AllocationPool = &danmv1.AllocationPool{Start: "10.0.0.9"} }, ""},
	} {
		edit := func(n *danmv1.ClusterNetwork) { tt.edit(&n.Spec.Options) }
		changes = append(changes,
			change[*danmv1.ClusterNetwork]{name: tt.name, who: clusterAdmin(), object: used, edit: edit, refused: tt.refused, except: byApply},
			change[*danmv1.ClusterNetwork]{name: tt.name + ", unused", who: clusterAdmin(), object: unused, edit: edit, except: byApply})
	}
	changes = append(
		changes,
		change[*danmv1.ClusterNetwork]{
			name:    "another type",
			who:     clusterAdmin(),
			object:  used,
			edit:    func(n *danmv1.ClusterNetwork) { n.Spec.NetworkType = "ipvlan" },
			refused: "NetworkType must not change" + pods,
		},
		change[*danmv1.ClusterNetwork]{
			name:   "the type in capitals",
			who:    clusterAdmin(),
			object: used,
			edit:   func(n *danmv1.ClusterNetwork) { n.Spec.NetworkType = "MACVLAN" },
		},
		change[*danmv1.ClusterNetwork]{name: "another NetworkID", who: clusterAdmin(), object: used, edit: func(n *danmv1.ClusterNetwork) { n.Spec.NetworkID = "x" }},
		change[*danmv1.ClusterNetwork]{
			name:   "a label",
			who:    clusterAdmin(),
			object: used,
			edit:   func(n *danmv1.ClusterNetwork) { n.Labels = map[string]string{"a": "b"} },
		},
	)
	runChanges(t, changes)
	runChanges(t, []change[*danmiov1.ClusterNetwork]{
		{
			name:    "another VLAN, danm.io",
			who:     clusterAdmin(),
			object:  &other,
			edit:    func(n *danmiov1.ClusterNetwork) { n.Spec.Options.VLAN = 301 },
			refused: "vlan must not change" + pods,
		},
	})
}

// TestNetwork_DeletionWhileInUse_Refused is rule 15 of the user guide and the cases 112 and 118 of
// DANM's own tests. The cases 114-117 are expressed otherwise: a claim of a number is freed by the
// operator when the network is gone, so no TenantConfig is needed.
func TestNetwork_DeletionWhileInUse_Refused(t *testing.T) {
	admin := start(t)
	create(t, admin, namespace("delete-nets", nil))
	used, unused := danmNet("delete-nets", "used", usedSpec), danmNet("delete-nets", "unused", usedSpec)
	wide, unreleased := clusterNetwork("delete-used", usedSpec), clusterNetwork("delete-unreleased", usedSpec)
	for _, network := range []client.Object{used, unused, wide, unreleased} {
		create(t, admin, network)
	}
	connect(t, used, &used.Status)
	connect(t, wide, &wide.Status)
	connect(t, unreleased, &unreleased.Status)
	before := unreleased.DeepCopy()
	unreleased.Status.PodNames = nil
	if err := as(t, operator()).Status().Patch(t.Context(), unreleased, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	deletion := func(object client.Object) func(context.Context, client.Client) error {
		return func(ctx context.Context, c client.Client) error { return c.Delete(ctx, object, client.DryRunAll) }
	}
	const refused = "the network must not be deleted while pods are connected to it (shop/web-0, shop/web-1)"
	run(t, []attempt{
		{"a network with pods", clusterAdmin(), deletion(used), refused},
		{"a network without pods", clusterAdmin(), deletion(unused), ""},
		{"a ClusterNetwork with pods", clusterAdmin(), deletion(wide), refused},
		{"a network whose pods are gone, on a node that has not released them", clusterAdmin(), deletion(unreleased), ""},
		{"all networks", clusterAdmin(), func(ctx context.Context, c client.Client) error {
			return c.DeleteAllOf(ctx, &danmv1.DanmNet{}, client.InNamespace("delete-nets"), client.DryRunAll)
		}, refused},
	})
	// No controller removes the contents of a namespace here.
	if err := admin.Delete(t.Context(), namespace("delete-nets", nil)); err != nil {
		t.Fatal(err)
	}
	eventually(t, func(ctx context.Context) error { return deletion(used)(ctx, as(t, clusterAdmin())) })
}

// TestNetworkStatusAndFinalizer_WriterNotOperator_Refused: the owner of a namespace can have all
// rights in it.
func TestNetworkStatusAndFinalizer_WriterNotOperator_Refused(t *testing.T) {
	admin := start(t)
	create(t, admin, namespace("owned-nets", nil))
	owner := person("nets-owner")
	create(t, admin, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "nets-everything"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{"danm.k8s.io"}, Resources: []string{"danmnets", "danmnets/status"}, Verbs: []string{"get", "create", "update", "patch", "delete"}},
	}})
	grantIn(t, admin, "owned-nets", owner, "nets-everything")
	held := danmNet("owned-nets", "held", usedSpec)
	held.Finalizers = []string{"alioth.dev/in-use", "example.com/other"}
	establish(t, admin, held)
	const status, finalizer = "only the Alioth operator writes the status", "only the Alioth operator removes the finalizer"
	pods := func(n *danmv1.DanmNet) { n.Status.Pods = 1 }
	free := func(n *danmv1.DanmNet) { n.Finalizers = []string{"example.com/other"} }
	runChanges(t, []change[*danmv1.DanmNet]{
		{name: "the status", who: owner, object: held, through: "status", edit: pods, refused: status},
		{name: "the status, by an administrator", who: clusterAdmin(), object: held, through: "status", edit: pods, refused: status},
		{name: "the status, by the operator", who: operator(), object: held, through: "status", edit: pods, except: byUpdate},
		{name: "the status, by a daemon", who: daemonOn("node-a"), object: held, through: "status", edit: pods, refused: "cannot"},
		{name: "the finalizer", who: owner, object: held, edit: free, refused: finalizer},
		{name: "another finalizer", who: owner, object: held, edit: func(n *danmv1.DanmNet) { n.Finalizers = []string{"alioth.dev/in-use"} }},
		{name: "the finalizer, by the operator", who: operator(), object: held, edit: free, except: byUpdate},
	})
}

// TestVPCNetworkStatus_WriterNotOperator_Refused: the operator repeats reasons and messages of a
// Network's conditions in events and metrics.
func TestVPCNetworkStatus_WriterNotOperator_Refused(t *testing.T) {
	admin := start(t)
	create(t, admin, namespace("owned-vpc-nets", nil))
	owner := person("vpc-nets-owner")
	create(t, admin, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "vpc-nets-everything"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{"arktos.futurewei.com"}, Resources: []string{"*"}, Verbs: []string{"*"}},
	}})
	grantIn(t, admin, "owned-vpc-nets", owner, "vpc-nets-everything")
	held := &arktosv1.Network{
		ObjectMeta: metav1.ObjectMeta{Namespace: "owned-vpc-nets", Name: "held", Finalizers: []string{"alioth.dev/in-use", "example.com/other"}},
		Spec:       arktosv1.NetworkSpec{Type: "mizar", VPCID: "blue"},
	}
	establish(t, admin, held)
	forge := func(n *arktosv1.Network) {
		n.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: "False", Reason: "Forged", LastTransitionTime: metav1.Now()}}
	}
	const status, finalizer = "only the Alioth operator writes the status", "only the Alioth operator removes the finalizer"
	runChanges(t, []change[*arktosv1.Network]{
		{name: "the status", who: owner, object: held, through: "status", edit: forge, refused: status},
		{name: "the finalizer", who: owner, object: held, edit: func(n *arktosv1.Network) { n.Finalizers = []string{"example.com/other"} }, refused: finalizer},
		{name: "another finalizer", who: owner, object: held, edit: func(n *arktosv1.Network) { n.Finalizers = []string{"alioth.dev/in-use"} }},
	})
}

// TestDanmNet_TenantWithoutGrant_Refused: a DanmNet names devices and VLANs of the nodes.
func TestDanmNet_TenantWithoutGrant_Refused(t *testing.T) {
	admin := start(t)
	create(t, admin, namespace("nets-plain", nil))
	create(t, admin, namespace("nets-blue", tenant("net-blue")))
	editor, granted := person("nets-editor"), person("nets-granted")
	for _, who := range []user{editor, granted} {
		grantIn(t, admin, "nets-plain", who, "alioth-danmnet-editor")
		grantIn(t, admin, "nets-blue", who, "alioth-danmnet-editor")
	}
	grantRules(t, admin, granted, "nets-use-blue", rbacv1.PolicyRule{
		APIGroups: []string{"alioth.dev"}, Resources: []string{"danmnets"}, ResourceNames: []string{"net-blue"}, Verbs: []string{"use"},
	})
	kept := danmNet("nets-blue", "kept", usedSpec)
	create(t, admin, kept)
	other := danmiov1.DanmNet(*danmNet("nets-blue", "other", usedSpec))
	const refused = `may not write DanmNets for the tenant "net-blue": that needs the verb "use" on danmnets.alioth.dev "net-blue"`
	run(t, slices.Concat(
		creations(t, "in a namespace without a label", editor, danmNet("nets-plain", "n", usedSpec), ""),
		creations(t, "in a tenant's namespace", editor, danmNet("nets-blue", "n", usedSpec), refused),
		creations(t, "in a tenant's namespace, danm.io", editor, &other, refused),
		creations(t, "with the right", granted, danmNet("nets-blue", "n", usedSpec), ""),
	))
	vlan := func(n *danmv1.DanmNet) { n.Spec.Options.VLAN = 301 }
	runChanges(t, []change[*danmv1.DanmNet]{
		{name: "a change", who: editor, object: kept, edit: vlan, refused: refused},
		{name: "a change with the right", who: granted, object: kept, edit: vlan, except: byApply},
		{name: "a label", who: editor, object: kept, edit: func(n *danmv1.DanmNet) { n.Labels = map[string]string{"a": "b"} }, except: byApply},
	})
	danmNetMetadata(t, editor, granted, refused)
}

// danmNetMetadata: annotations of alioth.dev are settings of devices, and an object is deleted
// with its owner.
func danmNetMetadata(t *testing.T, editor, granted user, refused string) {
	t.Helper()
	settings := danmNet("nets-blue", "settings", usedSpec)
	settings.Annotations = map[string]string{annotations.VFKey: `{"spoofchk": "on"}`, "note": "x"}
	establish(t, start(t), settings)
	note := func(key, value string) func(*danmv1.DanmNet) {
		return func(n *danmv1.DanmNet) { metav1.SetMetaDataAnnotation(&n.ObjectMeta, key, value) }
	}
	removed := func(n *danmv1.DanmNet) { delete(n.Annotations, annotations.VFKey) }
	orphan := func(n *danmv1.DanmNet) {
		n.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "gone", UID: "gone"}}
	}
	spoofing := note(annotations.VFKey, `{"spoofchk": "off"}`)
	runChanges(t, []change[*danmv1.DanmNet]{
		{name: "the settings of a device", who: editor, object: settings, edit: spoofing, refused: refused},
		{name: "a new setting", who: editor, object: settings, edit: note(annotations.ModeKey, annotations.ModePassthru), refused: refused},
		{name: "a setting less", who: editor, object: settings, edit: removed, refused: refused},
		{name: "an owner that is gone", who: editor, object: settings, edit: orphan, refused: refused},
		{name: "another annotation", who: editor, object: settings, edit: note("note", "y"), except: byApply},
		{name: "the settings, with the right", who: granted, object: settings, edit: spoofing, except: byApply},
	})
	collector := user{name: "system:serviceaccount:kube-system:generic-garbage-collector"}
	run(t, []attempt{
		{"its deletion", editor, deleting(settings), refused},
		{"its deletion, with the right", granted, deleting(settings), ""},
		{"its deletion by the garbage collector", collector, deleting(settings), ""},
		{"the deletion of all", editor, func(ctx context.Context, c client.Client) error {
			return c.DeleteAllOf(ctx, &danmv1.DanmNet{}, client.InNamespace("nets-blue"), client.DryRunAll)
		}, refused},
	})
}
