// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/test/cluster"
	"github.com/alioth-net/alioth/test/cluster/addons"
	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/testtool/report"
	"github.com/alioth-net/alioth/test/waits"
)

// besidePort is a hostPort of a tenant's pod.
const besidePort = 18090

// town has all kinds of clients and Services: two tenants with the same addresses, pods,
// Services and load-balancer addresses; the default VPC; a pod with a hostPort; and a
// host outside.
type town struct {
	*env
	shops [2]*shop
	// published are node ports that lead into each VPC.
	published []published
	// local is for clients outside at the one node with its backend.
	local *corev1.Service
	plain struct {
		server, asker *corev1.Pod
		service       *corev1.Service
	}
	open *corev1.Pod
	host *cluster.Host
}

func (e *env) town(t *testing.T) *town {
	t.Helper()
	first, second := e.Nodes()
	w := &town{env: e}
	for i, name := range []string{"beside-a", "beside-b"} {
		w.shops[i], _ = e.balanced(t, name)
		w.publish(t, w.shops[i].server)
	}
	w.local = serviceOf(w.shops[0].Namespace.Name, "local", "web")
	w.local.Spec.Type, w.local.Spec.LoadBalancerClass = corev1.ServiceTypeLoadBalancer, ptr.To(v1alpha1.LoadBalancerClass)
	w.local.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
	e.Make(t, w.local)
	beside := scene.WithHostPort(corev1.ProtocolTCP, "", besidePort, report.PortEcho)
	e.Grant(t, scene.HostAccess(w.shops[1].Name, []string{w.shops[1].Name}, fmt.Sprint(besidePort)), w.shops[1].Namespace.Name, beside)
	w.open = w.shops[1].Pod("open", scene.OnNode(second), beside)
	namespace := e.plainNamespace(t)
	w.plain.service = serviceOf(namespace, "web", "web")
	e.Make(t, w.plain.service)
	w.plain.server = scene.Pod(namespace, "server", scene.OnNode(first), scene.WithLabel("app", "web"))
	w.plain.asker = scene.Pod(namespace, "asker", scene.OnNode(second))
	w.publish(t, w.plain.server)
	e.Run(t, w.open, w.plain.server, w.plain.asker)
	w.host = e.outsideHost(t, "townsman", 209)
	return w
}

// publish gives pods of a namespace node ports.
func (w *town) publish(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	service := serviceOf(pod.Namespace, "ports", "web")
	service.Spec.Type = corev1.ServiceTypeNodePort
	w.Make(t, service)
	w.published = append(w.published, published{service, pod})
}

// expectAsEver requires that clients reach exactly the backends that Services allow. All ask at the
// same time.
func (w *town) expectAsEver(t *testing.T) {
	t.Helper()
	t.Run("all is as ever", func(t *testing.T) {
		beside := func(name string, expect func(*testing.T)) {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				expect(t)
			})
		}
		for i, s := range w.shops {
			for _, from := range []*corev1.Pod{s.near, s.far} {
				beside(s.Name+" from "+from.Name, func(t *testing.T) { w.expectShop(t, s, from) })
			}
			beside(s.Name+" and no other", func(t *testing.T) { w.expectSilence(t, s.far, vipTargets(w.shops[1-i].web)...) })
		}
		beside("the default VPC", w.expectPlain)
		for _, node := range w.Lab.Nodes() {
			beside("from "+node.Name, func(t *testing.T) { w.expectNodeReaches(t, node.Name) })
			for _, p := range w.published {
				beside("from outside "+p.pod.Namespace+" by "+node.Name, func(t *testing.T) {
					w.expectFromOutside(t, w.host, p, p.targetsAt(node.IPv4)...)
				})
			}
		}
		beside("health checks", w.expectHealthChecks)
		beside("hostPort", w.expectHostPort)
	})
}

// expectShop has a pod of a tenant ask the tenant's Services, cluster DNS and the API.
func (w *town) expectShop(t *testing.T, s *shop, from *corev1.Pod) {
	want := map[string]string{}
	for _, target := range append(vipTargets(s.web), scene.Targets(scene.Protocols(), balancedIPs...)...) {
		want[target] = scene.ServerName(s.Namespace.Name, s.server.Name)
	}
	w.expectAnswers(t, from, want)
	w.InPod(t, from, scene.Tool, "resolve", "kubernetes.default.svc.cluster.local")
	w.InPod(t, from, scene.Tool, "api", "/version")
}

