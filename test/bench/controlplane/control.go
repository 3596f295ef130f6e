// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	arktosv1 "github.com/alioth-net/alioth/api/arktos/v1"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/test/api/apiserver"
	"github.com/alioth-net/alioth/test/bench/plane"
	"github.com/alioth-net/alioth/test/e2e/scene"
)

// control is a control plane without nodes, with the objects that the measurements write there.
type control struct{ *plane.Plane }

func (b *Bench) newControl(ctx context.Context) (*control, error) {
	p, err := plane.New(ctx, b.root, apiserver.New, b.step)
	return &control{p}, err
}

// tenant makes a tenant with a VPC, one IPv4 subnet and a default Network, all
// of one name, and waits until pods can use it.
func (c *control) tenant(ctx context.Context, name string) error {
	vpc := &v1alpha1.VPC{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       v1alpha1.VPCSpec{CIDRs: []string{"10.50.0.0/16"}, AllowedTenants: []string{name}},
	}
	network := &arktosv1.Network{
		ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: arktosv1.DefaultNetwork},
		Spec:       arktosv1.NetworkSpec{Type: arktosv1.TypeMizar, VPCID: name},
	}
	for _, object := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1alpha1.TenantLabel: name}}},
		vpc,
		&v1alpha1.Subnet{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.SubnetSpec{VPC: name, CIDRs: []string{"10.50.0.0/20"}},
		},
		network,
	} {
		if err := c.Create(ctx, object); err != nil {
			return fmt.Errorf("create %T %s: %w", object, name, err)
		}
	}
	return scene.Until(ctx, "Network "+name+" to be ready", func(ctx context.Context) (bool, string, error) {
		if err := c.Get(ctx, client.ObjectKeyFromObject(network), network); err != nil {
			return false, "", err
		}
		for _, condition := range network.Status.Conditions {
			if condition.Type == v1alpha1.ReadyCondition && condition.Status == metav1.ConditionTrue {
				return true, "", nil
			}
		}
		return false, fmt.Sprint(network.Status.Conditions), nil
	})
}

// nodes makes Node objects for a number of pods of a namespace.
func (c *control) nodes(ctx context.Context, namespace string, pods int) error {
	for i := 0; i < pods; i += podsPerNode {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeOf(namespace, i)}}
		if err := c.Create(ctx, node); err != nil {
			return fmt.Errorf("create node %s: %w", node.Name, err)
		}
	}
	return nil
}

func nodeOf(namespace string, pod int) string {
	return fmt.Sprintf("%s-node-%d", namespace, pod/podsPerNode)
}

// podName returns the name of a namespace's pod by its number.
func podName(i int) string { return fmt.Sprintf("pod-%04d", i) }

// schedule makes a pod that is bound to a node that runs nothing.
func (c *control) schedule(ctx context.Context, namespace string, i int) error {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: podName(i)},
		Spec: corev1.PodSpec{
			NodeName: nodeOf(namespace, i), AutomountServiceAccountToken: new(bool),
			Containers: []corev1.Container{{Name: "main", Image: "example.com/none"}},
		},
	}
	if err := c.Create(ctx, pod); err != nil {
		return fmt.Errorf("create pod %s/%s: %w", namespace, pod.Name, err)
	}
	return nil
}
