// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	arktosv1 "github.com/alioth-net/alioth/api/arktos/v1"
	"github.com/alioth-net/alioth/api/v1alpha1"
)

func TestVNIClaim_RequestedVNI_KeptUntilVPCGone(t *testing.T) {
	r := start(t)
	blue, red := newVPC("vni-blue", nil, "10.0.0.0/16"), newVPC("vni-red", nil, "10.0.0.0/16")
	wanted := int32(4711)
	blue.Spec.VNI, red.Spec.VNI = &wanted, &wanted
	r.create(blue)
	sees(r, blue, vpcReady(v1alpha1.ReadyReason))
	claim := &v1alpha1.VNIClaim{ObjectMeta: metav1.ObjectMeta{Name: "vni-4711"}}
	r.get(claim)
	if blue.Status.VNI != 4711 || claim.Spec.VPCUID != string(blue.UID) {
		t.Fatalf("VNI %d, claimed for %s; want 4711 for %s", blue.Status.VNI, claim.Spec.VPCUID, blue.UID)
	}
	r.create(red)
	sees(r, red, vpcReady(v1alpha1.VNITakenReason))

	r.delete(blue)
	r.gone(blue)
	sees(r, red, vpcReady(v1alpha1.ReadyReason))
	r.get(claim)
	if claim.Spec.VPCUID != string(red.UID) {
		t.Errorf("the claim is for %s, want the successor %s", claim.Spec.VPCUID, red.UID)
	}
}

func TestVNIClaim_OperatorDied_Adopted(t *testing.T) {
	r := newRig(t)
	vpc := newVPC("adopted", nil, "10.0.0.0/16")
	r.create(vpc)
	claim := &v1alpha1.VNIClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "vni-5005"},
		Spec:       v1alpha1.VNIClaimSpec{VNI: 5005, VPC: vpc.Name, VPCUID: string(vpc.UID)},
	}
	orphan := &v1alpha1.VNIClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "vni-5006"},
		Spec:       v1alpha1.VNIClaimSpec{VNI: 5006, VPC: "adopted-long-ago", VPCUID: "long-gone"},
	}
	r.create(claim, orphan)
	r.operate(testConfig())
	sees(r, vpc, vpcReady(v1alpha1.ReadyReason))
	if vpc.Status.VNI != 5005 {
		t.Errorf("VNI %d, want that of the claim, 5005", vpc.Status.VNI)
	}
	r.gone(orphan)
}

func TestVPC_RangeOfCluster_Refused(t *testing.T) {
	r := start(t)
	for name, cidr := range map[string]string{
		"reserved-service4": "10.96.0.0/12", "reserved-service6": "fd96::/64", "reserved-shadow": "fd41:6c69:6f74::/48",
	} {
		vpc := newVPC(name, nil, cidr)
		r.create(vpc)
		sees(r, vpc, vpcReady(v1alpha1.RangeReservedReason))
	}
}

func TestVPC_SubnetsLeft_Held(t *testing.T) {
	r := start(t)
	vpc := newVPC("heldvpc", nil, "10.0.0.0/16")
	subnet := newSubnet("heldvpc-s", "heldvpc", "s", "10.0.1.0/24")
	r.create(vpc, subnet)
	sees(r, subnet, subnetReady(v1alpha1.ReadyReason))
	sees(r, usageOf(v1alpha1.UsageOfVPC, "heldvpc"), func(u *v1alpha1.Usage) error {
		if u.Status.Subnets == nil || *u.Status.Subnets != 1 {
			return fmt.Errorf("counted are %+v, want one subnet", u.Status)
		}
		return nil
	})
	r.delete(vpc)
	sees(r, vpc, vpcReady(v1alpha1.DeletingReason))
	sees(r, subnet, subnetReady(v1alpha1.VPCNotReadyReason))
	r.delete(subnet)
	r.gone(subnet)
	r.gone(vpc)
	r.eventually(func() error {
		var claims v1alpha1.VNIClaimList
		if err := r.List(t.Context(), &claims); err != nil {
			return err
		}
		if slices.ContainsFunc(claims.Items, func(c v1alpha1.VNIClaim) bool { return c.Spec.VPC == "heldvpc" }) {
			return errors.New("the VNI of the deleted VPC is still claimed")
		}
		return nil
	})
}

