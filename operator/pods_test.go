// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/annotations"
	arktosv1 "github.com/alioth-net/alioth/api/arktos/v1"
	"github.com/alioth-net/alioth/api/netif"
	"github.com/alioth-net/alioth/api/v1alpha1"
)

func TestPod_DualStackNetwork_GetsBothAddresses(t *testing.T) {
	r := start(t)
	r.create(
		newNamespace("told-a", "told"),
		newVPC("told", []string{"told"}, "10.10.0.0/16", "fd10:10::/48"),
		newSubnet("told-net1", "told", "net1", "10.10.1.0/24", "fd10:10:0:1::/64"),
		newNetwork("told-a", "vpc-1", "told"),
	)
	pod := r.schedule(newPod("told-a", "web", "vpc-1", `{"name": "net0", "ip": "10.10.1.12", "subnet": "net1"}`), "node-1")
	sees(r, pod, hasReason(v1alpha1.AttachedReason))

	if got := pod.Annotations[arktosv1.ReadinessAnnotation]; got != "true" {
		t.Errorf("readiness is %q, want true", got)
	}
	if got, want := pod.Annotations[arktosv1.UserInputAnnotation], `{"vpc": "told", "net": "net1", "ip": "10.10.1.12"}`; got != want {
		t.Errorf("user input is %s, want %s", got, want)
	}
	list, err := annotations.ParseAttachments(pod.Annotations[v1alpha1.AttachmentsAnnotation])
	if err != nil || len(list) != 1 {
		t.Fatalf("attachments %v, error %v, want one", list, err)
	}
	want := netif.Interface{
		Name: "eth0", AltName: "net0", Kind: "veth", Network: "told-a/vpc-1", VPC: "told", Subnet: "told-net1",
		Gateways: []netip.Addr{netip.MustParseAddr("10.10.1.1"), netip.MustParseAddr("fd10:10:0:1::1")},
	}
	if diff := cmp.Diff(want, list[0], cmpopts.IgnoreFields(netif.Interface{}, "Addresses", "MAC"),
		cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
		t.Errorf("attachment (-want +got):\n%s", diff)
	}
	if len(list[0].Addresses) != 2 || list[0].Addresses[0] != netip.MustParsePrefix("10.10.1.12/24") || list[0].Addresses[1].Bits() != 64 {
		t.Errorf("addresses are %v, want 10.10.1.12/24 and one of fd10:10:0:1::/64", list[0].Addresses)
	}
	held := r.held(string(pod.UID))
	if len(held) != 2 {
		t.Fatalf("the pod holds %d addresses, want 2", len(held))
	}
	for _, address := range held {
		if len(address.Spec.Set) != 2 || address.Spec.Node != "node-1" || address.Spec.MAC != list[0].MAC {
			t.Errorf("address %s has set %v, node %s, MAC %s", address.Name, address.Spec.Set, address.Spec.Node, address.Spec.MAC)
		}
	}
}

// network makes a tenant with a Network "n" in a namespace, all with one name, on a VPC of that
// name. The VPC has a dual-stack subnet "net1" and an IPv4 subnet "net2".
func (r *rig) network(name string) {
	r.t.Helper()
	r.create(newNamespace(name, name), newVPC(name, []string{name}, "10.10.0.0/16", "fd10:10::/48"))
	first := newSubnet(name+"-net1", name, "net1", "10.10.1.0/24", "fd10:10:0:1::/64")
	first.Spec.Reserved = []string{"10.10.1.2-10.10.1.9"}
	r.create(first)
	sees(r, first, subnetReady(v1alpha1.ReadyReason))
	// The order of subnets is the order of their creation times, which the API keeps in seconds.
	r.eventually(func() error {
		if !time.Now().After(first.CreationTimestamp.Add(time.Second)) {
			return errors.New("the second of the first subnet is not over")
		}
		return nil
	})
	second := newSubnet(name+"-net2", name, "net2", "10.10.2.0/29")
	net := newNetwork(name, "n", name)
	r.create(second, net)
	sees(r, second, subnetReady(v1alpha1.ReadyReason))
	sees(r, net, networkReady(v1alpha1.ReadyReason))
}

