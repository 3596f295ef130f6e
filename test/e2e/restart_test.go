// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"strconv"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/alioth-net/alioth/test/cluster"
	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
	"github.com/alioth-net/alioth/test/testtool/report"
)

// traffic is a long stream and a fast ping from one pod to an address, which
// run until told to stop.
type traffic struct {
	name   string
	from   *corev1.Pod
	stop   string
	done   sync.WaitGroup
	stream report.Stream
	ping   report.Ping
	errs   [2]error
}

// startTraffic starts a stream and a ping each millisecond, and returns once
// the stream flows.
func (e *env) startTraffic(ctx context.Context, t *testing.T, name string, from *corev1.Pod, to netip.Addr) *traffic {
	t.Helper()
	tr := &traffic{name: name, from: from, stop: "/tmp/" + unique("stop")}
	begun := tr.stop + ".begun"
	address := netip.AddrPortFrom(to, report.PortStream).String()
	tr.done.Go(func() {
		tr.errs[0] = e.execJSON(ctx, from, &tr.stream, scene.Tool, "stream", address, "--stop-file", tr.stop, "--begun-file", begun)
	})
	tr.done.Go(func() {
		tr.errs[1] = e.execJSON(ctx, from, &tr.ping, scene.Tool, "ping", to.String(), "--interval", "1ms", "--wait", "3s", "--stop-file", tr.stop)
	})
	err := scene.Until(ctx, name+" to flow", func(ctx context.Context) (bool, string, error) {
		_, err := e.Exec(ctx, from, "test", "-e", begun)
		return err == nil, "no record is back", nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

// execJSON runs a command in a pod and reads the JSON value that it prints.
func (e *env) execJSON(ctx context.Context, pod *corev1.Pod, into any, command ...string) error {
	out, err := e.Exec(ctx, pod, command...)
	if err != nil {
		return err
	}
	if err := json.Unmarshal([]byte(out), into); err != nil {
		return fmt.Errorf("read %q: %w", out, err)
	}
	return nil
}

// expectUnharmed stops the traffic and requires that no connection broke and
// at most one packet got lost.
func (e *env) expectUnharmed(t *testing.T, tr *traffic) {
	t.Helper()
	e.InPod(t, tr.from, "touch", tr.stop)
	tr.done.Wait()
	for _, err := range tr.errs {
		if err != nil {
			t.Errorf("%s: %v", tr.name, err)
			return
		}
	}
	t.Logf("%s: %d records, longest silence %s; %d pings, %d lost, longest gap %d", tr.name,
		tr.stream.Sent, tr.stream.LongestSilence.Round(time.Millisecond), tr.ping.Sent, tr.ping.Lost, tr.ping.LongestGap)
	if s := tr.stream; s.Reconnects != 0 || s.Corrupt != 0 || s.Returned != s.Sent || s.Sent < 100 {
		t.Errorf("%s: the stream was harmed: %+v", tr.name, s)
	}
	if p := tr.ping; p.Lost > 1 || p.Sent < 100 {
		t.Errorf("%s: the ping was harmed: %+v", tr.name, p)
	}
}

func TestTheDaemonRestartsWithoutHarmToTraffic(t *testing.T) {
	e := start(t)
	first, second := e.Nodes()
	blue, red := e.Tenant(t, stage.Overlapping("blue")), e.Tenant(t, stage.Overlapping("red"))
	near, far := blue.Pod("near", scene.OnNode(first)), blue.Pod("far", scene.OnNode(second))
	client, other := blue.Pod("client", scene.OnNode(first)), red.Pod("client", scene.OnNode(second))
	otherFar := red.Pod("far", scene.OnNode(first))
	e.Run(t, near, far, client, other, otherFar)

	interruptions := []struct {
		name string
		do   func(t *testing.T)
	}{
		{"killed on both nodes, one after the other", func(t *testing.T) {
			e.killDaemon(t, first)
			e.killDaemon(t, second)
		}},
		{"rolled out anew", func(t *testing.T) { e.rollOutDaemon(t) }},
	}
	for _, interruption := range interruptions {
		t.Run(interruption.name, func(t *testing.T) {
			ctx := within(t, 4*patience)
			flows := []*traffic{
				e.startTraffic(ctx, t, "same node, IPv4", client, scene.IP(near, false)),
				e.startTraffic(ctx, t, "other node, IPv6", client, scene.IP(far, true)),
				e.startTraffic(ctx, t, "other tenant, other node, IPv4", other, scene.IP(otherFar, false)),
			}
			interruption.do(t)
			for _, flow := range flows {
				e.expectUnharmed(t, flow)
			}
			// New pods work as well.
			pod := blue.Pod(unique("after"), scene.OnNode(second), scene.WithReadiness(httpProbe("/healthz")))
			e.Run(t, pod)
			e.expectAnswers(t, client, wantPod(pod))
		})
	}
}

// killDaemon kills a node's daemon and waits until its container runs again
// and is ready.
func (e *env) killDaemon(t *testing.T, node string) {
	t.Helper()
	ctx := within(t, patience)
	before, err := e.Lab.DaemonPod(ctx, node)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Lab.KillDaemon(ctx, node); err != nil {
		t.Fatal(err)
	}
	err = scene.Until(ctx, "the daemon on "+node+" to be back", func(ctx context.Context) (bool, string, error) {
		now := &corev1.Pod{}
		err := e.Client.Get(ctx, types.NamespacedName{Namespace: before.Namespace, Name: before.Name}, now)
		return err == nil && restarts(now) > restarts(before) && scene.IsReady(now), fmt.Sprintf("%d restarts", restarts(now)), err
	})
	if err != nil {
		t.Fatalf("%v\n%s", err, e.Describe(context.Background(), before))
	}
}

func restarts(pod *corev1.Pod) (sum int32) {
	for _, container := range pod.Status.ContainerStatuses {
		sum += container.RestartCount
	}
	return sum
}

// rollOutDaemon replaces the daemon's pods on all nodes, as an upgrade does.
func (e *env) rollOutDaemon(t *testing.T) {
	t.Helper()
	ctx := within(t, 2*patience)
	daemon, err := e.Lab.DaemonPod(ctx, e.Lab.Nodes()[0].Name)
	if err != nil {
		t.Fatal(err)
	}
	name := metav1.GetControllerOf(daemon).Name
	patch := `{"spec":{"template":{"metadata":{"annotations":{"e2e.alioth.dev/rollout":` + strconv.Quote(unique("at")) + `}}}}}`
	sets := e.Lab.Client().AppsV1().DaemonSets(cluster.SystemNamespace)
	if _, err := sets.Patch(ctx, name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := e.Lab.WaitDaemonSetReady(ctx, cluster.SystemNamespace, name); err != nil {
		t.Fatal(err)
	}
}

func TestAPodIsDeletedWhileTheDaemonIsAway(t *testing.T) {
	e := start(t)
	first, _ := e.Nodes()
	tenant := e.Tenant(t, stage.Overlapping("blue"))
	pod := tenant.Pod("short-lived", scene.OnNode(first))
	e.Run(t, pod)
	uid := pod.UID
	if err := e.Lab.KillDaemon(within(t, patience), first); err != nil {
		t.Fatal(err)
	}
	if err := e.Delete(within(t, patience), pod); err != nil {
		t.Fatal(err)
	}
	err := scene.Until(within(t, patience), "its addresses to be free", func(ctx context.Context) (bool, string, error) {
		held, err := e.Held(ctx, uid)
		return len(held) == 0, fmt.Sprintf("held: %v", held), err
	})
	if err != nil {
		t.Error(err)
	}
	daemon, err := e.Lab.DaemonPod(within(t, patience), first)
	if err != nil {
		t.Fatal(err)
	}
	e.becomesReady(t, daemon)
}
