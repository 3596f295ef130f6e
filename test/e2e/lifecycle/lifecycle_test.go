// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/test/cluster"
	"github.com/alioth-net/alioth/test/cluster/census"
	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
	"github.com/alioth-net/alioth/test/waits"
)

const (
	// patience is how long something may take that should take seconds.
	patience = 3 * time.Minute
	// root of the work tree, seen from this package's folder.
	root = "../../.."
	// chart is its folder in the work tree.
	chart = "helm/alioth"
)

// suite is all tests of this package, on one lab.
var suite = stage.NewSuite("lifecycle", root)

func TestMain(m *testing.M) { os.Exit(suite.Main(m)) }

// life is the lab, with the steps of its life.
type life struct{ *stage.Env }

// newLife returns the suite's lab, which is whole again at the end: the removal takes
// cluster DNS away.
func newLife(t *testing.T) *life {
	t.Helper()
	l := &life{suite.Start(t)}
	t.Cleanup(func() {
		options := cluster.Options{Topology: l.Lab.Topology(), Progress: func(line string) { t.Log("lab:", line) }}
		if _, err := cluster.Up(context.Background(), root, options); err != nil {
			t.Errorf("complete the lab: %v", err)
		}
	})
	return l
}

func within(t *testing.T) context.Context {
	t.Helper()
	return waits.Within(t, patience)
}

// helm runs Helm and returns its output, also when it failed.
func (l *life) helm(t *testing.T, arguments ...string) (string, error) {
	t.Helper()
	return l.Lab.Helm(within(t), append(arguments, "--namespace", cluster.SystemNamespace)...)
}

// install installs or upgrades the chart in folder with the values that the
// lab gave it.
func (l *life) install(t *testing.T, folder string) {
	t.Helper()
	out, err := l.helm(t, "upgrade", "--install", "alioth", folder, "--create-namespace",
		"--set", "apiServer.host="+l.Lab.Nodes()[0].IPv4.String(), "--set", "apiServer.port=6443",
		"--set", "image.tag=dev", "--set", "image.pullPolicy=Never", "--wait", "--timeout", "2m")
	if err != nil {
		t.Fatalf("install the chart: %v\n%s", err, out)
	}
}

func TestChart_InstallationToRemoval_NothingLeft(t *testing.T) {
	l := newLife(t)
	tenant := l.Tenant(t, scene.TenantSpec{
		Name: "blue", CIDRs: []string{"10.10.0.0/16"}, Subnets: []scene.Range{{Name: "net1", CIDRs: []string{"10.10.1.0/24"}}},
	})
	l.expectNothingOfNodes(t, tenant)
	pods := l.startPods(t, tenant, "before")

	t.Run("an upgrade changes the CRDs and keeps the objects, pods and connections", func(t *testing.T) {
		// The values differ from the lab's, so operator and daemons are replaced.
		l.expectUpgrade(t, pods, func(context.Context) { l.install(t, changedChart(t)) })
		l.expectColumn(t)
		l.expectReach(t, pods)
		l.startPods(t, tenant, "after-the-upgrade")
		l.ExpectAgreement(t)
	})
	t.Run("an uninstall is refused while pods have addresses, and changes nothing", func(t *testing.T) {
		if out, err := l.helm(t, "uninstall", "alioth", "--timeout", "2m"); err == nil {
			t.Fatalf("the uninstall went through although pods run:\n%s", out)
		}
		l.expectReach(t, pods)
		l.startPods(t, tenant, "after-the-refusal")
		l.ExpectAgreement(t)
	})
	t.Run("an uninstall without pods leaves nothing on any node", func(t *testing.T) {
		l.removePods(t, tenant)
		if out, err := l.helm(t, "uninstall", "alioth", "--timeout", "2m", "--wait"); err != nil {
			t.Fatalf("uninstall: %v\n%s", err, out)
		}
		for _, node := range l.Lab.Nodes() {
			l.expectClean(t, node.Name)
		}
		l.expectNothingOfTheChart(t)
	})
	t.Run("a new installation serves pods again", func(t *testing.T) {
		l.install(t, filepath.Join(root, chart))
		if err := l.Lab.WaitNodesReady(within(t)); err != nil {
			t.Fatal(err)
		}
		again := l.Tenant(t, scene.TenantSpec{
			Name: "red", CIDRs: []string{"10.10.0.0/16"}, Subnets: []scene.Range{{Name: "net1", CIDRs: []string{"10.10.1.0/24"}}},
		})
		l.expectNothingOfNodes(t, again)
		l.expectReach(t, l.startPods(t, again, "again"))
		l.ExpectAgreement(t)
	})
}

