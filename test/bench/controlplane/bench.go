// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package controlplane measures the operator and the admission policies, against an API
// server without nodes.
package controlplane

import (
	"io"
	"time"
)

const (
	// setUpTime bounds the preparation before the first measurement.
	setUpTime = 3 * time.Minute
	// samplesPerRound is how many objects of each kind one round of admission writes.
	samplesPerRound = 4
)

// Bench measures the control plane.
type Bench struct {
	root   string
	rounds int
	// profile is the folder for CPU profiles; "" makes none.
	profile string
	out     io.Writer
	step    func(string)
}

// New returns a Bench of the work tree with this root folder. It writes CPU profiles of the API
// server to the folder profile unless that is "", tables to out, and its progress to step.
func New(root string, rounds int, profile string, out io.Writer, step func(string)) *Bench {
	return &Bench{root: root, rounds: rounds, profile: profile, out: out, step: step}
}
