// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	acnv1alpha1 "github.com/alioth-net/alioth/api/acn/v1alpha1"
	multitenancyv1alpha1 "github.com/alioth-net/alioth/api/multitenancy/v1alpha1"
	"github.com/alioth-net/alioth/api/v1alpha1"
)

// podNetworkIs makes a check of the status of a PodNetwork.
func podNetworkIs(state multitenancyv1alpha1.PodNetworkState, reason string) func(*multitenancyv1alpha1.PodNetwork) error {
	return func(n *multitenancyv1alpha1.PodNetwork) error {
		if n.Status.Status != state {
			return fmt.Errorf("PodNetwork %s is %q, want %q: %+v", n.Name, n.Status.Status, state, n.Status.Conditions)
		}
		return ready(n.Status.Conditions, reason)
	}
}

// instanceHas makes a check of the status of an instance, and of its number of addresses.
func instanceHas(state multitenancyv1alpha1.InstanceState, reason string, count int) func(*multitenancyv1alpha1.PodNetworkInstance) error {
	return func(i *multitenancyv1alpha1.PodNetworkInstance) error {
		if i.Status.Status != state || len(i.Status.PodIPAddresses) != count {
			return fmt.Errorf("PodNetworkInstance %s is %+v, want %q with %d addresses", i.Name, i.Status, state, count)
		}
		return ready(i.Status.Conditions, reason)
	}
}

// reports waits until the configs of a pod in both groups report an address, or none yet.
func (r *rig) reports(pod *corev1.Pod, state multitenancyv1alpha1.PodNetworkConfigState) (ip string) {
	r.t.Helper()
	meta := metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}
	config := &multitenancyv1alpha1.MultitenantPodNetworkConfig{ObjectMeta: meta}
	sees(r, config, func(c *multitenancyv1alpha1.MultitenantPodNetworkConfig) error {
		if c.Status.Status != state || c.Spec.PodUID != string(pod.UID) || metav1.GetControllerOf(c).UID != pod.UID {
			return fmt.Errorf("config %s is %+v, want %s", c.Name, c, state)
		}
		return nil
	})
	early := &acnv1alpha1.MultiTenantPodNetworkConfig{ObjectMeta: meta}
	sees(r, early, func(c *acnv1alpha1.MultiTenantPodNetworkConfig) error {
		if (c.Status.Status == acnv1alpha1.ConfigProvisioned) != (state == multitenancyv1alpha1.ConfigReady) ||
			c.Status.PrimaryIP != config.Status.PrimaryIP || c.Status.UUID != config.Status.NCID || metav1.GetControllerOf(c).UID != pod.UID {
			return fmt.Errorf("config %s is %+v, want what %+v says", c.Name, c, config.Status)
		}
		return nil
	})
	return strings.TrimSuffix(config.Status.PrimaryIP, "/32")
}

