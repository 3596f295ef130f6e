// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/alioth-net/alioth/api/annotations"
	danmv1 "github.com/alioth-net/alioth/api/danm/v1"
	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
	"github.com/alioth-net/alioth/test/testtool/report"
)

// demo is the svcwatcher demo of DANM: an external client, load balancers and internal
// processors, of two tenants.
type demo struct {
	*env
	vnf, client *scene.Tenant
	text        string
	// pods by the name of their Deployment.
	pods map[string][]*corev1.Pod
}

// newDemo reads the manifests of the demo with these differences: the namespaces are the tenants'
// own; the networks are macvlan on cables of their own in place of a VLAN and a VXLAN, which the
// lab's kernel lacks.
func (e *env) newDemo(t *testing.T) *demo {
	t.Helper()
	text, err := os.ReadFile("testdata/danm/demo.yaml")
	if err != nil {
		t.Fatal(err)
	}
	d := &demo{env: e, vnf: e.Tenant(t, stage.Overlapping("vnf")), client: e.Tenant(t, stage.Overlapping("client")), pods: map[string][]*corev1.Pod{}}
	e.wire(t, "demo0")
	e.wire(t, "demo1")
	d.text = strings.NewReplacer(
		"namespace: vnf\n", "namespace: "+d.vnf.Namespace.Name+"\n", "namespace: external-client\n", "namespace: "+d.client.Namespace.Name+"\n",
		"NetworkType: ipvlan", "NetworkType: macvlan",
		"host_device: ens4\n    vlan: 300", "host_device: demo0", "host_device: ens4\n    vxlan: 600", "host_device: demo1",
	).Replace(string(text))
	return d
}

// ofKind decodes the objects of a kind in the order of the manifests.
func ofKind[O any](t *testing.T, d *demo, kind string) []*O {
	t.Helper()
	var all []*O
	for document := range strings.SplitSeq(d.text, "\n---\n") {
		var header metav1.TypeMeta
		if err := yaml.Unmarshal([]byte(document), &header); err != nil {
			t.Fatal(err)
		}
		if header.Kind != kind {
			continue
		}
		object := new(O)
		if err := yaml.UnmarshalStrict([]byte(document), object); err != nil {
			t.Fatalf("read a %s: %v", kind, err)
		}
		all = append(all, object)
	}
	return all
}

// run runs two pods of each Deployment of the demo, on both nodes. The client has an interface in
// its own VPC beside the interface of the demo. It asks DNS through its own VPC.
func (d *demo) run(t *testing.T) {
	t.Helper()
	first, second := d.Nodes()
	var all []*corev1.Pod
	for _, deployment := range ofKind[appsv1.Deployment](t, d, "Deployment") {
		list := deployment.Spec.Template.Annotations[annotations.InterfacesKey]
		if deployment.Namespace == d.client.Namespace.Name {
			list = strings.Replace(list, "[", `[{"vpc":"`+d.client.VPC.Name+`"},`, 1)
		}
		for i, node := range []string{first, second} {
			pod := scene.Pod(deployment.Namespace, fmt.Sprintf("%s-%d", deployment.Name, i), scene.OnNode(node), scene.WithInterfaces(list),
				scene.WithLabel("app", deployment.Name), scene.WithReadiness(httpProbe("/healthz")))
			d.pods[deployment.Name] = append(d.pods[deployment.Name], pod)
			all = append(all, pod)
		}
	}
	d.runFor(t, all...)
}

// on returns the addresses of a device of pods, sorted as text.
func (d *demo) on(t *testing.T, device string, pods ...*corev1.Pod) []string {
	t.Helper()
	var all []string
	for _, pod := range pods {
		all = append(all, d.onDevice(t, pod, device, false).String())
	}
	slices.Sort(all)
	return all
}

func (d *demo) name(service string) string {
	return service + "." + d.vnf.Namespace.Name + ".svc.cluster.local"
}

// talks asks the peers at their addresses of a device, and requires that each answers, and
// sees the asker at the address of its own device.
func (d *demo) talks(t *testing.T, asker *corev1.Pod, own, device string, peers ...*corev1.Pod) {
	t.Helper()
	from := d.onDevice(t, asker, own, false).String()
	for _, peer := range peers {
		results, err := d.Ask(within(t, patience), asker, answerTime, scene.Target("tcp", d.onDevice(t, peer, device, false)))
		if err != nil {
			t.Fatal(err)
		}
		if r := results[0]; !r.OK || r.Name != scene.ServerName(peer.Namespace, peer.Name) || r.Peer != from {
			t.Errorf("%s answers %s as %q and sees it at %s: %s; want %s and %s", r.Target, asker.Name, r.Name, r.Peer, r.Error, peer.Name, from)
		}
	}
}

