// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package subscriptions

import (
	"errors"
	"testing"

	"github.com/alioth-net/alioth/api/netif"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/cnid/interfaces/journal"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/client/kube"
	"github.com/alioth-net/alioth/store/rows/multinet"
)

// verdictOn returns the operator's verdict about a Service that clients outside reach. With "" for
// the VPC, the Service is outside of every VPC.
func verdictOn(namespace, service, vpc string) *v1alpha1.ScaledEndpoint {
	spec := v1alpha1.ScaledEndpointSpec{
		Service: v1alpha1.ScaledService{Namespace: namespace, Name: service, UID: "u-" + service}, VPC: vpc, Exposed: true,
		Head: &v1alpha1.ScaledHead{Created: metav1.Now(), Ports: []v1alpha1.ScaledPort{{Protocol: "TCP", Port: 80, NodePort: 30080}}},
	}
	if vpc != "" {
		spec.VPCUID, spec.Head.InVPC = "u-"+vpc, &v1alpha1.ScaledVPC{VNI: 20, CIDRs: []string{"10.10.0.0/16"}}
	}
	if namespace+"/"+service == v1alpha1.APIServerService {
		spec.Head.AllJudged = v1alpha1.ScaledVersion
	}
	return &v1alpha1.ScaledEndpoint{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ScaledEndpointName(&spec)}, Spec: spec}
}

func namespaceNamed(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// podOn returns a pod of a node; with a port it asks for the port on the node.
func podOn(namespace, name, node string, hostPort int32) *corev1.Pod {
	c := corev1.Container{Name: "c", Image: "i"}
	if hostPort != 0 {
		c.Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: hostPort}}
	}
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{c}}}
}

// label changes an object without a meaning for nodes.
func (n *node) label(t *testing.T, object kube.Object) {
	t.Helper()
	if err := n.api.Get(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	object.SetLabels(map[string]string{"changed": "yes"})
	if err := n.api.Update(t.Context(), object); err != nil {
		t.Fatal(err)
	}
}

// TestSubscription_ExposedServices_NoNamespaceOrVPCReceived counts the events of a real API server
// to a node that goes by the operator's verdicts.
func TestSubscription_ExposedServices_NoNamespaceOrVPCReceived(t *testing.T) {
	n := newNode(t, Config{Node: "verdicts-1", DefaultVPC: "verdicts-default", NodePorts: true, ScaledEndpoints: true}, fixed(nil))
	n.create(t, vpcNamed("verdicts-default"), vpcNamed("verdicts-shop"),
		namespaceNamed("verdicts-far"), namespaceNamed("verdicts-plain"), namespaceNamed("verdicts-ports"),
		podOn("verdicts-plain", "p", "verdicts-1", 0), podOn("verdicts-far", "p", "verdicts-2", 8080),
		verdictOn("verdicts-far", "web", "verdicts-shop"), verdictOn("default", "kubernetes", ""))
	n.run(t)
	if n.NamespaceSynced("verdicts-ports").IsOpen() {
		t.Error("a namespace counts as read that nothing follows")
	}
	n.create(t, podOn("verdicts-ports", "p", "verdicts-1", 8080))
	n.await(t, "the namespace of a pod with a port of the node is read", n.NamespaceSynced("verdicts-ports"))
	n.rows.View(func(tx store.ReadTx) {
		if store.GetNamespace(tx, "verdicts-ports") == nil {
			t.Error("the namespace counts as read without its row")
		}
	})
	for _, name := range []string{"verdicts-far", "verdicts-plain", "verdicts-ports"} {
		n.label(t, namespaceNamed(name))
	}
	n.label(t, vpcNamed("verdicts-shop"))
	// Later objects of the same kinds: the API server sends the events of a kind in order.
	n.label(t, vpcNamed("verdicts-default"))
	n.label(t, verdictOn("verdicts-far", "web", "verdicts-shop"))
	n.receives(t, map[string]int{
		"Namespace verdicts-ports": 2, "Namespace verdicts-far": 0, "Namespace verdicts-plain": 0,
		"VPC verdicts-default": 2, "VPC verdicts-shop": 0, "ScaledEndpoint " + verdictOn("verdicts-far", "web", "verdicts-shop").Name: 2,
		"Pod p": 2,
	})
}

// receives waits until a node has received as many events of objects, and fails if there are
// more of one.
func (n *node) receives(t *testing.T, want map[string]int) {
	t.Helper()
	n.await(t, "enough events", func() (bool, <-chan struct{}) {
		changed := n.received.event()
		for object, count := range want {
			if n.received.count(object) < count {
				return false, changed
			}
		}
		return true, changed
	})
	for object, count := range want {
		if got := n.received.count(object); got != count {
			t.Errorf("%d times %s, want %d", got, object, count)
		}
	}
}

// TestSubscription_RecordsWithPorts_NamespacesFollowed: a record outlives its pod.
func TestSubscription_RecordsWithPorts_NamespacesFollowed(t *testing.T) {
	w := newTables(t)
	w.cfg.ScaledEndpoints, w.judged = true, true
	records := []journal.Record{
		{Identity: journal.Identity{Pod: journal.Pod{Namespace: "ports"}}, HostPorts: []journal.HostPort{{Protocol: "TCP", HostPort: 80, Port: 80}}},
		{Identity: journal.Identity{Pod: journal.Pod{Namespace: "plain"}}},
	}
	w.rows.View(func(tx store.ReadTx) {
		got := w.find(tx, records)
		if !got[ofNamespace("ports")] || got[ofNamespace("plain")] {
			t.Errorf("followed are %v, want namespace ports and not plain", got)
		}
	})
	w.cfg.ScaledEndpoints = false
	w.rows.View(func(tx store.ReadTx) {
		if got := w.find(tx, records); got[ofNamespace("ports")] {
			t.Errorf("a node that follows all namespaces follows one by itself: %v", got)
		}
	})
}

// TestSubscription_PodsWithPlugins_NamespacesFollowed: plugins of others run for no tenant's pods, and by
// no tenant's definitions.
func TestSubscription_PodsWithPlugins_NamespacesFollowed(t *testing.T) {
	w := newTables(t)
	w.cfg.ScaledEndpoints, w.judged = true, true
	claim := func(namespace, driver string) *multinet.Claim {
		return &multinet.Claim{
			Meta: store.Meta{UID: namespace}, Namespace: namespace, Name: "c", PodName: "p", PodUID: namespace, Node: w.cfg.Node, Interface: "net1", Driver: driver,
			Network: store.NetworkRef{Kind: multinet.KindDefinition, Namespace: namespace, Name: "lab", UID: "uid-" + namespace},
		}
	}
	if err := w.rows.Update(func(tx store.Tx) error {
		plugins := claim("plugins", netif.KindDelegate)
		plugins.Network.Namespace = "lender"
		return errors.Join(multinet.PutClaim(tx, plugins), multinet.PutClaim(tx, claim("plain", "macvlan")))
	}); err != nil {
		t.Fatal(err)
	}
	w.rows.View(func(tx store.ReadTx) {
		if got := w.find(tx, nil); !got[ofNamespace("plugins")] || !got[ofNamespace("lender")] || got[ofNamespace("plain")] {
			t.Errorf("followed are %v, want the namespaces plugins and lender and not plain", got)
		}
	})
}
