// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package reports

import (
	"cmp"
	"slices"
	"testing"
)

// Report is a public report, as a case of this product.
type Report struct {
	// Name of the case: lower case, with dashes.
	Name string
	// Source is the project and the number of the report, as cilium/cilium#8185.
	Source string
	Kind   Kind
	// Input is the situation.
	Input string
	// Want is the right value.
	Want string
	// Run asks the lab. Cases run beside others, on the pods that all share or on tenants
	// of their own.
	Run func(t *testing.T, l *lab)
	// Disturbs: Run stops or restarts something that other cases need. Such cases run one
	// after the other, when all others have ended.
	Disturbs bool
	// Outage is the outage that Run goes through together with other cases, by its method during.
	Outage *outage
	// Test is set in place of Run where a test elsewhere has the right value: its folder, a space,
	// and its name, with the name of the subtest after a slash.
	Test string
}

// Kind groups reports by subject.
type Kind string

// Kinds of reports.
const (
	udpFlows   Kind = "flows of UDP"
	tcpPorts   Kind = "source ports"
	affinity   Kind = "session affinity"
	hairpin    Kind = "pods that ask themselves"
	bigPackets Kind = "big packets"
	endpoints  Kind = "endpoints"
	ending     Kind = "endpoints that end"
	names      Kind = "DNS"
	outside    Kind = "clients outside"
	balancers  Kind = "load balancers"
	refusals   Kind = "refusals"
	sockets    Kind = "sockets"
	values     Kind = "values that can't work"
	danm       Kind = "DANM"
	selections Kind = "NetworkAttachmentDefinitions"
	nodeIPAM   Kind = "node IPAM API"
	restarts   Kind = "restarts and outages"
	fullTables Kind = "full tables and ranges"
	addresses  Kind = "addresses and their holders"
	interfaces Kind = "further interfaces"
)

var reports []Report

// kept adds a report to the reports of the package.
//
//nolint:unparam // the result lets a variable of a file call it
func kept(r Report) Report {
	reports = append(reports, r)
	return r
}

// sorted returns all reports by kind and name.
func sorted() []Report {
	return slices.SortedFunc(slices.Values(reports), func(a, b Report) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
	})
}
