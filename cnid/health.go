// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cnid

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/cnid/install"
	"github.com/alioth-net/alioth/cnid/journal"
	"github.com/alioth-net/alioth/cnid/netdev/hostdev"
	"github.com/alioth-net/alioth/cnid/netfilter/foreign"
	"github.com/alioth-net/alioth/cnid/plan"
	"github.com/alioth-net/alioth/cnid/report"
)

// takeRepairs returns what was repaired since the last call.
func (k *kernel) takeRepairs() []report.Repair {
	list := k.repaired
	k.repaired = nil
	for _, r := range k.host.Repaired() {
		list = append(list, report.Repair(r))
	}
	if k.path == nil {
		return list
	}
	for _, r := range k.path.Repaired() {
		list = append(list, report.Repair(r))
	}
	return list
}

// observer is told what passes found. Its methods must not block.
type observer interface {
	Repaired(list []report.Repair)
	Problems(list []report.Problem)
	// missing is told the attachments whose device is gone.
	missing(list []journal.Record)
}

// tell hands on what a pass found.
func (s *syncer) tell(o outcome, thorough bool) {
	if s.kernel.host == nil || s.observe == nil {
		return
	}
	if list := s.kernel.takeRepairs(); len(list) > 0 {
		for _, r := range list {
			s.metrics.repairs.WithLabelValues(r.Kind).Inc()
		}
		s.log.Warn("put right what others had changed", "repairs", list)
		s.observe.Repaired(list)
	}
	if len(o.missing) > 0 {
		s.observe.missing(o.missing)
	}
	// A node that was never programmed says so by not being announced.
	if mtu, _ := s.PodMTU(); mtu != 0 && (thorough || o.err != nil) {
		select {
		case <-s.doubts: // nobody has looked yet, and this is newer
		default:
		}
		s.doubts <- doubt{failure: o.err, traffic: s.kernel.traffic(), mtu: s.kernel.underlay.PodMTU}
	}
}

// doubt is what to look for problems with.
type doubt struct {
	// failure is why the node can't be programmed, or nil.
	failure error
	traffic foreign.Traffic
	// mtu is what the node's network carries of pods.
	mtu int
}

// lookout looks for problems after passes, until ctx ends. It does so beside the next
// ones: other programs may have tens of thousands of rules.
func (s *syncer) lookout(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case d := <-s.doubts:
			s.observe.Problems(s.problems(ctx, d))
		}
	}
}

// problems looks for everything that waits for a person.
func (s *syncer) problems(ctx context.Context, d doubt) []report.Problem {
	var list []report.Problem
	blocks, err := foreign.Blocks(ctx, d.traffic)
	if err != nil {
		s.log.Warn("can't read other programs' packet filters", "error", err)
	}
	for _, b := range blocks {
		list = append(list, report.Problem{Reason: v1alpha1.TrafficBlockedReason, Message: b.String()})
	}
	other, err := install.ConfigurationBefore(s.kernel.cfg.CNIConfDir)
	if err != nil {
		s.log.Warn("can't look for other CNI configurations", "error", err)
	}
	if other != "" {
		list = append(list, report.Problem{Reason: v1alpha1.OtherCNIConfigurationReason, Message: fmt.Sprintf(
			"%s in the node's directory of CNI configurations comes before %s, so the container runtime uses that for new pods; remove it", other, install.ConflistName)})
	}
	if taken := s.problemBeside(); taken != "" {
		list = append(list, report.Problem{Reason: v1alpha1.ProxyHealthUnservedReason, Message: taken})
	}
	list = append(list, mtuProblems(s.journal.Records(), d.mtu)...)
	var warnings []string
	for _, p := range list {
		warnings = append(warnings, p.Message)
	}
	// Unread tables may be empty, so they do not make the node unhealthy.
	warnings = append(warnings, foreign.Unread()...)
	s.mu.Lock()
	s.warnings = warnings
	s.mu.Unlock()
	if d.failure != nil {
		list = slices.Insert(list, 0, report.Problem{Reason: v1alpha1.NotProgrammedReason, Message: d.failure.Error()})
	}
	return list
}

// traffic is what the host must let through.
func (k *kernel) traffic() foreign.Traffic {
	t := foreign.Traffic{
		PodDevices: hostdev.PodPrefix, NodeDevice: hostdev.Node, TunnelPort: k.cfg.TunnelPort,
		Underlay: k.underlay.Device, HostPorts: len(k.filter.HostPorts) > 0,
	}
	if k.pushOn() == 0 {
		t.Tunnel = k.tunnel // elsewhere the host's stack sees nothing of it
	}
	// Nothing leaves the node in a family that it has no address of.
	for _, source := range []netip.Addr{k.opened.TunnelSource4, k.opened.TunnelSource6} {
		if shadow := k.cfg.shadow(source.Is4()); source.IsValid() && shadow.IsValid() {
			t.Shadows = append(t.Shadows, shadow)
		}
	}
	return t
}

// mtuProblems returns what does not fit a network that carries packets of pods up
// to so many bytes.
func mtuProblems(records []journal.Record, carried int) []report.Problem {
	var larger, below []string
	for _, rec := range records {
		if rec.Phase != journal.PhaseDone || !rec.InVPC() {
			continue // outside of every VPC the node's network carries nothing of it
		}
		mtu := plan.PodMTU(carried, rec.Addrs)
		if rec.MTU > mtu {
			larger = append(larger, rec.Pod.String())
		}
		if mtu > carried {
			below = append(below, rec.Pod.String())
		}
	}
	var list []report.Problem
	if len(larger) > 0 {
		list = append(list, report.Problem{Reason: v1alpha1.PodMTUTooLargeReason, Message: fmt.Sprintf(
			"the node's network carries packets of pods up to %d bytes now, and %s could not be given that MTU, so each has to be told by ICMP;"+
				" delete and recreate them, or give the network its MTU back", carried, named(larger))})
	}
	if len(below) > 0 {
		list = append(list, report.Problem{Reason: v1alpha1.MTUBelowIPv6Reason, Message: fmt.Sprintf(
			"the node's network carries packets of pods up to %d bytes, and IPv6 needs %d; larger packets are fragmented in the tunnel,"+
				" which costs throughput; raise the MTU of the node's network by %d bytes: %s",
			carried, plan.MinMTU6, plan.MinMTU6-carried, named(below))})
	}
	return list
}

// named counts pods and names the first few.
func named(pods []string) string {
	slices.Sort(pods)
	pods = slices.Compact(pods)
	first := pods[:min(len(pods), 5)]
	return fmt.Sprintf("%d pod(s) (%s%s)", len(pods), strings.Join(first, ", "), report.AndMore(len(pods)-len(first)))
}
