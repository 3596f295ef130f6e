// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package reflector

import (
	"encoding/json"
	"log/slog"
	"reflect"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	acnv1alpha1 "github.com/alioth-net/alioth/api/acn/v1alpha1"
	arktosv1 "github.com/alioth-net/alioth/api/arktos/v1"
	danmv1 "github.com/alioth-net/alioth/api/danm/v1"
	danmiov1 "github.com/alioth-net/alioth/api/danmio/v1"
	multitenancyv1alpha1 "github.com/alioth-net/alioth/api/multitenancy/v1alpha1"
	nmstatev1 "github.com/alioth-net/alioth/api/nmstate/v1"
	nmstatev1beta1 "github.com/alioth-net/alioth/api/nmstate/v1beta1"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/client/descriptor"
	"github.com/alioth-net/alioth/store/client/kube"
	"github.com/alioth-net/alioth/store/kinds"
)

func newSet(t *testing.T) *Set {
	t.Helper()
	s, err := store.New()
	if err != nil {
		t.Fatal(err)
	}
	return NewSet(s, nil, slog.New(slog.DiscardHandler))
}

// feed is a source that the test feeds with events of an API server.
type feed struct{ src *Source }

func (f feed) event(kind watch.EventType, obj kube.Object) error {
	raw, err := json.Marshal(obj)
	if err != nil {
		return err
	}
	return f.src.take(metav1.WatchEvent{Type: string(kind), Object: runtime.RawExtension{Raw: raw}})
}

func (f feed) Add(obj kube.Object) error    { return f.event(watch.Added, obj) }
func (f feed) Update(obj kube.Object) error { return f.event(watch.Modified, obj) }
func (f feed) Delete(obj kube.Object) error { return f.event(watch.Deleted, obj) }

func (f feed) Replace(list []kube.Object, version string) error {
	all := []entry{}
	for _, obj := range list {
		raw, err := json.Marshal(obj)
		if err != nil {
			return err
		}
		all = append(all, f.src.entry(raw))
	}
	f.src.replace(all, version)
	return nil
}

// fed returns a source of the object's kind that the test feeds by hand.
func fed(t *testing.T, set *Set, obj kube.Object) feed {
	t.Helper()
	src := newSource(set, scopeOf(t, obj))
	src.cancel = func() {}
	close(src.done)
	return feed{src}
}

// scopeOf returns the scope of the object's kind that a node follows, or else the whole kind.
func scopeOf(t *testing.T, obj kube.Object) descriptor.Scope {
	t.Helper()
	for _, kind := range kinds.All() {
		if reflect.TypeOf(kind.Object) != reflect.TypeOf(obj) {
			continue
		}
		if kind.OnNode == nil { // the objects of every VPC together
			return descriptor.Scope{Kind: kind}
		}
		return kind.OnNode("node-1")
	}
	t.Fatalf("no kind of %T", obj)
	return descriptor.Scope{}
}

func objectMeta(name, uid string, version int) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, UID: types.UID(uid), ResourceVersion: strconv.Itoa(version)}
}

func addressObject(ip, uid string, version int) *v1alpha1.Address {
	return &v1alpha1.Address{
		ObjectMeta: objectMeta("blue."+ip, uid, version),
		Spec:       v1alpha1.AddressSpec{VPC: "blue", Subnet: "net1", IP: ip, Set: []string{ip}},
	}
}

// vpcObject makes a VPC that has VNI 7.
func vpcObject(name, uid string) *v1alpha1.VPC {
	return &v1alpha1.VPC{ObjectMeta: objectMeta(name, uid, 1), Status: v1alpha1.VPCStatus{VNI: 7}}
}

func addressNames(set *Set) []string {
	var names []string
	set.store.View(func(tx store.ReadTx) {
		for row := range store.AllAddresses(tx) {
			names = append(names, row.Name+" "+row.UID)
		}
	})
	return names
}

func wantAddresses(t *testing.T, set *Set, want ...string) {
	t.Helper()
	slices.Sort(want)
	if diff := cmp.Diff(want, addressNames(set)); diff != "" {
		t.Errorf("addresses in the store (-want +got):\n%s", diff)
	}
}

