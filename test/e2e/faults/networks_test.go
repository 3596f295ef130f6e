// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"context"
	"fmt"
	"strings"
	"testing"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/annotations"
	danmv1 "github.com/alioth-net/alioth/api/danm/v1"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/test/e2e/scene"
)

// waveDevice is the device of the nodes for interfaces outside of VPCs.
const waveDevice = "wave0"

// secondNetwork makes a network outside of every VPC in a tenant's namespace, and returns an option
// that gives a pod an interface in it. Both objects end with the namespace.
func (e *env) secondNetwork(t *testing.T, tenant *scene.Tenant) scene.PodOption {
	t.Helper()
	first, second := e.Nodes()
	for _, node := range []string{first, second} {
		e.OnNode(t, node, "ip", "link", "add", waveDevice, "type", "veth", "peer", "name", waveDevice+"p")
		t.Cleanup(func() { e.OnNode(t, node, "ip", "link", "del", waveDevice) })
		e.OnNode(t, node, "ip", "link", "set", waveDevice, "up")
		e.OnNode(t, node, "ip", "link", "set", waveDevice+"p", "up")
	}
	own := metav1.ObjectMeta{Namespace: tenant.Namespace.Name, Name: "wave"}
	network := &danmv1.DanmNet{ObjectMeta: own, Spec: danmv1.NetworkSpec{
		NetworkID: "wave", NetworkType: "macvlan",
		Options: danmv1.NetworkOptions{HostDevice: waveDevice, CIDR: "10.107.0.0/24", Net6: "fd10:107::/64"},
	}}
	definition := &nadv1.NetworkAttachmentDefinition{ObjectMeta: own}
	definition.Annotations = map[string]string{annotations.NetworkKey: `{"network":"wave"}`}
	for _, object := range []client.Object{network, definition} {
		e.does(t, fmt.Sprintf("create %T", object), func(ctx context.Context) error {
			return client.IgnoreAlreadyExists(e.Client.Create(ctx, object))
		})
	}
	e.waits(t, "the network to be Ready", func(ctx context.Context) (bool, string, error) {
		err := e.Client.Get(ctx, client.ObjectKeyFromObject(network), network)
		return meta.IsStatusConditionTrue(network.Status.Conditions, v1alpha1.ReadyCondition), fmt.Sprintf("%+v", network.Status.Conditions), err
	})
	return scene.WithSelections("wave@wave1")
}

// expectInterfaces requires that each pod has its second interface, with addresses of its
// own in the network.
func (e *env) expectInterfaces(t *testing.T, pods []*corev1.Pod) {
	t.Helper()
	holders := map[string]types.UID{}
	for _, pod := range pods {
		e.InNetNS(t, pod, "ip", "link", "show", "wave1")
	}
	list := new(v1alpha1.AddressList)
	e.does(t, "list addresses", func(ctx context.Context) error { return e.Client.List(ctx, list) })
	for _, address := range list.Items {
		if network := address.Spec.Network; network != nil && network.Namespace == pods[0].Namespace {
			holders[address.Spec.IP] = types.UID(address.Spec.Holder.UID)
		}
	}
	if len(holders) != 2*len(pods) {
		t.Errorf("%d addresses in the network for %d pods, want one of each family: %v", len(holders), len(pods), holders)
	}
}

// expectNothingOf waits until nothing is claimed in the networks of a namespace.
func (e *env) expectNothingOf(t *testing.T, namespace string) {
	t.Helper()
	e.waits(t, "no address of a network of "+namespace, func(ctx context.Context) (bool, string, error) {
		list := new(v1alpha1.AddressList)
		if err := e.Client.List(ctx, list); err != nil {
			return false, "", err
		}
		left := 0
		for _, address := range list.Items {
			if network := address.Spec.Network; network != nil && network.Namespace == namespace {
				left++
			}
		}
		return left == 0, fmt.Sprintf("%d addresses", left), nil
	})
}

// layer2Network makes a network without addresses on the nodes' own device. It returns the network,
// and an option that gives a pod an interface in it.
func (e *env) layer2Network(t *testing.T, tenant *scene.Tenant) (*danmv1.DanmNet, scene.PodOption) {
	t.Helper()
	own := metav1.ObjectMeta{Namespace: tenant.Namespace.Name, Name: "layer2"}
	network := &danmv1.DanmNet{ObjectMeta: own, Spec: danmv1.NetworkSpec{
		NetworkID: "layer2", NetworkType: "macvlan", Options: danmv1.NetworkOptions{HostDevice: "eth0"},
	}}
	definition := &nadv1.NetworkAttachmentDefinition{ObjectMeta: own}
	definition.Annotations = map[string]string{annotations.NetworkKey: `{"network":"layer2"}`}
	e.Make(t, network, definition)
	return network, scene.WithSelections("layer2")
}

// deleteInUse deletes a network, and waits until its status names the node that keeps it.
func (e *env) deleteInUse(t *testing.T, network *danmv1.DanmNet, node string) {
	t.Helper()
	e.does(t, "delete the network", func(ctx context.Context) error { return e.Client.Delete(ctx, network) })
	e.waits(t, "the network to name the node that keeps it", func(ctx context.Context) (bool, string, error) {
		err := e.Client.Get(ctx, client.ObjectKeyFromObject(network), network)
		ready := meta.FindStatusCondition(network.Status.Conditions, v1alpha1.ReadyCondition)
		return ready != nil && strings.Contains(ready.Message, node), fmt.Sprintf("%+v", ready), err
	})
}
