// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package danm

import (
	"fmt"

	"github.com/alioth-net/alioth/operator/feed"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/multinet"
)

// nodesInMessage is how many nodes without a link are named.
const nodesInMessage = 3

// linkState is what the nodes report about the host link of a network.
type linkState struct {
	complete bool
	message  string
}

// linkOf returns the state of a network's host link, nil for a network without one. A report
// counts for the node of its name alone, and only while the Node exists.
func linkOf(tx store.ReadTx, net *multinet.Network) *linkState {
	id, ok := net.Link()
	if !ok {
		return nil
	}
	var nodes []string
	cause := ""
	for report := range multinet.LinkReports(tx) {
		if store.GetNode(tx, report.Name) == nil {
			continue
		}
		for _, failure := range report.Failures {
			if failure.Concerns(id) {
				nodes = append(nodes, fmt.Sprintf("%s (%s)", report.Name, failure.Reason))
				if cause == "" {
					cause = failure.Message
				}
				break
			}
		}
	}
	if len(nodes) == 0 {
		return &linkState{complete: true, message: fmt.Sprintf("no node reports that it lacks %s", id)}
	}
	return &linkState{message: fmt.Sprintf("%d node(s) lack %s: %s; the first says: %s", len(nodes), id, some(nodes, nodesInMessage), cause)}
}

// ofReport requests the networks whose links a report is about, as it was and as it is.
func (w watch) ofReport(tx store.ReadTx, old, now *multinet.LinkReport) []feed.Request {
	var failures []multinet.LinkFailure
	for _, report := range []*multinet.LinkReport{old, now} {
		if report != nil {
			failures = append(failures, report.Failures...)
		}
	}
	var all []feed.Request
	for net := range multinet.Networks(tx) {
		id, ok := net.Link()
		for _, failure := range failures {
			if ok && failure.Concerns(id) {
				all = append(all, w.of(net)...)
				break
			}
		}
	}
	return later(all)
}
