// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package updown

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/alioth-net/alioth/cnid/inspect/preflight"
	"github.com/alioth-net/alioth/cnid/inspect/preflight/survey"
	"github.com/alioth-net/alioth/test/cluster"
	"github.com/alioth-net/alioth/test/cluster/census"
	"github.com/alioth-net/alioth/test/cluster/objects"
	"github.com/alioth-net/alioth/test/images"
	"github.com/alioth-net/alioth/test/soak"
	"github.com/alioth-net/alioth/test/testtool/report"
	"github.com/alioth-net/alioth/test/waits"
)

// besideValues are the values of docs/install/existing-network.md, for a lab whose other
// network has the chart's own range.
const besideValues = `
apiServer: {host: %s, port: 6443}
image: {tag: dev, pullPolicy: Never}
crds: {keep: false}
defaultVPC:
  cidrs: [10.100.0.0/16, "fd10:100::/48"]
  subnets: [{name: default, cidrs: [10.100.0.0/16, "fd10:100::/64"]}]
`

// otherNetworks are those that pods have before Alioth comes.
var otherNetworks = []cluster.CNI{cluster.CNIBridge, cluster.CNIFlannel}

// beside is a lab with pods of another network, where Alioth comes and goes.
type beside struct {
	*cluster.Cluster
	values string
}

// TestAlioth_BesideOtherNetwork_ComesAndGoes: pods of the other network run all the time, and in
// the end the cluster has the same objects as before.
func TestAlioth_BesideOtherNetwork_ComesAndGoes(t *testing.T) {
	soak.Only(t)
	for _, network := range otherNetworks {
		t.Run(string(network), func(t *testing.T) { testComesAndGoes(t, network) })
	}
}

func testComesAndGoes(t *testing.T, network cluster.CNI) {
	f := newFixture(t)
	f.options.CNI = network
	b := f.beside(t, "")
	c := b.Cluster
	startPods(t, c, "old", images.TestTool)
	b.expectPing(t, "old1", "old2")
	before := b.census(t)
	b.expectPreflight(t)
	if _, err := c.Helm(b.within(t), "install", "alioth", filepath.Join(f.root, "helm", "alioth"), "--namespace", cluster.SystemNamespace, "--create-namespace",
		"--values", b.values, "--wait", "--timeout", "3m"); err != nil {
		t.Fatal(err)
	}
	b.expectPing(t, "old1", "old2")
	startPods(t, c, "new", images.TestTool)
	b.expectAddress(t, "new1", "10.100.")
	b.expectPing(t, "new1", "new2")
	b.expectPing(t, "old2", "old1")
	b.expectBetween(t)
	b.expectTraces(t)
	b.expectRefusal(t)
	b.deletePods(t, "new1", "new2")
	if _, err := c.Helm(b.within(t), "uninstall", "alioth", "--namespace", cluster.SystemNamespace, "--timeout", "3m", "--wait"); err != nil {
		t.Fatal(err)
	}
	if err := c.Client().CoreV1().Namespaces().Delete(b.within(t), cluster.SystemNamespace, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	b.expectPing(t, "old1", "old2")
	startPods(t, c, "again", images.TestTool)
	b.expectAddress(t, "again1", "10.244.1.")
	b.expectPing(t, "again1", "old2")
	b.deletePods(t, "again1", "again2")
	if network == cluster.CNIFlannel {
		b.restartFlannel(t)
	}
	b.expectCensus(t, before)
	f.traces.learn(t)
	f.down(t)
}

// beside brings the lab up. It uses the values of the page, and further ones.
func (f *fixture) beside(t *testing.T, further string) *beside {
	t.Helper()
	builder := &images.Builder{Root: f.root, Out: filepath.Join(f.options.Dir, "images"), Progress: f.options.Progress}
	image, err := builder.Build(t.Context(), images.Alioth)
	if err != nil {
		t.Fatal(err)
	}
	f.options.Images = []string{image.Path}
	c, err := cluster.Up(t.Context(), f.root, f.options)
	if err != nil {
		t.Fatal(err)
	}
	b := &beside{Cluster: c, values: filepath.Join(t.TempDir(), "values.yaml")}
	if err := os.WriteFile(b.values, fmt.Appendf(nil, besideValues+further, c.Nodes()[0].IPv4), 0o600); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *beside) within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waits.Limit(4*time.Minute))
	t.Cleanup(cancel)
	return ctx
}

