// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import "regexp"

// try is something that a user can paste into a shell after the demo.
type try struct {
	// why explains the output.
	why string
	// command runs in the root folder of the work tree.
	command string
	// shows is in its output.
	shows *regexp.Regexp
}

// tries returns the commands at the end of the demo. A test runs them.
func tries() []try {
	return []try{
		{
			"One address, two tenants: the same question in each VPC gets another answer",
			"for t in customer-a customer-b; do .cluster/bin/kubectl exec -n $t web-1 -- /testtool dial http 10.10.1.12:8080/hostname; done",
			regexp.MustCompile(`(?s)customer-a/web-2.*customer-b/web-2`),
		},
		{
			"The path of a packet: each node's programs say what they do with it",
			".cluster/bin/aliothctl trace customer-a/web-1 10.10.2.12:8080",
			regexp.MustCompile(`customer-a/db-2`),
		},
		{
			"What went wrong: the demo asked across tenants; here are the drops, and what one means",
			".cluster/bin/aliothctl drops; .cluster/bin/aliothctl explain no_endpoint",
			regexp.MustCompile(`(?s)no_endpoint.*no pod or Service of the VPC has this address`),
		},
	}
}