func TestSubnet_Fault_ReportedAndHeals(t *testing.T) {
	r := start(t)
	first := newSubnet("heal-1", "heal", "net1", "10.0.1.0/24")
	r.create(first)
	sees(r, first, subnetReady(v1alpha1.VPCNotFoundReason))
	r.create(newVPC("heal", nil, "10.0.0.0/16"))
	sees(r, first, subnetReady(v1alpha1.ReadyReason))

	outside := newSubnet("heal-2", "heal", "net2", "10.1.0.0/24")
	r.create(outside)
	sees(r, outside, subnetReady(v1alpha1.OutsideVPCReason))
	vpc := &v1alpha1.VPC{ObjectMeta: metav1.ObjectMeta{Name: "heal"}}
	r.get(vpc)
	grown := vpc.DeepCopy()
	grown.Spec.CIDRs = append(grown.Spec.CIDRs, "10.1.0.0/16")
	if err := r.Patch(t.Context(), grown, client.MergeFrom(vpc)); err != nil {
		t.Fatal(err)
	}
	sees(r, outside, subnetReady(v1alpha1.ReadyReason))

	// Objects of one second have one age, so the UID decides which of the two conflicts. The
	// conflicting one heals when the other goes.
	twins := []*v1alpha1.Subnet{newSubnet("heal-3", "heal", "net3", "10.0.2.0/24"), newSubnet("heal-4", "heal", "net4", "10.0.2.0/25")}
	r.create(twins[0], twins[1])
	if older(twins[1], twins[0]) {
		slices.Reverse(twins)
	}
	sees(r, twins[0], subnetReady(v1alpha1.ReadyReason))
	sees(r, twins[1], subnetReady(v1alpha1.OverlapReason))
	r.delete(twins[0])
	sees(r, twins[1], subnetReady(v1alpha1.ReadyReason))

	namesake := []*v1alpha1.Subnet{newSubnet("heal-5", "heal", "net5", "10.0.5.0/24"), newSubnet("heal-6", "heal", "net5", "10.0.6.0/24")}
	r.create(namesake[0], namesake[1])
	if older(namesake[1], namesake[0]) {
		slices.Reverse(namesake)
	}
	sees(r, namesake[0], subnetReady(v1alpha1.ReadyReason))
	sees(r, namesake[1], subnetReady(v1alpha1.NameConflictReason))
}

// usageOf has the name of the Usage of a Subnet or VPC.
func usageOf(kind v1alpha1.UsageKind, name string) *v1alpha1.Usage {
	return &v1alpha1.Usage{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.UsageName(kind, name)}}
}

// older reports whether object a wins over b: by creation time, which the API keeps in seconds,
// then by name.
func older(a, b client.Object) bool {
	if at, bt := a.GetCreationTimestamp(), b.GetCreationTimestamp(); !at.Equal(&bt) {
		return at.Before(&bt)
	}
	return client.ObjectKeyFromObject(a).String() < client.ObjectKeyFromObject(b).String()
}

func TestSubnet_AddressesLeft_HeldAndHoldersNamed(t *testing.T) {
	r := start(t)
	subnet := newSubnet("heldsub-s", "heldsub", "s", "10.0.1.0/24")
	r.create(newNamespace("heldsub", "heldsub"), newVPC("heldsub", []string{"heldsub"}, "10.0.0.0/16"), subnet, newNetwork("heldsub", "n", "heldsub"))
	pod := r.schedule(newPod("heldsub", "p", "n", ""), "node-1")
	sees(r, pod, hasReason(v1alpha1.AttachedReason))
	sees(r, usageOf(v1alpha1.UsageOfSubnet, "heldsub-s"), func(u *v1alpha1.Usage) error {
		if u.Status.Used != 1 || u.Status.Free == nil || *u.Status.Free != 252 || len(u.Status.Cursors) != 1 {
			return fmt.Errorf("the figures are %+v; want 1 used, 252 free and a cursor", u.Status)
		}
		return nil
	})
	r.delete(subnet)
	sees(r, subnet, func(s *v1alpha1.Subnet) error {
		c := meta.FindStatusCondition(s.Status.Conditions, v1alpha1.ReadyCondition)
		if c.Reason != v1alpha1.DeletingReason || !strings.Contains(c.Message, "Pod heldsub/p") {
			return fmt.Errorf("%s: %s", c.Reason, c.Message)
		}
		return nil
	})
	r.delete(pod)
	for _, address := range r.held(string(pod.UID)) {
		r.delete(&address) // as the node's daemon does
	}
	r.gone(subnet)
}

