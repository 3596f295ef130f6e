// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"net/netip"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	arktosv1 "github.com/alioth-net/alioth/api/arktos/v1"
	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
)

// arktosManifest reads one object of testdata. The manifests come from the Arktos integration
// document, with two differences: the nic annotation is quoted, since an annotation is a string,
// and the image is the test image, since the lab has no registry.
func arktosManifest(t *testing.T, file, vpc string, into any) {
	t.Helper()
	text, err := os.ReadFile("testdata/arktos/" + file)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict([]byte(strings.ReplaceAll(string(text), "vpc-1a2b3c4d", vpc)), into); err != nil {
		t.Fatalf("read %s: %v", file, err)
	}
}

func TestArktosManifests_TwoTenantsAtOnce_EachServed(t *testing.T) {
	t.Parallel()
	e := start(t)
	first, second := e.Nodes()
	pods := map[string]*corev1.Pod{}
	var peers []*corev1.Pod
	for tenantName, node := range map[string]string{"customer-a": first, "customer-b": second} {
		tenant := e.Tenant(t, scene.TenantSpec{
			Name: tenantName, Network: "of-the-lab", CIDRs: []string{"10.10.0.0/16"},
			Subnets: []scene.Range{{Name: "net1", CIDRs: []string{"10.10.1.0/24"}}},
		})
		namespace := tenant.Namespace.Name
		network, pod := &arktosv1.Network{}, &corev1.Pod{}
		arktosManifest(t, "network.yaml", tenant.VPC.Name, network)
		arktosManifest(t, "pod.yaml", tenant.VPC.Name, pod)
		network.Namespace, pod.Namespace = namespace, namespace
		pod.Spec.Containers[0].Command = append(pod.Spec.Containers[0].Command, "--name", scene.ServerName(namespace, "nginx"))
		scene.OnNode(node)(pod)
		if err := e.Create(within(t, patience), network); err != nil { // it goes with its namespace
			t.Fatal(err)
		}
		// With an address of its own: the manifest may ask for the next free one.
		peer := scene.Pod(namespace, "peer", scene.InNetwork("vpc-1"), scene.OnNode(first), scene.WithNIC(`{"ip": "10.10.1.113"}`))
		e.Run(t, pod, peer)
		pods[tenant.VPC.Name], peers = pod, append(peers, peer)
	}
	for vpc, pod := range pods {
		t.Run("the pod of "+pod.Namespace+" gets the address, subnet and annotations that it asked for", func(t *testing.T) {
			if got := scene.IPs(pod); len(got) != 1 || got[0] != netip.MustParseAddr("10.10.1.12") {
				t.Errorf("pod has %v, want 10.10.1.12", got)
			}
			e.checkAnnotations(t, pod, vpc, "net1")
			if got, want := pod.Annotations[arktosv1.NICAnnotation], `{"name": "eth0", "ip": "10.10.1.12", "subnet": "net1"}`; got != want {
				t.Errorf("nic annotation is %s, want %s as the user wrote it", got, want)
			}
		})
	}
	for _, peer := range peers {
		t.Run("one address leads each tenant to its own pod, from "+peer.Namespace, func(t *testing.T) {
			want := map[string]string{}
			for _, target := range scene.Targets(scene.Protocols(), netip.MustParseAddr("10.10.1.12")) {
				want[target] = scene.ServerName(peer.Namespace, "nginx")
			}
			e.expectAnswers(t, peer, want)
		})
	}
}

func TestNetworks_ManyNameOneVPC_PodsConnected(t *testing.T) {
	t.Parallel()
	e := start(t)
	tenant := e.Tenant(t, stage.Overlapping("many"))
	namespace := tenant.Namespace.Name
	other := scene.Namespace(unique("many"), tenant.Name)
	e.Make(t, other)
	if err := e.Create(within(t, patience), scene.Network(namespace, "by-another-name", tenant.VPC.Name)); err != nil { // it goes with its namespace
		t.Fatal(err)
	}
	if err := e.WaitForAccount(within(t, patience), other.Name); err != nil {
		t.Fatal(err)
	}
	pods := []*corev1.Pod{
		tenant.Pod("default"),
		scene.Pod(namespace, "named", scene.InNetwork("by-another-name")),
		scene.Pod(other.Name, "from-the-tenants-other-namespace", scene.InNetwork("by-another-name")),
	}
	e.Run(t, pods...)
	for _, from := range pods {
		e.expectAnswers(t, from, wantOthers(from, pods))
	}
}