// expectPing requires that a pod reaches another one over both families.
func (b *beside) expectPing(t *testing.T, from, to string) {
	t.Helper()
	ctx := b.within(t)
	pod, err := b.Client().CoreV1().Pods("default").Get(ctx, to, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(pod.Status.PodIPs) != 2 {
		t.Errorf("%s has the addresses %v, want one per family", to, pod.Status.PodIPs)
	}
	for _, ip := range pod.Status.PodIPs {
		if _, err := b.ExecInPod(ctx, "default", from, "", "ping", "-c", "1", "-W", "5", ip.IP); err != nil {
			t.Errorf("%s does not reach %s: %v", from, to, err)
		}
	}
}

// serverBehindANodePort is a pod of Alioth with a Service.
const serverBehindANodePort = `
apiVersion: v1
kind: Pod
metadata: {name: server, labels: {app: server}}
spec:
  nodeName: %s
  terminationGracePeriodSeconds: 0
  containers:
    - {name: main, image: "%s", imagePullPolicy: Never, command: [/testtool, serve]}
---
apiVersion: v1
kind: Service
metadata: {name: server}
spec:
  type: NodePort
  ipFamilyPolicy: PreferDualStack
  selector: {app: server}
  ports: [{port: %d, nodePort: 30080}]
`

// expectBetween requires the paths between the two networks that docs/install/existing-network.md
// names: pods of Alioth reach the others; these reach pods of Alioth by NodePorts alone.
func (b *beside) expectBetween(t *testing.T) {
	t.Helper()
	ctx, first := b.within(t), b.Nodes()[0]
	b.expectPing(t, "new1", "old1")
	b.expectPing(t, "new1", "old2")
	new1, err := b.Client().CoreV1().Pods("default").Get(ctx, "new1", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.ExecInPod(ctx, "default", "old1", "", "ping", "-c", "1", "-W", "2", new1.Status.PodIP); err == nil {
		t.Error("a pod of the other network reaches one of Alioth by its address, which the page denies")
	}
	if err := b.Apply(ctx, fmt.Appendf(nil, serverBehindANodePort, first.Name, images.TestTool, report.PortEcho)); err != nil {
		t.Fatal(err)
	}
	if err := b.WaitPodReady(ctx, "default", "server"); err != nil {
		t.Fatal(err)
	}
	soon, cancel := context.WithTimeout(ctx, waits.Limit(30*time.Second))
	defer cancel()
	for _, name := range []string{"old1", "old2"} {
		for _, node := range b.Nodes() {
			err := objects.WaitFor(soon, name+" reaches a NodePort of "+node.Name, func(ctx context.Context) error {
				_, err := b.ExecInPod(ctx, "default", name, "", "sh", "-c", "echo hello | nc -w 3 "+node.IPv4.String()+" 30080")
				return err
			})
			if err != nil {
				t.Error(err)
			}
		}
	}
	if err := b.Client().CoreV1().Services("default").Delete(ctx, "server", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	b.deletePods(t, "server")
}

func (b *beside) expectAddress(t *testing.T, name, begin string) {
	t.Helper()
	pod, err := b.Client().CoreV1().Pods("default").Get(b.within(t), name, metav1.GetOptions{})
	if err != nil || !strings.HasPrefix(pod.Status.PodIP, begin) {
		t.Errorf("%s has the address %s (%v), want one that begins with %s", name, pod.Status.PodIP, err, begin)
	}
}

// expectPreflight requires that aliothctl preflight knows the situation, by pods on the nodes.
func (b *beside) expectPreflight(t *testing.T) {
	t.Helper()
	text, err := os.ReadFile(b.values)
	if err != nil {
		t.Fatal(err)
	}
	values, err := preflight.ParseValues(text)
	if err != nil {
		t.Fatal(err)
	}
	reader, err := survey.New(b.Config())
	if err != nil {
		t.Fatal(err)
	}
	facts, err := reader.Cluster(b.within(t), cluster.SystemNamespace, "alioth")
	if err != nil {
		t.Fatal(err)
	}
	findings := preflight.JudgeCluster(facts, values, true)
	pods := survey.NodePods{Namespace: "kube-system", Image: images.Alioth, PullPolicy: "Never", Within: waits.Limit(time.Minute), Values: values}
	for _, node := range reader.Inside(b.within(t), facts.Linux(values), pods) {
		findings = append(findings, preflight.JudgeNode(node, values)...)
	}
	found := ""
	for _, finding := range preflight.Sorted(findings) {
		found += finding.String() + "\n"
	}
	for _, want := range []string{"4 pods have addresses of the present network", "10-" + string(b.CNI()) + ".conflist is the configuration of another network", "/opt/cni/bin has the plugins bridge, host-local"} {
		if !strings.Contains(found, want) {
			t.Errorf("preflight does not tell: %s", want)
		}
	}
	if preflight.Blocks(findings) || strings.Contains(found, string(preflight.NotRead)) {
		t.Errorf("preflight prevents the installation, or lacks facts:\n%s", found)
	}
}

// expectRefusal requires that pods of Alioth prevent its removal, and others do not.
func (b *beside) expectRefusal(t *testing.T) {
	t.Helper()
	out, err := b.Helm(b.within(t), "uninstall", "alioth", "--namespace", cluster.SystemNamespace, "--timeout", "2m")
	if err == nil || !strings.Contains(out, "default/new1, default/new2; delete them first") {
		t.Errorf("the removal is not refused because of the pods new1 and new2 alone: %v\n%s", err, out)
	}
	b.expectPing(t, "new2", "new1")
}

func (b *beside) deletePods(t *testing.T, names ...string) {
	t.Helper()
	pods := b.Client().CoreV1().Pods("default")
	for _, name := range names {
		if err := pods.Delete(b.within(t), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	err := objects.WaitFor(b.within(t), "the pods are gone", func(ctx context.Context) error {
		list, err := pods.List(ctx, metav1.ListOptions{})
		for i := range list.Items {
			for _, name := range names {
				if list.Items[i].Name == name {
					return fmt.Errorf("%s is still there", name)
				}
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// restartFlannel lets flannel write its condition of the nodes again, which Alioth has replaced.
func (b *beside) restartFlannel(t *testing.T) {
	t.Helper()
	for _, node := range b.Nodes() {
		for _, step := range []func(context.Context, string) error{b.StopProcess, b.StartProcess} {
			if err := step(b.within(t), node.Name+"/flannel"); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// census lists the objects of the cluster and the state of its nodes.
func (b *beside) census(t *testing.T) []string {
	t.Helper()
	lines, err := census.Objects(b.within(t), b.Config())
	if err != nil {
		t.Fatal(err)
	}
	for _, node := range b.Nodes() {
		found, err := census.Node(b.within(t), b.NodeExec, node.Name)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range found {
			lines = append(lines, node.Name+": "+line)
		}
	}
	return lines
}

// expectTraces requires that the census has the objects that Alioth adds to a cluster and to a
// node: otherwise a removal could leave them unseen.
func (b *beside) expectTraces(t *testing.T) {
	t.Helper()
	all := strings.Join(b.census(t), "\n")
	for _, want := range []string{
		"/nodes /" + b.Nodes()[0].Name, "alioth.dev/NetworkHealthy", "NetworkUnavailable", "rbac.authorization.k8s.io/clusterroles /alioth-operator ",
		"admissionregistration.k8s.io/validatingadmissionpolicies /alioth-", "flowcontrol.apiserver.k8s.io/flowschemas /alioth-", "customresourcedefinitions /vpcs.alioth.dev ",
		"alioth.dev/vpcs /default annotations", "finalizers=alioth.dev/in-use", ": link alioth_vxlan: ", ": address alioth_node ", ": nft table inet alioth ",
		": file /etc/cni/net.d/05-alioth.conflist", ": file /opt/cni/bin/alioth-ipam", ": file /sys/fs/bpf/alioth/links/", ": file /var/lib/alioth/journal.log",
		": file /run/alioth/cnid.sock", ": setting net.ipv4.ip_forward = 1", ": route -4 10.100.0.0/16 ",
	} {
		if !strings.Contains(all, want) {
			t.Errorf("the census has no %q while Alioth is installed", want)
		}
	}
}

// expectCensus waits until the cluster has the same objects as before: the API server removes a
// namespace and the kernel a device some time after the request.
func (b *beside) expectCensus(t *testing.T, before []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waits.Limit(time.Minute))
	defer cancel()
	err := objects.WaitFor(ctx, "the cluster is as it was", func(context.Context) error {
		if diff := cmp.Diff(before, b.census(t)); diff != "" {
			return fmt.Errorf("(-before +after):\n%s", diff)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