// must fails the test where the source refuses a valid response of the API server.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestReplace_ObjectNotInList_Removed(t *testing.T) {
	set := newSet(t)
	source := fed(t, set, &v1alpha1.Address{})
	if source.src.HasSynced() {
		t.Error("a source without a list claims to be synced")
	}
	must(t, source.Replace([]kube.Object{addressObject("10.0.0.1", "a", 1), addressObject("10.0.0.2", "b", 1)}, "1"))
	if !source.src.HasSynced() {
		t.Error("a source with a list isn't synced")
	}
	wantAddresses(t, set, "blue.10.0.0.1 a", "blue.10.0.0.2 b")

	must(t, source.Replace([]kube.Object{addressObject("10.0.0.2", "b2", 5), addressObject("10.0.0.3", "c", 4)}, "5"))
	wantAddresses(t, set, "blue.10.0.0.2 b2", "blue.10.0.0.3 c")
}

func TestReplace_ListOfRestoredBackup_Counts(t *testing.T) {
	set := newSet(t)
	source := fed(t, set, &v1alpha1.Address{})
	onNode := func(node string, version int) *v1alpha1.Address {
		obj := addressObject("10.0.0.1", "a", version)
		obj.Spec.Node = node
		return obj
	}
	node := func() (name string) {
		set.store.View(func(tx store.ReadTx) { name = store.ListAddresses(tx)[0].Node })
		return name
	}
	must(t, source.Replace([]kube.Object{onNode("before", 90)}, "100"))
	must(t, source.Replace([]kube.Object{onNode("late", 80)}, "110"))
	if got := node(); got != "before" {
		t.Errorf("an object older than its row counts: node is %s", got)
	}
	must(t, source.Replace([]kube.Object{onNode("restored", 80)}, "85"))
	if got := node(); got != "restored" {
		t.Errorf("after the API went back in time the row says %s, want restored", got)
	}
}

func TestReplace_SeveralRows_OneRevision(t *testing.T) {
	set := newSet(t)
	source := fed(t, set, &v1alpha1.Address{})
	must(t, source.Replace([]kube.Object{addressObject("10.0.0.1", "a", 1), addressObject("10.0.0.2", "b", 1)}, "1"))
	set.store.View(func(tx store.ReadTx) {
		if got := tx.Revision(); got != 1 {
			t.Errorf("revision is %d after one list, want 1", got)
		}
	})
}

func TestSet_OneSourceStillCovers_RowStays(t *testing.T) {
	set := newSet(t)
	ofVPC, onNode := fed(t, set, &v1alpha1.Address{}), fed(t, set, &v1alpha1.Address{})
	shared, remote := addressObject("10.0.0.1", "a", 1), addressObject("10.0.0.2", "b", 1)
	must(t, ofVPC.Replace([]kube.Object{shared, remote}, "1"))
	must(t, onNode.Replace([]kube.Object{shared}, "1"))

	ofVPC.src.Stop()
	wantAddresses(t, set, "blue.10.0.0.1 a")
	must(t, onNode.Delete(shared))
	wantAddresses(t, set)
}

func TestSource_Lags_SuccessorKept(t *testing.T) {
	set := newSet(t)
	fast, slow := fed(t, set, &v1alpha1.Address{}), fed(t, set, &v1alpha1.Address{})
	first, second := addressObject("10.0.0.1", "a", 1), addressObject("10.0.0.1", "b", 3)
	must(t, fast.Add(first))
	must(t, slow.Add(first))
	must(t, fast.Delete(first))
	must(t, fast.Add(second))
	must(t, slow.Delete(first))
	wantAddresses(t, set, "blue.10.0.0.1 b")
	must(t, slow.Add(second))
	must(t, slow.Delete(second))
	must(t, fast.Delete(second))
	wantAddresses(t, set)
}

func TestSet_ObjectUnreadable_RowUnchanged(t *testing.T) {
	set := newSet(t)
	source := fed(t, set, &v1alpha1.Address{})
	must(t, source.Add(addressObject("10.0.0.1", "a", 1)))
	broken := addressObject("10.0.0.1", "a", 2)
	broken.Spec.IP = "10.0.0"
	must(t, source.Update(broken))
	wantAddresses(t, set, "blue.10.0.0.1 a")
}

func TestSet_RowConflicts_PutOnceOtherGone(t *testing.T) {
	set := newSet(t)
	old, next := fed(t, set, &v1alpha1.VPC{}), fed(t, set, &v1alpha1.VPC{})
	must(t, old.Add(vpcObject("old", "a")))
	must(t, next.Add(vpcObject("next", "b")))
	vpcOf := func() (name string) {
		set.store.View(func(tx store.ReadTx) { name = store.VPCByVNI(tx, 7).Name })
		return name
	}
	if got := vpcOf(); got != "old" {
		t.Errorf("VNI 7 belongs to %s while the first VPC is there, want old", got)
	}
	must(t, old.Delete(vpcObject("old", "a")))
	if got := vpcOf(); got != "next" {
		t.Errorf("VNI 7 belongs to %s after the first VPC is gone, want next", got)
	}
	if len(set.refused) != 0 {
		t.Errorf("%d writes are still kept as refused", len(set.refused))
	}
}

