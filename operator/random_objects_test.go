// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"fmt"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	arktosv1 "github.com/alioth-net/alioth/api/arktos/v1"
	"github.com/alioth-net/alioth/api/v1alpha1"
)

// serviceNames are used again and again; there are more than addresses in a pool.
const serviceNames = 4

func (c *chaos) makeService() {
	service := balancer(fmt.Sprintf("lb-%d", c.rand.IntN(serviceNames)), "", nil)
	if _, exists := c.api.objects[keyOf(service)]; exists {
		return
	}
	c.ask(service)
	c.note("Service %s is made", service.Name)
	c.create(service)
}

// ask changes the request of a Service.
func (c *chaos) ask(service *corev1.Service) {
	service.Labels = map[string]string{arktosv1.NetworkLabel: []string{"red", "blue"}[c.rand.IntN(2)]}
	service.Annotations = []map[string]string{
		nil, nil, asking("10.0.3.4"), externally(), externally(), externally(v1alpha1.LoadBalancerIPsAnnotation, "192.0.2.17"),
	}[c.rand.IntN(6)]
	service.Spec.Type = corev1.ServiceTypeLoadBalancer
	if c.rand.IntN(4) == 0 {
		service.Spec.Type = corev1.ServiceTypeClusterIP
	}
}

func (c *chaos) changeService() {
	if service, ok := pick(c, sorted[*corev1.Service](c.api)); ok {
		c.note("Service %s is changed", service.Name)
		edit(c.world, service, c.ask)
	}
}

func (c *chaos) deleteService() {
	if service, ok := pick(c, sorted[*corev1.Service](c.api)); ok {
		c.note("Service %s is deleted", service.Name)
		c.mustDelete(service)
	}
}

// changePool gives a pool to the tenant, or takes it away.
func (c *chaos) changePool() {
	edit(c.world, newPool("edge", nil), func(pool *v1alpha1.ExternalPool) {
		if pool.Spec.AllowedTenants = []string{"shop"}; c.rand.IntN(3) == 0 {
			pool.Spec.AllowedTenants = nil
		}
	})
}

// deleteAddresses deletes Addresses of pods and Services that live, one or all.
func (c *chaos) deleteAddresses() {
	living := map[string]bool{}
	for _, pod := range sorted[*corev1.Pod](c.api) {
		living[string(pod.UID)] = !podIsEnding(pod) && attachedTo(pod) != nil
	}
	for _, service := range sorted[*corev1.Service](c.api) {
		living[string(service.UID)] = true
	}
	every := c.rand.IntN(3) == 0
	for _, address := range sorted[*v1alpha1.Address](c.api) {
		if living[address.Spec.Holder.UID] && (every || c.rand.IntN(4) == 0) {
			c.note("Address %s is deleted by hand", address.Name)
			c.api.drop(address)
			c.bereave(types.UID(address.Spec.Holder.UID))
		}
	}
}

// bereave exempts a pod without Addresses from keepsToItsOwn until it has one: the pod may get
// another address if the operator has forgotten the deleted ones.
func (c *chaos) bereave(uid types.UID) {
	if c.thief && !c.holdsAny(uid) {
		c.remember(uid, bereft)
	}
}

// deleteVNIClaim deletes the claim of a VPC that all operators know to have it.
func (c *chaos) deleteVNIClaim() {
	for _, o := range c.operators {
		if o.inputs.of(reflect.TypeFor[*v1alpha1.VPC]()).behind() {
			return
		}
	}
	if claim, ok := pick(c, sorted[*v1alpha1.VNIClaim](c.api)); ok {
		if vpc, ok := c.api.objects[keyOf(newVPC(claim.Spec.VPC, nil))].(*v1alpha1.VPC); ok && vpc.Status.VNI == claim.Spec.VNI {
			c.note("%s is deleted by hand", claim.Name)
			c.api.drop(claim)
		}
	}
}

func (c *chaos) deleteRange() {
	ranges := []client.Object{ranges("blue.net1"), ranges("blue.net2"), ranges("blue.lb"), newVPC("blue", nil), newNetwork("shop", "blue", "")}
	object := ranges[c.rand.IntN(len(ranges))]
	if c.api.delete(object, nil) == nil {
		c.note("%s is deleted", keyOf(object))
	}
}

func (c *chaos) makeRange() {
	blue := newVPC("blue", []string{"shop"}, "10.0.0.0/16", "fd00::/48")
	if wanted := int32(1 + c.rand.IntN(4)); c.rand.IntN(2) == 0 {
		blue.Spec.VNI = &wanted
	}
	for _, object := range []client.Object{
		blue, ranges("blue.net1", "10.0.1.0/28", "fd00:0:0:1::/64"), ranges("blue.net2", "10.0.2.0/29"), virtual("blue"), newNetwork("shop", "blue", "blue"),
	} {
		if _, exists := c.api.objects[keyOf(object)]; !exists {
			c.note("%s is made again", keyOf(object))
			c.create(object)
		}
	}
}

// moveNetwork points a Network to the other VPC while pods use it.
func (c *chaos) moveNetwork() {
	edit(c.world, newNetwork("shop", "red", ""), func(net *arktosv1.Network) {
		if net.Spec.VPCID = "red"; c.rand.IntN(2) == 0 {
			net.Spec.VPCID = "blue"
		}
	})
}

func (c *chaos) moveNamespace() {
	edit(c.world, newNamespace("shop", ""), func(ns *corev1.Namespace) {
		if ns.Labels[v1alpha1.TenantLabel] = "shop"; c.rand.IntN(3) == 0 {
			ns.Labels[v1alpha1.TenantLabel] = "other"
		}
	})
}