// The demo of the DANM user guide, "Multi-domain service discovery in Kubernetes": each pod finds
// its peers by the name of a Service, at their addresses in the network that the Service names, and
// never at their addresses in the management network.
func TestNetworkServices_PeersByName_NetworkAddressesReached(t *testing.T) {
	t.Parallel()
	e := start(t)
	d := e.newDemo(t)
	for _, network := range ofKind[danmv1.DanmNet](t, d, "DanmNet") {
		e.makeNetwork(t, network)
		e.awaitNetwork(t, network, func() []metav1.Condition { return network.Status.Conditions })
	}
	d.run(t)
	services := map[string]*corev1.Service{}
	for _, service := range ofKind[corev1.Service](t, d, "Service") {
		e.Make(t, service)
		services[service.Name] = service
	}
	balancers, processors, outsider := d.pods["load-balancer"], d.pods["internal-processor"], d.pods["external-client"][0]

	e.awaitAddresses(t, outsider, d.name("vnf-external-svc"), d.on(t, "ext1", balancers...)...)
	e.awaitAddresses(t, balancers[0], d.name("vnf-internal-processor"), d.on(t, "int1", processors...)...)
	e.awaitAddresses(t, processors[0], d.name("vnf-internal-lb"), d.on(t, "int2", balancers...)...)
	d.talks(t, outsider, "ext1", "ext1", balancers...)
	d.talks(t, balancers[0], "int2", "int1", processors...)
	d.talks(t, processors[1], "int1", "int2", balancers...)
	d.servesInVPC(t, balancers[0], processors)
	d.servesOnInterfaces(t, balancers, processors)

	if err := e.SetHealth(within(t, patience), balancers[0], false); err != nil {
		t.Fatal(err)
	}
	e.awaitAddresses(t, outsider, d.name("vnf-external-svc"), d.on(t, "ext1", balancers[1])...)
	e.edit(t, processors[0], func() { processors[0].Labels["app"] = "retired" })
	e.awaitAddresses(t, balancers[0], d.name("vnf-internal-processor"), d.on(t, "int1", processors[1])...)
	e.edit(t, services["vnf-internal-lb"], func() { services["vnf-internal-lb"].Annotations = nil })
	e.awaitNoAddress(t, processors[1], d.name("vnf-internal-lb"))
}

// servesInVPC requires that a ClusterIP leads to the addresses in the VPC, as it does for a
// Service with a selector.
func (d *demo) servesInVPC(t *testing.T, asker *corev1.Pod, processors []*corev1.Pod) {
	t.Helper()
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: d.vnf.Namespace.Name, Name: "by-vpc", Annotations: map[string]string{
			annotations.EndpointSelectorKey: `{"app":"internal-processor"}`, annotations.NetworkKey: "DanmNet/management",
		}},
		Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "echo", Port: report.PortEcho}}},
	}
	d.Make(t, service)
	target := scene.Target("tcp", netip.MustParseAddr(service.Spec.ClusterIP))
	d.awaitReach(t, asker, true, target)
	results, err := d.Ask(within(t, patience), asker, answerTime, target)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(processors, func(pod *corev1.Pod) bool { return results[0].Name == scene.ServerName(pod.Namespace, pod.Name) }) {
		t.Errorf("the ClusterIP leads to %q (%s), want a processor", results[0].Name, results[0].Error)
	}
}

// servesOnInterfaces requires that a ClusterIP leads to the addresses in the network of the
// Service, from pods on both nodes that are attached to it: by each kind of socket, which
// sees the ClusterIP as its peer, and over the interface in the network, at whose address
// the backend sees the asker.
func (d *demo) servesOnInterfaces(t *testing.T, askers, processors []*corev1.Pod) {
	t.Helper()
	service := serviceOf(d.vnf.Namespace.Name, "by-interface", "")
	service.Spec.Selector, service.Spec.IPFamilies, service.Spec.IPFamilyPolicy = nil, nil, nil
	service.Annotations = map[string]string{annotations.EndpointSelectorKey: `{"app":"internal-processor"}`, annotations.NetworkKey: "DanmNet/internal"}
	d.Make(t, service)
	for _, asker := range askers {
		own := d.onDevice(t, asker, "int2", false)
		d.awaitSockets(t, asker, "answers at the ClusterIP over the network of the Service", service, func(r report.Socket) string {
			kind, address, _ := strings.Cut(r.Target, "://")
			peer, _ := netip.ParseAddrPort(r.Peer)
			byProcessor := slices.ContainsFunc(processors, func(pod *corev1.Pod) bool { return r.Name == scene.ServerName(pod.Namespace, pod.Name) })
			if r.Error == "" && byProcessor && peer.Addr() == own && (kind == "sendto" || r.PeerName == address) {
				return ""
			}
			return fmt.Sprintf("%+v", r)
		})
	}
}

// edit patches an object.
func (e *env) edit(t *testing.T, object client.Object, change func()) {
	t.Helper()
	if err := e.Client.Get(within(t, patience), client.ObjectKeyFromObject(object), object); err != nil {
		t.Fatal(err)
	}
	before := object.DeepCopyObject().(client.Object)
	change()
	if err := e.Client.Patch(within(t, patience), object, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}

// awaitNoAddress waits until a name has no address.
func (e *env) awaitNoAddress(t *testing.T, asker *corev1.Pod, name string) {
	t.Helper()
	err := scene.Until(within(t, patience), name+" to have no address", func(ctx context.Context) (bool, string, error) {
		out, err := e.Exec(ctx, asker, scene.Tool, "resolve", name)
		return err != nil && strings.Contains(err.Error(), "no such host"), fmt.Sprint(out, err), nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