func TestSet_HostNetworkPod_OwnKindOfRow(t *testing.T) {
	set := newSet(t)
	source := fed(t, set, &corev1.Pod{})
	pod := &corev1.Pod{ObjectMeta: objectMeta("agent", "a", 1), Spec: corev1.PodSpec{HostNetwork: true, NodeName: "node-1"}}
	must(t, source.Replace([]kube.Object{pod}, "1"))
	rows := func(want bool) {
		t.Helper()
		set.store.View(func(tx store.ReadTx) {
			pods, onHost := slices.Collect(store.AllPods(tx)), store.GetHostPod(tx, string(pod.UID))
			if len(pods) != 0 || (onHost != nil) != want || want && onHost.Node != "node-1" {
				t.Errorf("rows %+v and %+v, want one on the node's network: %v", pods, onHost, want)
			}
		})
	}
	rows(true)
	must(t, source.Delete(pod))
	rows(false)
}

func TestSet_NamespaceBeforeOrAfter_TenantFollows(t *testing.T) {
	namespace := &corev1.Namespace{ObjectMeta: objectMeta("shop", "n", 1)}
	namespace.Labels = map[string]string{v1alpha1.TenantLabel: "customer-a"}
	pod := &corev1.Pod{ObjectMeta: objectMeta("web", "p", 1)}
	pod.Namespace = "shop"
	for name, first := range map[string]kube.Object{"namespace first": namespace, "pod first": pod} {
		t.Run(name, func(t *testing.T) {
			set := newSet(t)
			must(t, fed(t, set, first).Add(first))
			for _, obj := range []kube.Object{namespace, pod} {
				must(t, fed(t, set, obj).Add(obj))
			}
			set.store.View(func(tx store.ReadTx) {
				if rows := store.PodsByNetwork(tx, "customer-a", ""); len(rows) != 1 {
					t.Errorf("the tenant has %d pods, want 1", len(rows))
				}
			})
		})
	}
}

func TestSet_EachKind_PutAndRemoved(t *testing.T) {
	known := len(kinds.All())
	objects := sampleObjects()
	for _, obj := range objects {
		set := newSet(t)
		source := fed(t, set, obj)
		must(t, source.Add(obj))
		if !hasRow(set, source, obj) {
			t.Errorf("%T: no row after it was added", obj)
		}
		must(t, source.Delete(obj))
		if hasRow(set, source, obj) {
			t.Errorf("%T: a row after it was deleted", obj)
		}
	}
	if len(objects) != known {
		t.Errorf("%d objects for %d kinds", len(objects), known)
	}
}

func hasRow(set *Set, source feed, obj kube.Object) (has bool) {
	set.store.View(func(tx store.ReadTx) { has = source.src.scope.Kind.Get(tx, descriptor.IDOf(obj)) != nil })
	return has
}

