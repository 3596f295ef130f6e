// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeipam

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/test/cluster"
	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
	"github.com/alioth-net/alioth/test/images"
	"github.com/alioth-net/alioth/test/testtool/report"
	"github.com/alioth-net/alioth/test/waits"
)

const root = "../../.."

// bridgeRange is the range of the infrastructure subnet. bridgePlugin is the example in
// docs/operate/node-ipam-api.md, with the bridge that UsePlugin removes.
const (
	bridgeRange  = "10.250.0.0/16"
	bridgePlugin = `{"cniVersion":"1.0.0","name":"infra","plugins":[{"type":"bridge","bridge":"infra-br","isGateway":true,"ipMasq":false,"ipam":{"type":"alioth-ipam"}}]}`
)

// TestDocumentedBridge_Pods_ProbedAndServed: with an infrastructure subnet of its own, pods of the
// plugin bridge answer the kubelet's probes. With kube-proxy and the DNS server of the guide they
// reach ClusterIPs by their names.
func TestDocumentedBridge_Pods_ProbedAndServed(t *testing.T) {
	e := &env{Env: suite.Start(t)}
	e.other, e.node = e.Nodes()
	vpc := &v1alpha1.VPC{ObjectMeta: metav1.ObjectMeta{Name: "infra"}, Spec: v1alpha1.VPCSpec{CIDRs: []string{bridgeRange}}}
	subnet := &v1alpha1.Subnet{ObjectMeta: metav1.ObjectMeta{Name: "infra"}, Spec: v1alpha1.SubnetSpec{VPC: "infra", CIDRs: []string{bridgeRange}}}
	e.Make(t, vpc, subnet)
	t.Cleanup(func() { e.setInfraSubnet(t, v1alpha1.DefaultVPCName) })
	e.setInfraSubnet(t, subnet.Name)
	e.UsePlugin(t, e.node, bridgePlugin)
	e.startKubeProxy(t)
	dns := e.startDNS(t)
	namespace := e.PlainNamespace(t)
	pod := e.run(t, scene.Pod(namespace, "bridged", scene.OnNode(e.node), withNameServer(dns), scene.WithReadiness(corev1.ProbeHandler{
		HTTPGet: &corev1.HTTPGetAction{Path: "/healthz", Port: intstr.FromInt32(report.PortHTTP)},
	})))
	if ip := scene.IP(pod, false); !netip.MustParsePrefix(bridgeRange).Contains(ip) {
		t.Fatalf("the pod has %s, want an address of %s", ip, bridgeRange)
	}
	e.expectClusterIPs(t, pod)
	e.expectReleased(t, pod)
}

// expectClusterIPs resolves the name of the API server's Service in a pod, and requests from
// the Service. Rules of kube-proxy for a new Service may lag behind.
func (e *env) expectClusterIPs(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	api := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "kubernetes", Namespace: metav1.NamespaceDefault}}
	if err := e.Client.Get(stage.Within(t, stage.Patience), client.ObjectKeyFromObject(api), api); err != nil {
		t.Fatal(err)
	}
	e.waits(t, "the name of the API server's Service to resolve", func(ctx context.Context) (bool, string, error) {
		out, err := e.Exec(ctx, pod, scene.Tool, "resolve", "--timeout", "2s", "kubernetes.default.svc.cluster.local.")
		return err == nil && strings.TrimSpace(out) == api.Spec.ClusterIP, fmt.Sprintf("%s %v", out, err), nil
	})
	if out := e.InPod(t, pod, scene.Tool, "api"); !strings.Contains(out, "gitVersion") {
		t.Errorf("the API server answers %s", out)
	}
}

// startKubeProxy runs kube-proxy on the node with the bridge, as the guide says.
func (e *env) startKubeProxy(t *testing.T) {
	t.Helper()
	vpc := &v1alpha1.VPC{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.DefaultVPCName}}
	if err := e.Client.Get(stage.Within(t, stage.Patience), client.ObjectKeyFromObject(vpc), vpc); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), waits.Limit(stage.Patience))
		defer cancel()
		if err := e.Lab.RemoveKubeProxy(ctx, e.node); err != nil {
			t.Errorf("clean up: %v", err)
		}
	})
	if err := e.Lab.StartKubeProxy(stage.Within(t, 5*stage.Patience), e.node, "nftables", strings.Join(vpc.Spec.CIDRs, ",")); err != nil {
		t.Fatal(err)
	}
}

// startDNS applies the DNS server of the guide with the lab's image, and returns the
// ClusterIP of its Service.
func (e *env) startDNS(t *testing.T) string {
	t.Helper()
	for _, object := range dnsOfTheGuide(t) {
		e.Make(t, object)
	}
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "infra-dns", Namespace: metav1.NamespaceSystem}}
	if err := e.Client.Get(stage.Within(t, stage.Patience), client.ObjectKeyFromObject(service), service); err != nil {
		t.Fatal(err)
	}
	return service.Spec.ClusterIP
}

// dnsOfTheGuide returns the objects of the guide's block with the DNS server. Their image is
// the lab's, which has no registry.
func dnsOfTheGuide(t *testing.T) (objects []client.Object) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "docs", "operate", "node-ipam-api.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ = bytes.Cut(text, []byte("#### ClusterIPs and DNS of a bridge's pods"))
	_, text, _ = bytes.Cut(text, []byte("```yaml\n"))
	text, _, found := bytes.Cut(text, []byte("```"))
	if !found {
		t.Fatal("the guide has no DNS server for pods of a bridge")
	}
	text = regexp.MustCompile(`image: .*coredns.*`).ReplaceAll(text, []byte("image: "+images.CoreDNS+"\n          imagePullPolicy: Never"))
	decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), len(text))
	for {
		object := new(unstructured.Unstructured)
		if err := decoder.Decode(object); errors.Is(err, io.EOF) {
			return objects
		} else if err != nil {
			t.Fatal(err)
		}
		objects = append(objects, object)
	}
}

// withNameServer makes a DNS server the only one of a pod.
func withNameServer(address string) scene.PodOption {
	return func(pod *corev1.Pod) {
		pod.Spec.DNSPolicy = corev1.DNSNone
		pod.Spec.DNSConfig = &corev1.PodDNSConfig{Nameservers: []string{address}}
	}
}

// setInfraSubnet changes the chart's value, and waits until the operators have it.
func (e *env) setInfraSubnet(t *testing.T, name string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), waits.Limit(stage.Patience))
	defer cancel()
	out, err := e.Lab.Helm(ctx, "upgrade", "alioth", filepath.Join(root, "helm", "alioth"), "--namespace", cluster.SystemNamespace,
		"--reuse-values", "--no-hooks", "--set", "nodeIPAM.infraSubnet="+name, "--wait", "--timeout", "3m")
	if err != nil {
		t.Fatalf("set the infrastructure subnet: %v\n%s", err, out)
	}
}