// startPods starts a pod with an HTTP probe on every node.
func (l *life) startPods(t *testing.T, tenant *scene.Tenant, name string) []*corev1.Pod {
	t.Helper()
	var pods []*corev1.Pod
	for _, node := range l.Lab.Nodes() {
		pods = append(pods, tenant.Pod(name+"-"+node.Name, scene.OnNode(node.Name)))
	}
	if err := l.Start(within(t), pods...); err != nil {
		t.Fatal(err)
	}
	return pods
}

// expectReach requires that the first pod reaches the others.
func (l *life) expectReach(t *testing.T, pods []*corev1.Pod) {
	t.Helper()
	for _, to := range pods[1:] {
		results, err := l.Ask(within(t), pods[0], 10*time.Second, scene.Targets(scene.Protocols(), scene.IPs(to)...)...)
		if err != nil {
			t.Fatal(err)
		}
		for _, result := range results {
			if !result.OK {
				t.Errorf("%s from %s: no answer: %s", result.Target, pods[0].Name, result.Error)
			}
		}
	}
}

// expectNothingOfNodes requires that admission refuses a tenant everything that no object grants:
// the network of the nodes, a port of theirs and an external IP.
func (l *life) expectNothingOfNodes(t *testing.T, tenant *scene.Tenant) {
	t.Helper()
	const noGrant = "no HostAccess grants "
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: tenant.Namespace.Name, Name: "outside"},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}, ExternalIPs: []string{"192.0.2.1"}},
	}
	for why, object := range map[string]client.Object{
		noGrant + "the network of the nodes":                     tenant.Pod("on-the-node", func(p *corev1.Pod) { p.Spec.HostNetwork = true }),
		noGrant + "8080/TCP":                                     tenant.Pod("at-a-port", scene.WithHostPort(corev1.ProtocolTCP, "", 8080, 80)),
		"no ExternalPool with use: ExternalIPs grants 192.0.2.1": service,
	} {
		err := l.Client.Create(within(t), object, client.DryRunAll)
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v, want it forbidden with %q", object.GetName(), err, why)
		}
	}
}

// newColumn is a printer column that no released chart has.
const newColumn = "E2E"

