// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package problems

import (
	"fmt"
	"slices"
	"strings"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/cnid/forward/finding"
	"github.com/alioth-net/alioth/cnid/interfaces/ifdriver"
	"github.com/alioth-net/alioth/cnid/interfaces/journal"
)

// mtuProblems returns the problems of attachments with a network of this MTU for pods.
func mtuProblems(records []journal.Record, carried int) []finding.Problem {
	var larger, below []string
	for _, rec := range records {
		if rec.Phase != journal.PhaseDone || !rec.Carried() {
			continue // the node's network carries nothing of it
		}
		mtu := ifdriver.PodMTU(carried, rec.Addrs)
		if rec.MTU > mtu {
			larger = append(larger, rec.Pod.String())
		}
		if mtu > carried {
			below = append(below, rec.Pod.String())
		}
	}
	var list []finding.Problem
	if len(larger) > 0 {
		list = append(list, finding.Problem{Reason: v1alpha1.PodMTUTooLargeReason, Message: fmt.Sprintf(
			"the node's network carries packets of pods up to %d bytes now, and the MTU of %s could not be changed, so ICMP errors have to report it;"+
				" delete and recreate them, or restore the network's MTU",
			carried,
			named(larger),
		)})
	}
	if len(below) > 0 {
		list = append(list, finding.Problem{Reason: v1alpha1.MTUBelowIPv6Reason, Message: fmt.Sprintf(
			"the node's network carries packets of pods up to %d bytes, and IPv6 needs %d; larger packets are fragmented in the tunnel,"+
				" which costs throughput; raise the MTU of the node's network by %d bytes: %s",
			carried,
			ifdriver.MinMTU6,
			ifdriver.MinMTU6-carried,
			named(below),
		)})
	}
	return list
}

// named counts pods and names the first few.
func named(pods []string) string {
	slices.Sort(pods)
	pods = slices.Compact(pods)
	first := pods[:min(len(pods), 5)]
	return fmt.Sprintf("%d pod(s) (%s%s)", len(pods), strings.Join(first, ", "), finding.AndMore(len(pods)-len(first)))
}
