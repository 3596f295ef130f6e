// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package updown

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/alioth-net/alioth/test/cluster"
	"github.com/alioth-net/alioth/test/cluster/objects"
	"github.com/alioth-net/alioth/test/images"
	"github.com/alioth-net/alioth/test/testtool/report"
	"github.com/alioth-net/alioth/test/waits"
)

// daemonSet has a pod on each node, deployment one on a node.
const (
	daemonSet  = "{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: %[1]s}, spec: {selector: {matchLabels: {app: %[1]s}}, template: %[2]s}}\n---\n"
	deployment = "{apiVersion: apps/v1, kind: Deployment, metadata: {name: %[1]s}, spec: {selector: {matchLabels: {app: %[1]s}}, template: %[2]s}}\n---\n"
	template   = `{metadata: {labels: {app: %s}}, spec: {nodeSelector: {%s}, terminationGracePeriodSeconds: 0, containers: [{name: main, image: "%s", imagePullPolicy: Never, command: [/testtool, serve]}]}}`
	service    = "{apiVersion: v1, kind: Service, metadata: {name: %[1]s}, spec: {type: NodePort, ipFamilyPolicy: PreferDualStack, selector: {app: %[1]s}, ports: [{port: %[2]d}]}}\n---\n"
)

// apps are the sets of pods, each with a Service. Pods that stay keep their network until somebody
// restarts them, which the test does with those that move after each change. A drain evicts
// the pod far on the second node.
var apps = []string{"stays", "moves", "far"}

// town is a cluster whose nodes change their network one after the other.
type town struct {
	*beside
	*guide
	// alioth are the nodes whose new pods are of Alioth.
	alioth map[string]bool
}

func (w *town) start(t *testing.T) {
	t.Helper()
	manifest := ""
	for _, app := range apps {
		set, nodes := daemonSet, ""
		if app == "far" {
			set, nodes = deployment, "kubernetes.io/hostname: "+w.Nodes()[1].Name
		}
		manifest += fmt.Sprintf(set, app, fmt.Sprintf(template, app, nodes, images.TestTool)) + fmt.Sprintf(service, app, report.PortEcho)
	}
	ctx := w.within(t)
	if err := w.Apply(ctx, []byte(manifest)); err != nil {
		t.Fatal(err)
	}
	w.await(t)
}

