// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"net/netip"
	"os/exec"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/cnid/inspect/nodestatus"
	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
	"github.com/alioth-net/alioth/test/testtool/report"
	"github.com/alioth-net/alioth/test/waits"
)

// ctl runs aliothctl on the host, as people do; status 1 is an answer.
func (e *env) ctl(t *testing.T, arguments ...string) (out string, status int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waits.Limit(patience))
	defer cancel()
	cmd := exec.CommandContext(ctx, e.Lab.Aliothctl(), arguments...)
	var printed strings.Builder
	cmd.Stderr = &printed
	text, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		status = exit.ExitCode()
	}
	if err != nil && status != 1 {
		t.Fatalf("aliothctl %s: %v\n%s%s", strings.Join(arguments, " "), err, text, printed.String())
	}
	return string(text), status
}

func TestTrace_RealConnection_SameOutcomeAndReasons(t *testing.T) {
	t.Parallel()
	e := start(t)
	first, second := e.Nodes()
	tenant, other := e.Tenant(t, stage.Overlapping("lost")), e.Tenant(t, scene.TenantSpec{
		Name: "other", CIDRs: []string{"10.20.0.0/16"}, Subnets: []scene.Range{{Name: "net1", CIDRs: []string{"10.20.1.0/24"}}},
	})
	open := e.Tenant(t, scene.TenantSpec{
		Name: "open", Egress: v1alpha1.EgressMasquerade,
		CIDRs: []string{"10.30.0.0/16"}, Subnets: []scene.Range{{Name: "net1", CIDRs: []string{"10.30.1.0/24"}}},
	})
	asker, near, far := tenant.Pod("asker", scene.OnNode(first)), tenant.Pod("near", scene.OnNode(first)), tenant.Pod("far", scene.OnNode(second))
	foreign, goer := other.Pod("foreign", scene.OnNode(second)), open.Pod("goer", scene.OnNode(second))
	e.Run(t, asker, near, far, foreign, goer)

	echo := func(ip netip.Addr) netip.AddrPort { return netip.AddrPortFrom(ip, report.PortEcho) }
	for _, c := range []struct {
		name    string
		from    *corev1.Pod
		to      netip.AddrPort
		reasons string // the steps' reasons
	}{
		{"a pod of the VPC on the same node", asker, echo(scene.IP(near, false)), "forwarded_local"},
		{"a pod of the VPC on another node", asker, echo(scene.IP(far, false)), "forwarded_remote forwarded_local"},
		{"the same over IPv6", asker, echo(scene.IP(far, true)), "forwarded_remote forwarded_local"},
		{"a pod of another VPC", asker, echo(scene.IP(foreign, false)), "egress_closed"},
		{"an address that nobody has", asker, echo(netip.MustParseAddr("10.10.1.200")), "no_endpoint"},
		{"the outside, without egress", asker, echo(netip.MustParseAddr("203.0.113.1")), "egress_closed"},
		{"a node, with egress", goer, echo(e.Lab.Nodes()[0].IPv4), "egress_node"},
		{"the API by its service", asker, netip.MustParseAddrPort("10.96.0.1:443"), "to_stack"},
		{"a port that the service lacks", asker, netip.MustParseAddrPort("10.96.0.1:444"), "replied_refused"},
		{"cluster DNS, on whatever node it runs", asker, netip.MustParseAddrPort("10.96.0.10:53"), "to_stack forwarded_"},
	} {
		t.Run(c.name, func(t *testing.T) {
			pod := c.from.Namespace + "/" + c.from.Name
			text, status := e.ctl(t, "trace", pod, c.to.String(), "-o", "json")
			var steps []nodestatus.PacketTrace
			if err := json.Unmarshal([]byte(text), &steps); err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
			var reasons []string
			for _, step := range steps {
				reasons = append(reasons, step.Reason)
			}
			if got := strings.Join(reasons, " "); got != c.reasons && (!strings.HasSuffix(c.reasons, "_") || !strings.HasPrefix(got, c.reasons)) {
				t.Errorf("the trace says %s, want %s\n%s", got, c.reasons, text)
			}
			target := scene.TargetPort("connect", c.to.Addr(), c.to.Port())
			wait := silenceTime
			if status == 0 {
				wait = answerTime
			}
			connected := e.connects(t, c.from, target, wait)
			if connected != (status == 0) {
				t.Errorf("connected: %t; the trace ends with status %d\n%s", connected, status, text)
			}
			if last := steps[len(steps)-1].Reason; last == "replied_refused" {
				return // the sender gets an error, so this does not count as a drop
			}
			if !connected {
				e.expectDrop(t, c.from, c.to, steps[len(steps)-1].Reason)
				return
			}
			e.expectFlow(t, c.from, c.to, steps[0].Reason)
		})
	}
	t.Run("drops shows nothing that kernels send by themselves", func(t *testing.T) {
		for _, pod := range []*corev1.Pod{asker, near, far, foreign, goer} {
			e.expectNotShown(t, netip.Addr.IsMulticast, "--pod", pod.Namespace+"/"+pod.Name)
		}
		// Other scenes may have pods that send to groups, but no pod of theirs reports groups.
		reports := func(ip netip.Addr) bool { return ip == netip.MustParseAddr("ff02::16") } // RFC 3810
		e.expectNotShown(t, reports)
	})
	t.Run("status and maps of a node name the pod", func(t *testing.T) {
		for _, command := range [][]string{{"status"}, {"map", "dump"}} {
			text, _ := e.ctl(t, append(command, "--node", first)...)
			if !strings.Contains(text, asker.Namespace+"/"+asker.Name) || !strings.Contains(text, tenant.VPC.Name) {
				t.Errorf("%v:\n%s", command, text)
			}
		}
	})
}

