// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package fullnode measures nodes that have very many VPCs or Services: the daemon, as a
// process with a real API server, and the packets of pods that are network namespaces.
package fullnode

import (
	"io"
	"time"

	"github.com/alioth-net/alioth/test/bench/packets"
)

// setUpTime bounds the preparation before the first measurement.
const setUpTime = 3 * time.Minute

// Bench measures full nodes.
type Bench struct {
	root   string
	rounds int
	out    io.Writer
	step   func(string)
	meter  packets.Meter
}

// New returns a Bench of the work tree with this root folder. It measures each rate for a span of
// time, and writes tables to out and its progress to step.
func New(root string, rounds int, span time.Duration, out io.Writer, step func(string)) *Bench {
	return &Bench{root: root, rounds: rounds, out: out, step: step, meter: packets.NewMeter(rounds, span, step)}
}