func TestNICAnnotation_Requests_Served(t *testing.T) {
	r := start(t)
	r.network("nic")
	for i, tc := range []struct {
		name, label, nic string
		reason           string
		want             string // a prefix that contains the pod's IPv4
		families         int
	}{
		{name: "nothing", label: "n", want: "10.10.1.0/24", families: 2},
		{name: "only a name", label: "n", nic: `{"name": "eth0"}`, want: "10.10.1.0/24", families: 2},
		{name: "a subnet", label: "n", nic: `{"subnet": "net2"}`, want: "10.10.2.0/29", families: 1},
		{name: "a subnet by its object's name", label: "n", nic: `{"subnet": "nic-net2"}`, want: "10.10.2.0/29", families: 1},
		{name: "an IP", label: "n", nic: `{"ip": "10.10.1.50"}`, want: "10.10.1.50/32", families: 2},
		{name: "an IP per family", label: "n", nic: `{"ip": "10.10.1.51, fd10:10:0:1::51"}`, want: "10.10.1.51/32", families: 2},
		{name: "both", label: "n", nic: `{"ip": "10.10.2.5", "subnet": "net2"}`, want: "10.10.2.5/32", families: 1},
		{name: "an IP of another subnet", label: "n", nic: `{"ip": "10.10.1.52", "subnet": "net2"}`, reason: v1alpha1.IPOutsideSubnetReason},
		{name: "no such subnet", label: "n", nic: `{"subnet": "net9"}`, reason: v1alpha1.SubnetNotFoundReason},
		{name: "an IP outside", label: "n", nic: `{"ip": "10.99.0.1"}`, reason: v1alpha1.IPOutsideVPCReason},
		{name: "the gateway", label: "n", nic: `{"ip": "10.10.1.1"}`, reason: v1alpha1.IPReservedReason},
		{name: "a reserved IP", label: "n", nic: `{"ip": "10.10.1.5"}`, reason: v1alpha1.IPReservedReason},
		{name: "the broadcast address", label: "n", nic: `{"ip": "10.10.1.255"}`, reason: v1alpha1.IPReservedReason},
		{name: "an IP that a living pod has", label: "n", nic: `{"ip": "10.10.1.50"}`, reason: v1alpha1.IPInUseReason},
		{name: "malformed", label: "n", nic: `{name: eth0}`, reason: v1alpha1.NICInvalidReason},
		{name: "an unknown key", label: "n", nic: `{"ipv4": "10.10.1.60"}`, reason: v1alpha1.NICInvalidReason},
		{name: "no such Network", label: "nowhere", reason: v1alpha1.NetworkNotFoundReason},
		{name: "no default network", reason: v1alpha1.NoDefaultNetworkReason},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := r.within(t)
			pod := r.schedule(newPod("nic", fmt.Sprintf("p%d", i), tc.label, tc.nic), "node-1")
			if tc.reason != "" {
				sees(r, pod, hasReason(tc.reason))
				r.warned(pod, tc.reason)
				if held := r.held(string(pod.UID)); len(held) > 0 {
					t.Errorf("a refused pod holds %v", held)
				}
				return
			}
			sees(r, pod, hasReason(v1alpha1.AttachedReason))
			held := r.held(string(pod.UID))
			if len(held) != tc.families || !netip.MustParsePrefix(tc.want).Contains(netip.MustParseAddr(held[0].Spec.IP)) {
				t.Errorf("got %v, want %d with one of %s", held, tc.families, tc.want)
			}
		})
	}
}

// within returns the rig for a subtest.
func (r *rig) within(t *testing.T) *rig {
	t.Helper()
	inner := *r
	inner.t = t
	return &inner
}

// warned waits for a Warning event of a pod or Service.
func (r *rig) warned(object client.Object, reason string) {
	r.t.Helper()
	r.eventually(func() error {
		var list corev1.EventList
		if err := r.List(r.t.Context(), &list, client.InNamespace(object.GetNamespace())); err != nil {
			return err
		}
		for _, event := range list.Items {
			if event.InvolvedObject.UID == object.GetUID() && event.Reason == reason && event.Type == corev1.EventTypeWarning {
				return nil
			}
		}
		return fmt.Errorf("no Warning %s for %T %s", reason, object, object.GetName())
	})
}