func (w *town) expectPlain(t *testing.T) {
	want := map[string]string{}
	for _, target := range vipTargets(w.plain.service) {
		want[target] = scene.ServerName(w.plain.server.Namespace, w.plain.server.Name)
	}
	w.expectAnswers(t, w.plain.asker, want)
}

// expectNodeReaches has processes of a node ask.
func (w *town) expectNodeReaches(t *testing.T, from string) {
	targets := []string{"connect://10.96.0.10:53", "connect://10.96.0.1:443"}
	for _, ip := range w.plain.service.Spec.ClusterIPs {
		targets = append(targets, scene.Targets([]string{"tcp", "udp", "http"}, netip.MustParseAddr(ip))...)
	}
	for _, p := range w.published {
		for _, node := range w.Lab.Nodes() {
			targets = append(targets, p.targetsAt(node.IPv4)...)
		}
	}
	w.nodeReaches(t, from, targets...)
}

// expectHostPort asks from outside at the port that a pod has of its node.
func (w *town) expectHostPort(t *testing.T) {
	target := scene.TargetPort("tcp", w.Lab.Nodes()[1].IPv4, besidePort)
	results, err := scene.ParseLines[report.Probe](w.onHost(t, w.host, "probe", "--timeout", answerTime.String(), target))
	if err != nil || len(results) != 1 || results[0].Name != scene.ServerName(w.open.Namespace, w.open.Name) {
		t.Errorf("the hostPort is answered %+v, %v", results, err)
	}
}

// expectHealthChecks requires that each node reports whether it has a backend, whichever
// program answers there.
func (w *town) expectHealthChecks(t *testing.T) {
	for i, node := range w.Lab.Nodes() {
		url := "http://" + netip.AddrPortFrom(node.IPv4, uint16(w.local.Spec.HealthCheckNodePort)).String()
		err := scene.Until(within(t, patience), "the health check of "+node.Name, func(ctx context.Context) (bool, string, error) {
			answer, err := w.host.Exec(ctx, w.Tool, "get", url)
			answer = strings.ReplaceAll(answer, " ", "") // kube-proxy writes some
			has := err == nil && strings.Contains(answer, `"localEndpoints":1`)
			hasNot := strings.Contains(answer, `"localEndpoints":0`) && strings.Contains(fmt.Sprint(err), "503")
			return i == 0 && has || i == 1 && hasNot, fmt.Sprint(answer, err), nil
		})
		if err != nil {
			t.Error(err)
		}
	}
}

// kubeProxyRules are the commands that print the rules of kube-proxy, by mode, without counters.
var kubeProxyRules = map[string]string{
	"nftables": "for family in ip ip6; do nft -s list table $family kube-proxy; done | tr , '\\n'",
	"iptables": "for command in iptables-save ip6tables-save; do $command | grep KUBE | sed 's/ \\[.*//'; done",
}

func (w *town) rules(t *testing.T, node, mode string) string {
	t.Helper()
	lines := strings.Split(w.OnNode(t, node, "sh", "-c", "{ "+kubeProxyRules[mode]+"; } 2>/dev/null || true"), "\n")
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	return inOrder(lines)
}

// startKubeProxy returns when it is healthy on every node, and has programmed all.
func (w *town) startKubeProxy(t *testing.T, mode string) {
	t.Helper()
	vpc := &v1alpha1.VPC{}
	if err := w.Client.Get(within(t, patience), types.NamespacedName{Name: defaultVPC}, vpc); err != nil {
		t.Fatal(err)
	}
	for _, node := range w.Lab.Nodes() {
		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), waits.Limit(patience))
			defer cancel()
			if err := w.Lab.RemoveKubeProxy(ctx, node.Name); err != nil {
				t.Errorf("clean up: %v", err)
			}
		})
		if err := w.Lab.StartKubeProxy(within(t, 5*patience), node.Name, mode, strings.Join(vpc.Spec.CIDRs, ",")); err != nil {
			t.Fatal(err)
		}
	}
	w.awaitKubeProxy(t, mode)
}

