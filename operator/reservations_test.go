// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	acnv1alpha1 "github.com/alioth-net/alioth/api/acn/v1alpha1"
	multitenancyv1alpha1 "github.com/alioth-net/alioth/api/multitenancy/v1alpha1"
	"github.com/alioth-net/alioth/api/v1alpha1"
)

// reserving returns a world with the node IPAM API. node-1 has its label, and many devices.
// PodNetwork pn is a small subnet of VPC blue, which pods on node-2 have addresses of too.
func reserving(t testing.TB) *world {
	t.Helper()
	w := newWorld(t)
	var claims sync.Mutex // the addresses of several interfaces are claimed at the same time
	w.intercept = func(_ string, _ *instance, _ string, _ client.Object, effect func() error) error {
		claims.Lock()
		defer claims.Unlock()
		return effect()
	}
	w.configure = func(cfg *Config) { cfg.NodeIPAM, cfg.NodeIPAMInfraSubnet = true, "default.pods" }
	w.furnish(0)
	labelled := newNode("node-1")
	labelled.Labels = map[string]string{multitenancyv1alpha1.NodeLabel: "true"}
	w.create(labelled, newNode("node-2"), newAnswer("node-1"), newAnswer("node-2"), withDevices("node-1"), podNetworkOf("pn", 6))
	return w
}

// withDevices returns the NodeInfo of a node with many devices.
func withDevices(node string) *multitenancyv1alpha1.NodeInfo {
	info := &multitenancyv1alpha1.NodeInfo{ObjectMeta: metav1.ObjectMeta{Name: node}}
	for i := range 64 {
		info.Status.DeviceInfos = append(info.Status.DeviceInfos, multitenancyv1alpha1.DeviceInfo{MacAddress: fmt.Sprintf("00:0d:3a:00:00:%02x", i)})
	}
	return info
}

// podNetworkOf returns a PodNetwork in the smallest subnet of VPC blue, of five addresses.
func podNetworkOf(name string, most int32) *multitenancyv1alpha1.PodNetwork {
	return &multitenancyv1alpha1.PodNetwork{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       multitenancyv1alpha1.PodNetworkSpec{NetworkID: "blue", SubnetResourceID: "/any/subnets/net2", MaxReservedIPs: &most},
	}
}

func instanceOf(name string, size int32) *multitenancyv1alpha1.PodNetworkInstance {
	return &multitenancyv1alpha1.PodNetworkInstance{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name},
		Spec: multitenancyv1alpha1.PodNetworkInstanceSpec{
			PodNetworkConfigs: []multitenancyv1alpha1.PodNetworkConfig{{PodNetwork: "pn", PodIPReservationSize: size}},
		},
	}
}

// ofInstance returns a pod of an instance on node-1.
func ofInstance(name, instance string) *corev1.Pod {
	pod := bound(name, "", "", "node-1")
	pod.Labels = map[string]string{multitenancyv1alpha1.PodNetworkInstanceLabel: instance}
	return pod
}

// foreign returns a pod of the same subnet on node-2, which Alioth attaches.
func foreign(name string) *corev1.Pod { return bound(name, "blue", `{"subnet": "net2"}`, "node-2") }

// end deletes a pod whose node has released it.
func (w *world) end(pod client.Object) {
	w.api.drop(pod)
	w.released()
}

// released deletes the Addresses of pods that are gone, as their nodes do.
func (w *world) released() {
	for _, address := range sorted[*v1alpha1.Address](w.api) {
		if !slices.ContainsFunc(sorted[*corev1.Pod](w.api), func(pod *corev1.Pod) bool { return string(pod.UID) == address.Spec.Holder.UID }) &&
			address.Spec.Holder.Kind == v1alpha1.HolderPod {
			w.api.drop(address)
		}
	}
}

// inBlue lists the addresses of VPC blue by their holders, of IPv4.
func (w *world) inBlue() map[string]string {
	held := map[string]string{}
	for _, address := range sorted[*v1alpha1.Address](w.api) {
		if address.Spec.VPC == "blue" {
			held[address.Spec.IP] = address.Spec.Holder.Name
		}
	}
	return held
}

func (w *world) instance(name string) *multitenancyv1alpha1.PodNetworkInstance {
	found, _ := w.api.objects[keyOf(instanceOf(name, 0))].(*multitenancyv1alpha1.PodNetworkInstance)
	return found
}