func TestRefusedPod_CauseGone_Served(t *testing.T) {
	r := start(t)
	r.create(newNamespace("healpod", "healpod"))
	pod := r.schedule(newPod("healpod", "p", "n", `{"subnet": "net2"}`), "node-1")
	sees(r, pod, hasReason(v1alpha1.NetworkNotFoundReason))
	net := newNetwork("healpod", "n", "healpod")
	r.create(net)
	sees(r, pod, hasReason(v1alpha1.NetworkNotReadyReason))
	r.create(newVPC("healpod", []string{"healpod"}, "10.10.0.0/16"))
	r.create(newSubnet("healpod-1", "healpod", "net1", "10.10.1.0/24"))
	sees(r, pod, hasReason(v1alpha1.SubnetNotFoundReason))
	r.create(newSubnet("healpod-2", "healpod", "net2", "10.10.2.0/24"))
	sees(r, pod, hasReason(v1alpha1.AttachedReason))
}

func TestPod_IPOfEndingPod_Waits(t *testing.T) {
	r := start(t)
	r.network("fixed")
	first := r.schedule(newPod("fixed", "first", "n", `{"ip": "10.10.1.20"}`), "node-1")
	sees(r, first, hasReason(v1alpha1.AttachedReason))
	second := r.schedule(newPod("fixed", "second", "n", `{"ip": "10.10.1.20"}`), "node-1")
	sees(r, second, hasReason(v1alpha1.IPInUseReason))
	r.delete(first)
	sees(r, second, hasReason(v1alpha1.IPReleasingReason))
	for _, address := range r.held(string(first.UID)) {
		r.delete(&address) // as the node's daemon does
	}
	sees(r, second, hasReason(v1alpha1.AttachedReason))
}

func TestPods_SubnetFull_WaitForRoom(t *testing.T) {
	r := start(t)
	r.network("full")
	nic := `{"subnet": "net2"}` // 5 addresses
	var pods []*corev1.Pod
	for i := range 5 {
		pods = append(pods, r.schedule(newPod("full", fmt.Sprintf("p%d", i), "n", nic), "node-1"))
	}
	for _, pod := range pods {
		sees(r, pod, hasReason(v1alpha1.AttachedReason))
	}
	late := r.schedule(newPod("full", "late", "n", nic), "node-1")
	sees(r, late, hasReason(v1alpha1.SubnetExhaustedReason))
	r.delete(pods[2])
	for _, address := range r.held(string(pods[2].UID)) {
		r.delete(&address)
	}
	sees(r, late, hasReason(v1alpha1.AttachedReason))
}

func TestPodAnnotations_Forged_Overwritten(t *testing.T) {
	r := start(t)
	r.network("forged")
	for _, tc := range []struct{ name, label, reason string }{
		{"served", "n", v1alpha1.AttachedReason},
		{"refused", "nowhere", v1alpha1.NetworkNotFoundReason},
	} {
		pod := newPod("forged", tc.name, tc.label, "")
		forged := `[{"name":"eth0","kind":"veth","vpc":"other","subnet":"other","addresses":["10.10.1.77/24"],"mac":"02:00:0a:0a:01:4d"}]`
		pod.Annotations = map[string]string{
			v1alpha1.AttachmentsAnnotation: forged,
			arktosv1.ReadinessAnnotation:   "true",
			arktosv1.UserInputAnnotation:   `{"vpc": "other", "net": "other", "ip": "10.10.1.77"}`,
		}
		r.schedule(pod, "node-1")
		sees(r, pod, hasReason(tc.reason))
		if tc.reason == v1alpha1.AttachedReason {
			list, err := annotations.ParseAttachments(pod.Annotations[v1alpha1.AttachmentsAnnotation])
			if err != nil || list[0].VPC != "forged" {
				t.Errorf("attachments %v, %v", list, err)
			}
			continue
		}
		for _, name := range []string{v1alpha1.AttachmentsAnnotation, arktosv1.ReadinessAnnotation, arktosv1.UserInputAnnotation} {
			if text, ok := pod.Annotations[name]; ok {
				t.Errorf("a refused pod still has %s: %s", name, text)
			}
		}
	}
}