// awaitKubeProxy waits until it is healthy on every node, and has rules for all node
// ports.
func (w *town) awaitKubeProxy(t *testing.T, mode string) {
	t.Helper()
	for _, node := range w.Lab.Nodes() {
		err := scene.Until(within(t, patience), "kube-proxy on "+node.Name, func(ctx context.Context) (bool, string, error) {
			answer, err := w.Lab.NodeExec(ctx, node.Name, w.Tool, "get", "http://"+addons.KubeProxyHealth+"/healthz")
			if err != nil {
				return false, "", err
			}
			rules := w.rules(t, node.Name, mode)
			for _, p := range w.published {
				for _, port := range p.service.Spec.Ports {
					if !strings.Contains(rules, fmt.Sprint(port.NodePort)) {
						return false, fmt.Sprintf("%s; %d bytes of rules without port %d", answer, len(rules), port.NodePort), nil
					}
				}
			}
			return true, "", nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestServices_KubeProxyBeside_Unchanged(t *testing.T) {
	e := start(t)
	w := e.town(t)
	w.expectAsEver(t)
	for _, mode := range []string{"nftables", "iptables"} {
		t.Run(mode, func(t *testing.T) { w.expectNoDifference(t, mode) })
	}
}

func (w *town) expectNoDifference(t *testing.T, mode string) {
	first, second := w.Nodes()
	w.startKubeProxy(t, mode)
	w.expectAsEver(t)
	before := [2]string{w.rules(t, first, mode), w.rules(t, second, mode)}
	w.killDaemons(t, first, second)
	w.expectAsEver(t)
	w.awaitKubeProxy(t, mode)
	if now := [2]string{w.rules(t, first, mode), w.rules(t, second, mode)}; now != before {
		t.Errorf("kube-proxy's rules were\n%s\nand are\n%s", before, now)
	}
	if mode == "nftables" {
		t.Run("node ports are left to it", w.expectItsNodePorts)
		w.expectAsEver(t)
	}
	w.expectGone(t, mode)
}

// expectGone ends kube-proxy, whose rules stay, and then takes these away.
func (w *town) expectGone(t *testing.T, mode string) {
	t.Helper()
	first, second := w.Nodes()
	for _, node := range []string{first, second} {
		if err := w.Lab.StopProcess(within(t, patience), node+"/kube-proxy"); err != nil {
			t.Fatal(err)
		}
	}
	w.killDaemon(t, second)
	w.expectAsEver(t)
	for _, node := range []string{first, second} {
		if err := w.Lab.RemoveKubeProxy(within(t, patience), node); err != nil {
			t.Fatal(err)
		}
		if left := w.rules(t, node, mode); left != "" {
			t.Errorf("kube-proxy has left on %s:\n%s", node, left)
		}
	}
	w.expectAsEver(t)
}

// setNodePorts changes the chart's value, and waits until all daemons have it.
func (w *town) setNodePorts(t *testing.T, served bool) {
	t.Helper()
	_, err := w.Lab.Helm(within(t, 3*patience), "upgrade", "alioth", "../../helm/alioth", "--namespace", cluster.SystemNamespace,
		"--reuse-values", "--no-hooks", "--set", fmt.Sprintf("daemon.nodePorts=%t", served), "--wait", "--timeout", "4m")
	if err != nil {
		t.Fatal(err)
	}
}

// expectItsNodePorts requires that kube-proxy serves the node port of a pod on its node's
// own network while Alioth serves no node ports.
func (w *town) expectItsNodePorts(t *testing.T) {
	first, _ := w.Nodes()
	pod := scene.Pod(w.plain.server.Namespace, "on-the-node", scene.OnNode(first), scene.WithLabel("app", "on-the-node"))
	pod.Spec.HostNetwork = true
	service := serviceOf(pod.Namespace, "on-the-node", "on-the-node")
	service.Spec.Type = corev1.ServiceTypeNodePort
	w.Make(t, service)
	w.Run(t, pod)
	t.Cleanup(func() { w.setNodePorts(t, true) })
	w.setNodePorts(t, false)
	for _, node := range w.Lab.Nodes() {
		targets := published{service, pod}.targetsAt(node.IPv4)
		err := scene.Until(within(t, patience), "kube-proxy to serve "+node.Name, func(context.Context) (bool, string, error) {
			answered := 0
			results := w.knock(t, w.host, targets...)
			for _, r := range results {
				if r.OK && r.Name == scene.ServerName(pod.Namespace, pod.Name) {
					answered++
				}
			}
			return answered == len(targets), fmt.Sprintf("%+v", results), nil
		})
		if err != nil {
			t.Error(err)
		}
	}
}