// TestReservation_OperatorEndsAtEachWrite_Kept: the operator ends, or hears nothing, at each write to the
// instance: the finalizer, the addresses, and that it is Ready. Other pods ask for all
// addresses of the subnet at that moment.
func TestReservation_OperatorEndsAtEachWrite_Kept(t *testing.T) {
	for write := range 3 {
		for fate := failsBefore; fate < outcomes; fate++ {
			t.Run(fmt.Sprintf("write %d %s", write+1, fate), func(t *testing.T) {
				w := reserving(t)
				w.operate()
				w.settle()
				writes, met := 0, false
				var before []string
				w.intercept = func(_ string, o *instance, verb string, object client.Object, effect func() error) error {
					if _, ok := object.(*multitenancyv1alpha1.PodNetworkInstance); !ok || !isWrite(verb) || met {
						return effect()
					}
					writes++
					if met = writes > write; !met {
						return effect()
					}
					err := w.meets(fate, o, object, effect)
					before = w.instance("pni").Status.PodIPAddresses
					for i := range 5 {
						w.create(foreign(fmt.Sprintf("foreign-%d", i)))
					}
					return err
				}
				w.create(instanceOf("pni", 2))
				w.settle()
				got := w.instance("pni").Status
				if !met || write == 2 && len(before) != 2 {
					t.Fatalf("write %d has not come; then %v were reserved", write+1, before)
				}
				if len(before) > 0 && (got.Status != multitenancyv1alpha1.InstanceReady || !slices.Equal(got.PodIPAddresses, before)) {
					t.Errorf("%v were reserved, and the status is %+v", before, got)
				}
				for _, ip := range got.PodIPAddresses {
					if holder := w.inBlue()[ip]; holder != "" {
						t.Errorf("%s is reserved, and %s has it", ip, holder)
					}
				}
				if all := len(w.inBlue()) + len(got.PodIPAddresses); all != 5 {
					t.Errorf("%d of 5 addresses are held or reserved: %v, %v", all, w.inBlue(), got)
				}
			})
		}
	}
}

// TestPodConfig_SuccessorOfName_OwnObject: both groups have a kind of config.
func TestPodConfig_SuccessorOfName_OwnObject(t *testing.T) {
	w := reserving(t)
	w.operate()
	w.create(instanceOf("pni", 1), ofInstance("web", "pni"))
	w.settle()
	former := w.pod("web")
	w.wantConfig(former)
	w.api.drop(former)
	w.create(ofInstance("web", "pni"))
	w.settle()
	// The node has not released the only address.
	config := sorted[*multitenancyv1alpha1.MultitenantPodNetworkConfig](w.api)[0]
	if config.Spec.PodUID != string(w.pod("web").UID) || config.Status.Status != multitenancyv1alpha1.ConfigNoAddresses || len(config.Status.InterfaceInfos) > 0 {
		t.Errorf("the config of the successor is %+v", config)
	}
	if early := sorted[*acnv1alpha1.MultiTenantPodNetworkConfig](w.api)[0]; early.Status != (acnv1alpha1.MultiTenantPodNetworkConfigStatus{}) {
		t.Errorf("the config of the successor is %+v", early)
	}
	w.released()
	w.settle()
	w.wantConfig(w.pod("web"))
	w.end(w.pod("web"))
	w.settle()
	if left := len(sorted[*multitenancyv1alpha1.MultitenantPodNetworkConfig](w.api)) + len(sorted[*acnv1alpha1.MultiTenantPodNetworkConfig](w.api)); left > 0 {
		t.Errorf("%d configs are left", left)
	}
}

// wantConfig requires that both groups report the address of a pod in PodNetwork pn.
func (w *world) wantConfig(pod *corev1.Pod) {
	w.t.Helper()
	var address *v1alpha1.Address
	for _, one := range sorted[*v1alpha1.Address](w.api) {
		if one.Spec.Holder.UID == string(pod.UID) && one.Spec.Attachment == "eth1" {
			address = one
		}
	}
	if address == nil {
		w.fail("pod %s has no address as eth1: %+v", pod.Name, pod.Status.Conditions)
	}
	owner := metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID, Controller: new(true), BlockOwnerDeletion: new(bool)}
	for _, config := range sorted[*multitenancyv1alpha1.MultitenantPodNetworkConfig](w.api) {
		infos := config.Status.InterfaceInfos
		if config.Status.Status != multitenancyv1alpha1.ConfigReady || len(infos) != 1 || infos[0].NCID != string(address.UID) ||
			infos[0].PrimaryIP != address.Spec.IP+"/32" || config.Spec.PodUID != string(pod.UID) ||
			!slices.EqualFunc(config.OwnerReferences, []metav1.OwnerReference{owner}, sameOwner) {
			w.fail("the config of pod %s is %+v", pod.Name, config)
		}
	}
	want := acnv1alpha1.MultiTenantPodNetworkConfigStatus{
		UUID: string(address.UID), PrimaryIP: address.Spec.IP + "/32", MacAddress: address.Spec.MAC, Status: acnv1alpha1.ConfigProvisioned,
	}
	for _, config := range sorted[*acnv1alpha1.MultiTenantPodNetworkConfig](w.api) {
		if config.Status != want || !slices.EqualFunc(config.OwnerReferences, []metav1.OwnerReference{owner}, sameOwner) {
			w.fail("the config of pod %s is %+v, want %+v", pod.Name, config, want)
		}
	}
	today := len(sorted[*multitenancyv1alpha1.MultitenantPodNetworkConfig](w.api))
	early := len(sorted[*acnv1alpha1.MultiTenantPodNetworkConfig](w.api))
	if today != 1 || early != 1 {
		w.fail("there are %d and %d configs, want one of each group", today, early)
	}
}

func sameOwner(a, b metav1.OwnerReference) bool {
	return strings.Join([]string{a.APIVersion, a.Kind, a.Name, string(a.UID)}, " ") == strings.Join([]string{b.APIVersion, b.Kind, b.Name, string(b.UID)}, " ") &&
		*a.Controller == *b.Controller && *a.BlockOwnerDeletion == *b.BlockOwnerDeletion
}
