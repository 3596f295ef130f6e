// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/test/waits"
)

// inZone puts a node into a zone, and takes it out when the test ends.
func (e *env) inZone(t *testing.T, node, zone string) {
	t.Helper()
	label := func(ctx context.Context, value string) error {
		text := fmt.Sprintf(`{"metadata": {"labels": {%q: %s}}}`, corev1.LabelTopologyZone, value)
		object := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}
		return e.Client.Patch(ctx, object, client.RawPatch(types.MergePatchType, []byte(text)))
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), waits.Limit(patience))
		defer cancel()
		if err := label(ctx, "null"); err != nil {
			t.Errorf("take %s out of its zone: %v", node, err)
		}
	})
	if err := label(within(t, patience), fmt.Sprintf("%q", zone)); err != nil {
		t.Fatal(err)
	}
}

func preferring(distribution string) func(*corev1.Service) {
	return func(s *corev1.Service) { s.Spec.TrafficDistribution = ptr.To(distribution) }
}

// prefersNearOnes uses the hints that the cluster's controller writes, with both nodes in one zone
// and then in two. No other test minds where they are.
func (f *fleet) prefersNearOnes(t *testing.T) {
	first, second := f.e.Nodes()
	f.e.inZone(t, first, "e2e-a")
	f.e.inZone(t, second, "e2e-a")
	same := f.service(t, "same-zone", preferring(corev1.ServiceTrafficDistributionPreferSameZone))
	closest := f.service(t, "close", preferring(corev1.ServiceTrafficDistributionPreferClose))
	node := f.service(t, "same-node", preferring(corev1.ServiceTrafficDistributionPreferSameNode))
	near, far := []*corev1.Pod{f.near, f.nearMachine}, []*corev1.Pod{f.far, f.farMachine}
	here, there := []*corev1.Pod{f.backends[0], f.backends[2]}, []*corev1.Pod{f.backends[1]}
	everywhere := append(here[:2:2], there...)
	for _, service := range []*corev1.Service{same, closest, node} {
		f.put(t, service, everywhere...)
	}
	byZone := append(at(same, "tcp"), at(closest, "tcp")...)
	f.awaitHeard(t, near, byZone, everywhere...)
	f.awaitHeard(t, near, at(node, "tcp"), here...)
	f.awaitHeard(t, far, at(node, "tcp"), there...)

	f.e.inZone(t, second, "e2e-b")
	for _, service := range []*corev1.Service{same, closest} {
		f.put(t, service, here...) // Kubernetes asks for zones when pods change
		f.put(t, service, everywhere...)
	}
	f.awaitHeard(t, near, byZone, here...)
	f.awaitHeard(t, far, byZone, there...)
	f.awaitHeard(t, near, at(same, "udp", "http"), here...)
	f.awaitHeard(t, far, at(same, "udp", "http"), there...)

	for _, service := range []*corev1.Service{same, closest, node} {
		f.put(t, service, here...)
	}
	f.awaitHeard(t, far, append(byZone, at(node, "tcp")...), here...)
}