func TestNetwork_Fault_ReportedAndHeals(t *testing.T) {
	r := start(t)
	net := newNetwork("healnet", "n", "healnet")
	foreign := newNetwork("healnet", "other", "healnet")
	foreign.Spec.Type = "flat"
	r.create(newNamespace("healnet", "healnet"), foreign, net)
	sees(r, net, networkReady(v1alpha1.VPCNotFoundReason))
	vpc := newVPC("healnet", nil, "10.0.0.0/16")
	r.create(vpc)
	sees(r, net, networkReady(v1alpha1.TenantNotAllowedReason))
	r.eventually(func() error {
		r.get(vpc)
		vpc.Spec.AllowedTenants = []string{"healnet"}
		return r.Update(t.Context(), vpc)
	})
	sees(r, net, networkReady(v1alpha1.NoReadySubnetReason))
	r.create(newSubnet("healnet-s", "healnet", "s", "10.0.1.0/24"))
	sees(r, net, networkReady(v1alpha1.ReadyReason))
	if net.Status.Tenant != "healnet" {
		t.Errorf("tenant is %q", net.Status.Tenant)
	}
	r.get(foreign)
	if len(foreign.Finalizers) > 0 || len(foreign.Status.Conditions) > 0 {
		t.Errorf("a Network of another type was touched: %v, %v", foreign.Finalizers, foreign.Status.Conditions)
	}
}

func TestNetworks_NamesakesInTwoNamespaces_BothUsable(t *testing.T) {
	r := start(t)
	r.create(newNamespace("alike-a", "alike"), newNamespace("alike-b", "alike"),
		newVPC("alike-1", []string{"alike"}, "10.0.0.0/16"), newSubnet("alike-1", "alike-1", "s", "10.0.1.0/24"),
		newVPC("alike-2", []string{"alike"}, "10.0.0.0/16"), newSubnet("alike-2", "alike-2", "s", "10.0.2.0/24"))
	nets := []*arktosv1.Network{newNetwork("alike-a", "n", "alike-1"), newNetwork("alike-b", "n", "alike-2")}
	r.create(nets[0], nets[1])
	if older(nets[1], nets[0]) {
		slices.Reverse(nets)
	}
	sees(r, nets[1], func(n *arktosv1.Network) error {
		if !meta.IsStatusConditionTrue(n.Status.Conditions, v1alpha1.NameConflictCondition) {
			return errors.New("the younger has no NameConflict")
		}
		return ready(n.Status.Conditions, v1alpha1.ReadyReason)
	})
	pod := r.schedule(newPod(nets[1].Namespace, "p", "n", ""), "node-1")
	sees(r, pod, hasReason(v1alpha1.AttachedReason))
	if held := r.held(string(pod.UID)); len(held) != 1 || held[0].Spec.VPC != nets[1].Spec.VPCID {
		t.Errorf("the pod holds %v, want an address of its own namespace's Network", held)
	}
	r.delete(nets[0])
	sees(r, nets[1], func(n *arktosv1.Network) error {
		if meta.FindStatusCondition(n.Status.Conditions, v1alpha1.NameConflictCondition) != nil {
			return errors.New("NameConflict outlives its cause")
		}
		return nil
	})
}

func TestNetwork_PodsLeft_Held(t *testing.T) {
	r := start(t)
	net := newNetwork("heldnet", "n", "heldnet")
	r.create(newNamespace("heldnet", "heldnet"), newVPC("heldnet", []string{"heldnet"}, "10.0.0.0/16"),
		newSubnet("heldnet-s", "heldnet", "s", "10.0.1.0/24"), net)
	pod := r.schedule(newPod("heldnet", "p", "n", ""), "node-1")
	sees(r, pod, hasReason(v1alpha1.AttachedReason))
	r.delete(net)
	sees(r, net, networkReady(v1alpha1.DeletingReason))
	late := r.schedule(newPod("heldnet", "late", "n", ""), "node-1")
	sees(r, late, hasReason(v1alpha1.NetworkNotReadyReason))
	r.delete(pod)
	r.gone(net)
	sees(r, late, hasReason(v1alpha1.NetworkNotFoundReason))
}