// changedChart copies the chart and gives the CRD of VPCs another column.
func changedChart(t *testing.T) string {
	t.Helper()
	folder := filepath.Join(t.TempDir(), "alioth")
	if err := os.CopyFS(folder, os.DirFS(filepath.Join(root, chart))); err != nil {
		t.Fatalf("copy the chart: %v", err)
	}
	file := filepath.Join(folder, "files/crds/alioth.dev_vpcs.yaml")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	const columns = "additionalPrinterColumns:\n"
	changed := strings.Replace(string(text), columns, columns+"    - jsonPath: .spec.egress\n      name: "+newColumn+"\n      type: string\n", 1)
	if changed == string(text) {
		t.Fatal("the CRD of VPCs has no printer columns to add to")
	}
	if err := os.WriteFile(file, []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
	return folder
}

// expectColumn requires that the cluster has the changed CRD.
func (l *life) expectColumn(t *testing.T) {
	t.Helper()
	crds := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	crd, err := l.Lab.Dynamic().Resource(crds).Get(within(t), "vpcs.alioth.dev", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(fmt.Sprint(crd.Object["spec"]), newColumn) {
		t.Error("the upgrade left the CRD of VPCs as it was")
	}
}

// removePods removes everything that holds an address: the tenant's pods and
// cluster DNS.
func (l *life) removePods(t *testing.T, tenant *scene.Tenant) {
	t.Helper()
	if err := l.Delete(within(t), tenant.Namespace); err != nil {
		t.Fatal(err)
	}
	deployments := l.Lab.Client().AppsV1().Deployments(metav1.NamespaceSystem)
	if err := deployments.DeleteCollection(within(t), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	err := scene.Until(within(t), "cluster DNS to be gone", func(ctx context.Context) (bool, string, error) {
		var list corev1.PodList
		err := l.Client.List(ctx, &list, client.InNamespace(metav1.NamespaceSystem))
		return err == nil && len(list.Items) == 0, fmt.Sprintf("%d pods", len(list.Items)), err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// left are the kinds of Kubernetes whose objects a removal leaves: CRDs with the API groups that
// they serve, the namespace with the objects that Kubernetes has in each, and labels of
// administrators.
var left = []string{definitions, "apiregistration.k8s.io/apiservices", "/namespaces", "/serviceaccounts", "/configmaps"}

// definitions is the kind of CRDs in a census.
const definitions = "apiextensions.k8s.io/customresourcedefinitions"

// expectNothingOfTheChart requires that no object has a name, label, annotation, finalizer, taint
// or condition of Alioth. The kinds stay with their objects (crds.keep), as
// docs/install/uninstall.md says. Nodes of the lab have alioth in their names.
func (l *life) expectNothingOfTheChart(t *testing.T) {
	t.Helper()
	lines, err := census.Objects(within(t), l.Lab.Config())
	if err != nil {
		t.Fatal(err)
	}
	kept := slices.Clone(left)
	for _, line := range lines {
		if words := strings.Fields(line); words[0] == definitions {
			resource, group, _ := strings.Cut(strings.TrimPrefix(words[1], "/"), ".")
			kept = append(kept, group+"/"+resource)
		}
	}
	for _, line := range lines {
		kind, rest, _ := strings.Cut(line, " ")
		name, marks, _ := strings.Cut(rest, " ")
		if slices.ContainsFunc(l.Lab.Nodes(), func(node cluster.Node) bool { return name == "/"+node.Name }) {
			name = ""
		}
		if strings.Contains(marks, v1alpha1.Finalizer) || strings.Contains(name+" "+marks, "alioth") && !slices.Contains(kept, kind) {
			t.Errorf("left in the API: %s", line)
		}
	}
}

// expectClean requires that a node has nothing of Alioth's left.
func (l *life) expectClean(t *testing.T, node string) {
	t.Helper()
	checks := map[string][]string{
		"devices":           {"sh", "-c", "ls /sys/class/net | grep -E '^(alioth_|alv)' || true"},
		"pinned objects":    {"sh", "-c", "find /sys/fs/bpf -mindepth 1 -name '*alioth*'"},
		"packet filters":    {"sh", "-c", "nft list tables | grep alioth || true"},
		"CNI configuration": {"sh", "-c", "ls /etc/cni/net.d | grep alioth || true"},
		"CNI programs":      {"sh", "-c", "ls /opt/cni/bin | grep alioth || true"},
		"state":             {"sh", "-c", "find /var/lib/alioth /run/alioth -type f -o -type s 2>/dev/null || true"},
		"shadow routes":     {"sh", "-c", "ip route show table all | grep 169.254.64 || true"},
	}
	for what, command := range checks {
		out, err := l.Lab.NodeExec(within(t), node, command...)
		if err != nil {
			t.Fatal(err)
		}
		if left := strings.TrimSpace(out); left != "" {
			t.Errorf("%s left on %s:\n%s", what, node, left)
		}
	}
}
