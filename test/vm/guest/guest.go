// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package guest is the agreement of the host and the init of a virtual machine: the plan that init
// finds in its file system, and the messages that it answers with.
package guest

import "time"

const (
	// PlanFile holds the Plan as JSON.
	PlanFile = "/plan.json"
	// Results is the guest's device that takes Messages, one line of JSON each.
	Results = "/dev/ttyS1"
)

// Plan is the work of a machine from its start to its end.
type Plan struct {
	// Modules are files of kernel modules in the order of loading.
	Modules []string
	// Environment has variables of every test, KEY=value, besides the ones that it always has.
	Environment []string
	Tests       []Test
}

// Test is one test binary, as `go test -c` makes it.
type Test struct {
	// Package is the import path that the binary tests.
	Package string
	// Binary is the file, Dir the folder it runs in, with the package's test
	// data.
	Binary, Dir string
	Args        []string
	// Limit bounds the time that it may take.
	Limit time.Duration
}

// Message is something that happened in the guest.
type Message struct {
	// Package is the package of the running test, empty before the first and after the last.
	Package string `json:",omitempty"`
	// Output is the output of the test.
	Output []byte `json:",omitempty"`
	// Ended: the test's process has ended. Failure describes how, if it failed.
	Ended   bool   `json:",omitempty"`
	Failure string `json:",omitempty"`
	// Release is the kernel's, in the first message.
	Release string `json:",omitempty"`
	// Finished: this is the last message. Its Failure is why the plan was not carried
	// out, if it was not.
	Finished bool `json:",omitempty"`
}