// TestPodNetworkInstance_Pods_GetItsAddresses runs against a real API server, with the schemas of
// both groups: a PodNetwork, an instance with two addresses, two pods and a third that finds
// none, and a pod of Alioth's own CNI in the same subnet.
func TestPodNetworkInstance_Pods_GetItsAddresses(t *testing.T) {
	r := newRig(t)
	cfg := testConfig()
	cfg.NodeIPAM, cfg.NodeIPAMInfraSubnet = true, "pni-infra"
	r.operate(cfg)
	labelled := newNode("pni-node")
	labelled.Labels = map[string]string{multitenancyv1alpha1.NodeLabel: "true"}
	info := &multitenancyv1alpha1.NodeInfo{ObjectMeta: metav1.ObjectMeta{Name: labelled.Name}}
	network := podNetworkOf("pni", 64)
	network.Spec.NetworkID = "pni"
	older := acnv1alpha1.PodNetwork{ObjectMeta: metav1.ObjectMeta{Name: "pni-blocks"}}
	older.Spec.SubnetAllocationMode = multitenancyv1alpha1.AllocationPrefixBlock
	r.create(labelled, info, network, &older)
	sees(r, network, podNetworkIs(multitenancyv1alpha1.PodNetworkNotDelegated, v1alpha1.VPCNotFoundReason))
	sees(r, &older, func(n *acnv1alpha1.PodNetwork) error { return ready(n.Status.Conditions, v1alpha1.InvalidReason) })
	for i := range 3 {
		info.Status.DeviceInfos = append(info.Status.DeviceInfos, multitenancyv1alpha1.DeviceInfo{MacAddress: fmt.Sprintf("00:0d:3a:00:01:%02x", i)})
	}
	if err := r.Status().Update(t.Context(), info); err != nil {
		t.Fatal(err)
	}
	r.create(newNamespace("pni", ""), newVPC("pni", []string{"*"}, "10.0.0.0/16"), newVPC("pni-infra", []string{"*"}, "10.1.0.0/16"),
		newSubnet("pni-net2", "pni", "net2", "10.0.2.0/29"), newSubnet("pni-infra", "pni-infra", "", "10.1.1.0/24"), newNetwork("pni", "pni", "pni"))
	sees(r, network, podNetworkIs(multitenancyv1alpha1.PodNetworkReady, v1alpha1.ReadyReason))
	if prefixes := network.Status.AddressPrefixes; !slices.Equal(prefixes, []string{"10.0.2.0/29"}) {
		t.Errorf("the ranges of the PodNetwork are %v", prefixes)
	}

	instance := instanceOf("pni", 2)
	instance.Namespace, instance.Spec.PodNetworkConfigs[0].PodNetwork = "pni", "pni"
	r.create(instance)
	sees(r, instance, instanceHas(multitenancyv1alpha1.InstanceReady, v1alpha1.ReadyReason, 2))
	sees(r, network, podNetworkIs(multitenancyv1alpha1.PodNetworkInUse, v1alpha1.ReadyReason))
	reserved := instance.Status.PodIPAddresses

	// Another pod never has a reserved address, and may not ask for one.
	own := r.schedule(newPod("pni", "own", "pni", `{"subnet": "net2"}`), "node-1")
	sees(r, own, hasReason(v1alpha1.AttachedReason))
	asks := r.schedule(newPod("pni", "asks", "pni", fmt.Sprintf(`{"ip": %q}`, reserved[1])), "node-1")
	sees(r, asks, hasReason(v1alpha1.IPReservedReason))
	for _, address := range r.held(string(own.UID)) {
		if slices.Contains(reserved, address.Spec.IP) {
			t.Errorf("%s is reserved, and pod %s has it", address.Spec.IP, own.Name)
		}
	}

	var pods []*corev1.Pod
	var has []string
	for _, name := range []string{"web-0", "web-1", "web-2"} {
		pod := newPod("pni", name, "", "")
		pod.Labels = map[string]string{multitenancyv1alpha1.PodNetworkInstanceLabel: "pni"}
		pods = append(pods, r.schedule(pod, labelled.Name))
		if name != "web-2" {
			sees(r, pod, hasReason(v1alpha1.AttachedReason))
			has = append(has, r.reports(pod, multitenancyv1alpha1.ConfigReady))
		}
	}
	slices.Sort(has)
	slices.Sort(reserved)
	if !slices.Equal(has, reserved) {
		t.Errorf("the pods have %v, reserved are %v", has, reserved)
	}
	sees(r, pods[2], hasReason(v1alpha1.SubnetExhaustedReason))
	r.reports(pods[2], multitenancyv1alpha1.ConfigNoAddresses)
	r.endInstance(instance, pods)
	sees(r, network, podNetworkIs(multitenancyv1alpha1.PodNetworkReady, v1alpha1.ReadyReason))
}

// endInstance deletes an instance, which stays until the last of its pods has been released.
func (r *rig) endInstance(instance *multitenancyv1alpha1.PodNetworkInstance, pods []*corev1.Pod) {
	r.t.Helper()
	r.delete(instance)
	sees(r, instance, func(i *multitenancyv1alpha1.PodNetworkInstance) error {
		return ready(i.Status.Conditions, v1alpha1.DeletingReason)
	})
	for i, pod := range pods {
		addresses := r.held(string(pod.UID))
		r.delete(pod)
		if i == len(pods)-1 {
			break
		}
		sees(r, instance, func(i *multitenancyv1alpha1.PodNetworkInstance) error {
			if !slices.Contains(i.Finalizers, v1alpha1.Finalizer) {
				return errors.New("the instance goes before its pods")
			}
			return nil
		})
		for n := range addresses { // as its node does
			if err := r.Delete(r.t.Context(), &addresses[n]); client.IgnoreNotFound(err) != nil {
				r.t.Fatal(err)
			}
		}
	}
	r.gone(instance)
}