func sampleObjects() []kube.Object {
	return []kube.Object{
		vpcObject("blue", "a"),
		&v1alpha1.Subnet{ObjectMeta: objectMeta("net1", "a", 1)},
		&v1alpha1.Usage{ObjectMeta: objectMeta("subnet.net1", "a", 1)},
		addressObject("10.0.0.1", "a", 1),
		&v1alpha1.AttachmentClaim{ObjectMeta: objectMeta("p1.net1", "a", 1)},
		&v1alpha1.VNIClaim{ObjectMeta: objectMeta("vni-7", "a", 1), Spec: v1alpha1.VNIClaimSpec{VNI: 7}},
		&v1alpha1.PolicyIdentity{ObjectMeta: objectMeta("blue.256", "a", 1)},
		&v1alpha1.RollCall{ObjectMeta: objectMeta("node.node-1", "a", 1)},
		&v1alpha1.SharedService{ObjectMeta: objectMeta("dns", "a", 1)},
		&v1alpha1.ExternalPool{ObjectMeta: objectMeta("edge", "a", 1)},
		&v1alpha1.ExternalAddress{ObjectMeta: objectMeta("2001-db8--0", "a", 1), Spec: v1alpha1.ExternalAddressSpec{IP: "2001:db8::"}},
		&v1alpha1.HostAccess{ObjectMeta: objectMeta("ingress", "a", 1)}, &v1alpha1.ScaledEndpoint{ObjectMeta: objectMeta("shop.web.0.0", "a", 1)},
		&v1alpha1.HostLink{ObjectMeta: objectMeta("vxlan-7.ens4", "a", 1), Spec: v1alpha1.HostLinkSpec{Device: "ens4", Type: "vxlan", VNI: 7}},
		&v1alpha1.DomainClaim{ObjectMeta: objectMeta("domain-16777216", "a", 1), Spec: v1alpha1.DomainClaimSpec{Number: 16777216}},
		&v1alpha1.RoleMember{ObjectMeta: objectMeta("s.0", "a", 1)}, &v1alpha1.NodeRoles{ObjectMeta: objectMeta("node-1", "a", 1)},
		&v1alpha1.HostLinkReport{ObjectMeta: objectMeta("node-1", "a", 1)},
		&arktosv1.Network{ObjectMeta: objectMeta("default", "a", 1)},
		&corev1.Namespace{ObjectMeta: objectMeta("shop", "a", 1)},
		&corev1.Node{ObjectMeta: objectMeta("node-1", "a", 1)},
		&corev1.Pod{ObjectMeta: objectMeta("web", "a", 1)},
		&networkingv1.ServiceCIDR{ObjectMeta: objectMeta("more", "a", 1), Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{"10.97.0.0/16", "fd97::/112"}}},
		&corev1.Service{ObjectMeta: objectMeta("web", "a", 1)},
		&discoveryv1.EndpointSlice{ObjectMeta: objectMeta("web-x", "a", 1)},
		&v1alpha1.HostVNIClaim{ObjectMeta: objectMeta("vlan-7.ens4", "a", 1)},
		&v1alpha1.DelegationGrant{ObjectMeta: objectMeta("grant", "a", 1)}, &nadv1.NetworkAttachmentDefinition{ObjectMeta: objectMeta("net", "a", 1)},
		&danmv1.DanmNet{ObjectMeta: objectMeta("net", "a", 1)}, &danmiov1.DanmNet{ObjectMeta: objectMeta("net", "a", 1)},
		&danmv1.TenantNetwork{ObjectMeta: objectMeta("net", "a", 1)}, &danmiov1.TenantNetwork{ObjectMeta: objectMeta("net", "a", 1)},
		&danmv1.ClusterNetwork{ObjectMeta: objectMeta("net", "a", 1)}, &danmiov1.ClusterNetwork{ObjectMeta: objectMeta("net", "a", 1)},
		&danmv1.TenantConfig{ObjectMeta: objectMeta("tenants", "a", 1)}, &danmiov1.TenantConfig{ObjectMeta: objectMeta("tenants", "a", 1)},
		&nmstatev1.NodeNetConfPolicy{ObjectMeta: objectMeta("p", "a", 1)}, &nmstatev1.NodeNetworkConfigurationPolicy{ObjectMeta: objectMeta("p", "a", 1)},
		&nmstatev1beta1.NodeNetworkState{ObjectMeta: objectMeta("node-1", "a", 1)},
		&nmstatev1beta1.NodeNetworkConfigurationEnactment{
			ObjectMeta: objectMeta("node-1.p", "a", 1),
			Status: nmstatev1beta1.NodeNetworkConfigurationEnactmentStatus{
				Policy: &nmstatev1beta1.PolicyReference{Kind: nmstatev1.NodeNetworkConfigurationPolicyKind, Name: "p"},
			},
		},
		&multitenancyv1alpha1.PodNetwork{ObjectMeta: objectMeta("pn", "a", 1)}, &acnv1alpha1.PodNetwork{ObjectMeta: objectMeta("pn", "a", 1)},
		&multitenancyv1alpha1.PodNetworkInstance{ObjectMeta: objectMeta("pni", "a", 1)}, &acnv1alpha1.PodNetworkInstance{ObjectMeta: objectMeta("pni", "a", 1)},
		&multitenancyv1alpha1.MultitenantPodNetworkConfig{ObjectMeta: objectMeta("web", "a", 1)},
		&acnv1alpha1.MultiTenantPodNetworkConfig{ObjectMeta: objectMeta("web", "a", 1)},
		&multitenancyv1alpha1.NodeInfo{ObjectMeta: objectMeta("node-1", "a", 1)}, &acnv1alpha1.NodeInfo{ObjectMeta: objectMeta("node-1", "a", 1)},
	}
}
