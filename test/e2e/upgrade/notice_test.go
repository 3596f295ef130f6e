// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"context"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nmstatev1 "github.com/alioth-net/alioth/api/nmstate/v1"
	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
	"github.com/alioth-net/alioth/test/testtool/report"
)

// awaitIngress waits for the addresses of the load balancer.
func (w *town) awaitIngress(t *testing.T) {
	t.Helper()
	err := scene.Until(within(t), "the addresses of the load balancer", func(ctx context.Context) (bool, string, error) {
		err := w.Client.Get(ctx, client.ObjectKeyFromObject(w.balanced), w.balanced)
		ingress := w.balanced.Status.LoadBalancer.Ingress
		return len(ingress) > 0, fmt.Sprintf("%+v", ingress), err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// traffic is all that flows while the version changes.
type traffic struct {
	streams []*stage.Traffic
	load    *stage.Running
	opened  report.Connections
	talk    *stage.Running
	talks   []report.Conversation
}

// begin starts the traffic, and returns when all of it flows.
func (w *town) begin(ctx context.Context, t *testing.T) *traffic {
	t.Helper()
	f := &traffic{}
	cluster, vip := netip.MustParseAddr(w.web.Spec.ClusterIP), netip.MustParseAddr(w.balanced.Status.LoadBalancer.Ingress[0].IP)
	f.streams = []*stage.Traffic{
		w.StartTraffic(ctx, t, "same node, IPv4", w.client, scene.IP(w.near, false)),
		w.StartTraffic(ctx, t, "other node, IPv4", w.client, scene.IP(w.far, false)),
		w.StartStream(ctx, t, "other node, IPv6", w.near, scene.IP(w.far, true)),
		w.StartStream(ctx, t, "other tenant, other node, IPv4", w.other, scene.IP(w.otherFar, false)),
		w.StartStream(ctx, t, "ClusterIP", w.client, cluster),
		w.StartStream(ctx, t, "ClusterIP, translated in packets", w.machine, cluster),
		w.StartStream(ctx, t, "load balancer in the VPC", w.client, vip),
		w.StartStream(ctx, t, "further interface", w.left, w.OnDevice(t, w.right, second, false)),
		w.StartStreamFromHost(ctx, t, "node port", w.host, w.nodePort()),
	}
	f.load = w.Begin(ctx, w.near, &f.opened, "connections", service(w.web.Spec.ClusterIP, report.PortEcho), "--rate", "20")
	f.talk = w.Begin(ctx, w.client, &f.talks, "converse", udp("udp", scene.IP(w.far, false)), udp("datagrams", cluster))
	for _, running := range []*stage.Running{f.load, f.talk} {
		if err := w.AwaitBegun(ctx, running); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

// expectUnharmed ends the traffic, and requires that nothing of it was lost.
func (w *town) expectUnharmed(t *testing.T, f *traffic) {
	t.Helper()
	for _, stream := range f.streams {
		w.ExpectUnharmed(t, stream)
	}
	for _, running := range []*stage.Running{f.load, f.talk} {
		if err := w.End(within(t), running); err != nil {
			t.Error(err)
			return
		}
	}
	t.Logf("%d new connections to the ClusterIP, longest %s", f.opened.Opened, f.opened.Took.Max)
	if o := f.opened; o.Lost != 0 || o.Answered != o.Opened || o.Opened == 0 {
		t.Errorf("%d of %d new connections to the ClusterIP were lost: %+v", o.Lost, o.Opened, o.Losses)
	}
	for _, talk := range f.talks {
		t.Logf("%s: %d lines, %d answered", talk.Target, talk.Sent, talk.Answered)
		// The end of the command may come before the last answer.
		if talk.Broken != 0 || talk.Sent-talk.Answered > 1 || talk.Answered == 0 {
			t.Errorf("%s: %d of %d lines were answered, broken %d times: %v", talk.Target, talk.Answered, talk.Sent, talk.Broken, talk.Breaks)
		}
	}
}

// facts returns the properties that must be the same after a change: since when nodes and pods are
// Ready, and how often containers were started again. A probe that failed shows in them.
func (w *town) facts(ctx context.Context, t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{"bridge": w.device(t)}
	for _, pod := range w.pods() {
		now := &corev1.Pod{}
		if err := w.Client.Get(ctx, client.ObjectKeyFromObject(pod), now); err != nil {
			t.Fatal(err)
		}
		ready := scene.PodCondition(now, corev1.PodReady)
		all["pod "+now.Namespace+"/"+now.Name] = fmt.Sprintf(
			"UID %s, Ready %s since %s, %d restarts",
			now.UID,
			ready.Status,
			ready.LastTransitionTime,
			now.Status.ContainerStatuses[0].RestartCount,
		)
	}
	var nodes corev1.NodeList
	if err := w.Client.List(ctx, &nodes); err != nil {
		t.Fatal(err)
	}
	for _, node := range nodes.Items {
		for _, condition := range node.Status.Conditions {
			switch condition.Type {
			case corev1.NodeReady:
				all["node "+node.Name+" is Ready"] = fmt.Sprintf("%s since %s", condition.Status, condition.LastTransitionTime)
			case corev1.NodeNetworkUnavailable: // of v0.1.0 each daemon has a time of its own
				all["node "+node.Name+" has no network"] = string(condition.Status)
			}
		}
	}
	return all
}

// expectUnnoticed changes something about Alioth, and requires that nobody notices.
func (w *town) expectUnnoticed(t *testing.T, change func(ctx context.Context) error) {
	t.Helper()
	ctx := within(t)
	before, facts := w.Decided(ctx, t), w.facts(ctx, t)
	flowing, coming := w.begin(ctx, t), w.welcome(ctx)
	began := time.Now()
	if err := change(ctx); err != nil {
		t.Error(err)
	}
	t.Logf("the change took %s", time.Since(began).Round(time.Millisecond))
	w.guests = append(w.guests, w.expectArrived(t, coming)...)
	w.expectUnharmed(t, flowing)
	w.ExpectDecided(ctx, t, before)
	if diff := cmp.Diff(facts, w.facts(ctx, t)); diff != "" {
		t.Errorf("nodes or pods have noticed it (-before +after):\n%s", diff)
	}
	w.AwaitPolicy(t, w.policy, nmstatev1.AvailableCondition)
	for _, guest := range w.guests {
		w.ExpectAnswers(t, w.client, stage.WantPod(guest))
	}
}