func TestOperator_PredecessorDiedMidway_Finishes(t *testing.T) {
	r := newRig(t)
	stop := r.operate(testConfig())
	r.network("crash")
	stop()
	half := r.schedule(newPod("crash", "half", "n", ""), "node-1")
	blocked := r.schedule(newPod("crash", "blocked", "n", ""), "node-1")
	somebody := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "somebody", UID: "somebody"}}
	address := func(ip, other string, pod *corev1.Pod) *v1alpha1.Address {
		return &v1alpha1.Address{
			ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.AddressName("crash", netip.MustParseAddr(ip))},
			Spec: v1alpha1.AddressSpec{
				VPC: "crash", Subnet: "crash-net1", IP: ip, MAC: "02:00:0a:0a:01:1e", Node: "node-1", Attachment: "eth0",
				Holder: v1alpha1.AddressHolder{Kind: v1alpha1.HolderPod, Namespace: "crash", Name: pod.Name, UID: string(pod.UID)},
				Set:    []string{ip, other},
			},
		}
	}
	// One operator ended after the first address of a set, and so did another one. A third pod got
	// the second address meanwhile.
	r.create(address("10.10.1.30", "fd10:10:0:1::30", half),
		address("10.10.1.31", "fd10:10:0:1::31", blocked),
		address("fd10:10:0:1::31", "10.10.1.99", somebody))
	r.operate(testConfig())
	sees(r, half, hasReason(v1alpha1.AttachedReason))
	if got := r.held(string(half.UID)); len(got) != 2 || got[0].Spec.IP != "10.10.1.30" || got[1].Spec.IP != "fd10:10:0:1::30" {
		t.Errorf("the half-made set became %v", got)
	}
	sees(r, blocked, hasReason(v1alpha1.AttachedReason))
	got := r.held(string(blocked.UID))
	if len(got) != 2 || got[0].Spec.IP == "10.10.1.31" {
		t.Errorf("the set that can't be completed became %v, want another one", got)
	}
}

func TestLivingPod_AddressLost_GetsItBack(t *testing.T) {
	r := start(t)
	r.network("lost")
	pod := r.schedule(newPod("lost", "p", "n", ""), "node-1")
	sees(r, pod, hasReason(v1alpha1.AttachedReason))
	before := r.held(string(pod.UID))
	for _, address := range before {
		r.delete(&address)
	}
	r.eventually(func() error {
		after := r.held(string(pod.UID))
		if len(after) != 2 || after[0].Spec.IP != before[0].Spec.IP || after[1].Spec.IP != before[1].Spec.IP {
			return fmt.Errorf("it holds %v, want %v", after, before)
		}
		return nil
	})
}

func TestPods_ManyAtOnce_DistinctAddresses(t *testing.T) {
	r := start(t)
	r.network("wave")
	const count = 60
	pods := make([]*corev1.Pod, count)
	var group sync.WaitGroup
	for i := range count {
		pods[i] = newPod("wave", fmt.Sprintf("p%d", i), "n", `{"subnet": "net1"}`)
		group.Go(func() {
			if err := r.Create(t.Context(), pods[i]); err != nil {
				t.Errorf("create: %v", err)
			}
		})
	}
	group.Wait()
	for _, pod := range pods {
		r.bind(pod, "node-1")
	}
	seen := map[string]bool{}
	for _, pod := range pods {
		sees(r, pod, hasReason(v1alpha1.AttachedReason))
		seen[pod.Annotations[arktosv1.UserInputAnnotation]] = true
	}
	if len(seen) != count {
		t.Errorf("%d pods got %d addresses", count, len(seen))
	}
	var list v1alpha1.AddressList
	if err := r.List(t.Context(), &list, client.MatchingFields{"spec.vpc": "wave"}); err != nil {
		t.Fatal(err)
	}
	if len(list.Items) != 2*count {
		t.Errorf("%d Address objects for %d pods of two families", len(list.Items), count)
	}
}