// connects reports whether a connection can be made from a pod.
func (e *env) connects(t *testing.T, from *corev1.Pod, target string, wait time.Duration) bool {
	t.Helper()
	results, err := e.Ask(within(t, patience), from, wait, target)
	if err != nil {
		t.Fatal(err)
	}
	return len(results) == 1 && results[0].OK
}

// expectDrop looks for the drop of a packet that was just sent.
func (e *env) expectDrop(t *testing.T, from *corev1.Pod, to netip.AddrPort, reason string) {
	t.Helper()
	pod := from.Namespace + "/" + from.Name
	err := scene.Until(within(t, patience), "the drop to be shown", func(context.Context) (bool, string, error) {
		text, _ := e.ctl(t, "drops", "--pod", pod, "-o", "json")
		shown := false
		err := nodestatus.DecodePackets(strings.NewReader(text), func(drop nodestatus.Packet) error {
			shown = shown || drop.Reason == reason && drop.Pod == pod && drop.VPC == from.Namespace && drop.Node == from.Spec.NodeName &&
				drop.Came != nil && drop.Came.Dst.IP == to.Addr() && drop.Came.Dst.Port == to.Port()
			return nil
		})
		return shown, text, err
	})
	if err != nil {
		t.Error(err)
	}
}

// expectFlow makes a flow pass again and again until it is shown.
func (e *env) expectFlow(t *testing.T, from *corev1.Pod, to netip.AddrPort, reason string) {
	t.Helper()
	pod, target := from.Namespace+"/"+from.Name, scene.TargetPort("connect", to.Addr(), to.Port())
	ctx, stop := context.WithCancel(within(t, patience))
	var unable error
	passing := make(chan struct{})
	go func() {
		defer close(passing)
		for ctx.Err() == nil && unable == nil {
			_, unable = e.Ask(ctx, from, answerTime, target)
		}
	}()
	err := scene.Until(ctx, "the flow to be shown", func(context.Context) (bool, string, error) {
		text, _ := e.ctl(t, "flows", "--pod", pod, "--for", "2s", "-o", "json")
		shown := false
		err := nodestatus.DecodePackets(strings.NewReader(text), func(flow nodestatus.Packet) error {
			shown = shown || flow.Reason == reason && flow.Pod == pod && flow.VPC == from.Namespace && flow.Node == from.Spec.NodeName &&
				flow.Came != nil && flow.Came.Dst.IP == to.Addr() && flow.Came.Dst.Port == to.Port()
			return nil
		})
		return shown, text, err
	})
	stop()
	<-passing
	if err != nil {
		t.Error(err, unable)
	}
}

// expectNotShown requires that `aliothctl drops` shows no packet to some destinations.
func (e *env) expectNotShown(t *testing.T, hidden func(netip.Addr) bool, arguments ...string) {
	t.Helper()
	text, _ := e.ctl(t, append([]string{"drops", "-o", "json"}, arguments...)...)
	err := nodestatus.DecodePackets(strings.NewReader(text), func(drop nodestatus.Packet) error {
		if drop.Came != nil && hidden(drop.Came.Dst.IP) {
			t.Errorf("shown: %+v, %+v", drop, drop.Came)
		}
		return nil
	})
	if err != nil {
		t.Errorf("%v:\n%s", err, text)
	}
}