// restart starts the pods of a DaemonSet again, as the page says.
func (w *town) restart(t *testing.T, name string) {
	t.Helper()
	for _, verb := range []string{"restart", "status"} {
		if out, err := w.Kubectl(w.within(t), "rollout", verb, "daemonset", name); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
}

// resident is a running pod of the town.
type resident struct {
	app, pod, node string
	ips            []netip.Addr
}

// ofAlioth reports whether Alioth has attached the pod.
func (r resident) ofAlioth() bool { return aliothRange.Contains(r.ips[0]) }

// aliothRange is the default VPC of besideValues.
var aliothRange = netip.MustParsePrefix("10.100.0.0/16")

// await returns the pods of the town once all are Ready.
func (w *town) await(t *testing.T) (all []resident) {
	t.Helper()
	want := map[string]int{"stays": len(w.Nodes()), "moves": len(w.Nodes()), "far": 1}
	for _, app := range apps {
		pods, err := w.WaitPodsReady(w.within(t), "default", "app="+app, want[app])
		if err != nil {
			t.Fatal(err)
		}
		for i := range pods {
			r := resident{app: app, pod: pods[i].Name, node: pods[i].Spec.NodeName}
			for _, ip := range pods[i].Status.PodIPs {
				r.ips = append(r.ips, netip.MustParseAddr(ip.IP))
			}
			if len(r.ips) != 2 {
				t.Fatalf("%s has the addresses %v, want one per family", r.pod, r.ips)
			}
			all = append(all, r)
		}
	}
	return all
}

// find returns the pod of a set on a node.
func find(t *testing.T, all []resident, app, node string) resident {
	t.Helper()
	i := slices.IndexFunc(all, func(r resident) bool { return r.app == app && r.node == node })
	if i < 0 {
		t.Fatalf("no pod of %s runs on %s: %+v", app, node, all)
	}
	return all[i]
}

// expectGuide requires the networks of new pods, and all paths that the page names.
func (w *town) expectGuide(t *testing.T) {
	t.Helper()
	all := w.await(t)
	for _, r := range all {
		if r.app != "stays" && r.ofAlioth() != w.alioth[r.node] {
			t.Errorf("%s on %s has the addresses %v, want Alioth's: %t", r.pod, r.node, r.ips, w.alioth[r.node])
		}
	}
	for _, r := range all {
		w.expectPaths(t, r, all)
	}
}

// expectPaths requires what one pod reaches, and nothing else. A Service has to answer each
// time: with the wrong backends it answers now and then.
func (w *town) expectPaths(t *testing.T, from resident, all []resident) {
	t.Helper()
	always, never := w.always(t, from, all), []string{}
	for _, to := range all {
		for _, ip := range to.ips {
			target := "icmp://" + literal(ip)
			if from.ofAlioth() || !to.ofAlioth() {
				always = append(always, target)
			} else {
				never = append(never, target)
			}
		}
	}
	w.expectAnswers(t, from, true, 8, 2*time.Second, always)
	w.expectAnswers(t, from, false, 1, time.Second, never)
}

// always are the Services that a pod reaches with each attempt: those for all, and those with
// backends in its network alone. Alioth alone leaves the backends of other networks out.
func (w *town) always(t *testing.T, from resident, all []resident) (targets []string) {
	t.Helper()
	targets = []string{"connect://10.96.0.1:443", "connect://10.96.0.10:53", "connect://[fd96::a]:53"}
	for _, app := range apps {
		var here, there int
		for _, r := range all {
			switch {
			case r.app != app:
			case r.ofAlioth() == from.ofAlioth():
				here++
			default:
				there++
			}
		}
		service, err := w.Client().CoreV1().Services("default").Get(w.within(t), app, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		// A bridge leads no pod to itself.
		if here > 0 && (from.ofAlioth() || there == 0 && app != from.app) {
			for _, ip := range service.Spec.ClusterIPs {
				targets = append(targets, tcp(netip.MustParseAddr(ip), report.PortEcho))
			}
		}
		if app == "far" {
			targets = append(targets, w.nodePorts(t, from, service, all)...)
		}
	}
	return targets
}

// nodePorts are the node ports at which a pod reaches the pod far: those of other nodes in whose
// network it is.
func (w *town) nodePorts(t *testing.T, from resident, service *corev1.Service, all []resident) (targets []string) {
	t.Helper()
	far := find(t, all, "far", w.Nodes()[1].Name)
	for _, node := range w.Nodes() {
		if node.Name != from.node && w.alioth[node.Name] == far.ofAlioth() {
			for _, ip := range []netip.Addr{node.IPv4, node.IPv6} {
				targets = append(targets, tcp(ip, uint16(service.Spec.Ports[0].NodePort)))
			}
		}
	}
	return targets
}

func tcp(ip netip.Addr, port uint16) string { return "tcp://" + netip.AddrPortFrom(ip, port).String() }

func literal(ip netip.Addr) string {
	if ip.Is6() {
		return "[" + ip.String() + "]"
	}
	return ip.String()
}

// expectAnswers asks each target so often, and requires that each attempt succeeds, or none.
func (w *town) expectAnswers(t *testing.T, from resident, want bool, count int, timeout time.Duration, targets []string) {
	t.Helper()
	if len(targets) == 0 {
		return
	}
	// Programs of a node learn of backends some time after the API server.
	ctx, cancel := context.WithTimeout(w.within(t), waits.Limit(time.Minute))
	defer cancel()
	command := append([]string{"/testtool", "probe", "--count", fmt.Sprint(count), "--timeout", timeout.String()}, targets...)
	err := objects.WaitFor(ctx, from.pod+" on "+from.node+" reaches what it has to", func(ctx context.Context) error {
		out, err := w.ExecInPod(ctx, "default", from.pod, "", command...)
		if err != nil {
			return err
		}
		return differing(out, want)
	})
	if err != nil {
		t.Errorf("from %+v: %v", from, err)
	}
}

// differing returns an error with the answers that are not as wanted.
func differing(out string, want bool) error {
	var wrong []string
	for lines := bufio.NewScanner(strings.NewReader(out)); lines.Scan(); {
		var probe report.Probe
		if err := json.Unmarshal(lines.Bytes(), &probe); err != nil {
			return fmt.Errorf("read %q: %w", lines.Text(), err)
		}
		if probe.OK != want {
			wrong = append(wrong, fmt.Sprintf("%s answers: %t %s", probe.Target, probe.OK, probe.Error))
		}
	}
	if len(wrong) > 0 {
		return fmt.Errorf("%s", strings.Join(wrong, "\n"))
	}
	return nil
}

// talk is a conversation that has to survive what happens meanwhile.
type talk struct {
	lab  *cluster.Cluster
	pod  string
	done chan error
	out  string
}

// stopFile ends a talk.
const stopFile = "/tmp/stop"

// begin lets a pod talk to another one over one socket each of TCP and UDP and each family.
func (w *town) begin(ctx context.Context, t *testing.T, from, to resident) *talk {
	t.Helper()
	k := &talk{lab: w.Cluster, pod: from.pod, done: make(chan error, 1)}
	command := []string{"/testtool", "converse", "--stop-file", stopFile, "--begun-file", stopFile + ".begun"}
	for _, ip := range to.ips {
		for _, network := range []string{"tcp", "udp"} {
			command = append(command, network+"://"+netip.AddrPortFrom(ip, report.PortEcho).String())
		}
	}
	go func() {
		var err error
		k.out, err = w.ExecInPod(ctx, "default", from.pod, "", command...)
		k.done <- err
	}()
	err := objects.WaitFor(w.within(t), "the conversation begins", func(ctx context.Context) error {
		_, err := w.ExecInPod(ctx, "default", from.pod, "", "test", "-e", stopFile+".begun")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// expectUnbroken ends a talk, and requires that no line of it was lost.
func (k *talk) expectUnbroken(ctx context.Context, t *testing.T) {
	t.Helper()
	if _, err := k.lab.ExecInPod(ctx, "default", k.pod, "", "touch", stopFile); err != nil {
		t.Fatal(err)
	}
	if err := <-k.done; err != nil {
		t.Fatal(err)
	}
	var talks []report.Conversation
	if err := json.Unmarshal([]byte(k.out), &talks); err != nil {
		t.Fatal(err)
	}
	for _, talk := range talks {
		t.Logf("%s: %d lines, %d answered", talk.Target, talk.Sent, talk.Answered)
		// The end of the command may come before the last answer.
		if talk.Broken != 0 || talk.Sent-talk.Answered > 1 || talk.Answered == 0 {
			t.Errorf("%s: %d of %d lines were answered, broken %d times: %v", talk.Target, talk.Answered, talk.Sent, talk.Broken, talk.Breaks)
		}
	}
}
