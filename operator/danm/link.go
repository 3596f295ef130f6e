// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package danm

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/feed"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/multinet"
	"github.com/alioth-net/alioth/store/rows/nmstate"
)

// nodesInMessage is how many nodes without a link are named.
const nodesInMessage = 3

// linkState is the nodes' report about the link that a network needs on them.
type linkState struct {
	// complete: no node lacks it; everywhere: all nodes do.
	complete, everywhere bool
	message              string
}

// linkOf returns the state of a network's host link or device, nil for a network without one.
// A report counts for the node of its name alone, and only while the Node exists.
func linkOf(tx store.ReadTx, net *multinet.Network) *linkState {
	id, ok := net.OnNodes()
	if !ok {
		return nil
	}
	lacking := map[string]bool{}
	var nodes []string
	cause, advice := "", ""
	for report, failure := range multinet.FailuresOf(tx, id) {
		row := store.GetNode(tx, report.Name)
		if row == nil || row.Deleting || lacking[report.Name] {
			continue
		}
		lacking[report.Name] = true
		nodes = append(nodes, fmt.Sprintf("%s (%s)", report.Name, failure.Reason))
		cause = cmp.Or(cause, failure.Message)
		if failure.Reason == v1alpha1.ParentMissingReason && advice == "" {
			advice = makersOf(tx, id.Device)
		}
	}
	if len(nodes) == 0 {
		return &linkState{complete: true, message: fmt.Sprintf("no node reports that it lacks %s", id)}
	}
	return &linkState{
		everywhere: areAll(tx, len(nodes)),
		message: fmt.Sprintf(
			"%d node(s) lack %s: %s; the first says: %s%s",
			len(nodes),
			id,
			some(nodes, nodesInMessage),
			cause,
			advice,
		),
	}
}

// makersOf names the policies that would make a device on nodes, with their results; "" without
// any.
func makersOf(tx store.ReadTx, device string) string {
	var text strings.Builder
	for row := range nmstate.Policies(tx) {
		if makes(row, device) {
			fmt.Fprintf(&text, "; %s %s would make it: %s", row.Spec.Kind, row.Spec.Name, statusText(row))
		}
	}
	return text.String()
}

// statusText summarises the status of a policy for a condition message.
func statusText(row *nmstate.Policy) string {
	if row.Reason == "" {
		return "it has no status yet"
	}
	return row.Reason + ", " + row.Message
}

// makes reports whether a policy has an interface with the name of a device that a node can make.
// No node makes hardware.
func makes(row *nmstate.Policy, device string) bool {
	interfaces, _ := row.Spec.Desired["interfaces"].([]any)
	return slices.ContainsFunc(interfaces, func(one any) bool {
		fields, _ := one.(map[string]any)
		state, _ := fields["state"].(string)
		return fields["name"] == device && state != "absent" && state != "ignore" && fields["type"] != "ethernet"
	})
}

// ofPolicy requests the networks on devices that a policy would make, before or after its change:
// their condition shows the state of the policy.
func (w watch) ofPolicy(tx store.ReadTx, old, now *nmstate.Policy) []feed.Request {
	var all []feed.Request
	for net := range multinet.Networks(tx) {
		id, ok := net.OnNodes()
		if ok && (old != nil && makes(old, id.Device) || now != nil && makes(now, id.Device)) {
			all = append(all, w.of(net)...)
		}
	}
	return later(all)
}
